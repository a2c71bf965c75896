// A block: the states of its threads, and its barrier.
#pragma once
#include "errors.h"
#include "fibers.h"
#include <string.h>

struct uint3 {
    unsigned x, y, z;
};

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
};

constexpr int warpSize = 32;
SIMULATOR_STATE uint3 threadIdx, blockIdx;
SIMULATOR_STATE dim3 blockDim, gridDim;

namespace simulator {
constexpr unsigned MAX_THREADS = MAX_FIBERS, WARPS = MAX_THREADS / 32;

/* A place in the source where threads meet: its line, and a number that differs within a line. */
struct Site {
    unsigned line, number;
};

#define SIMULATOR_SITE (::simulator::Site{__LINE__, __COUNTER__})

inline bool operator!=(Site a, Site b) { return a.line != b.line || a.number != b.number; }

struct Thread;
typedef void (*Resolve)(Thread *warp, unsigned participants);
typedef bool (*Condition)(const Thread *thread);
typedef void (*Describe)(const Thread *thread, char *text, size_t size);

enum class State : unsigned char { unstarted, ready, at_barrier, in_exchange, waiting, finished };

struct Thread {
    Fiber *fiber;
    uint3 index;
    unsigned number, lane;
    State state;
    Site site;  // where it waits
    // An exchange of its warp (warp.h): what it gives, to whom, and what it receives.
    unsigned mask, source;
    Resolve resolve;
    unsigned given[10], received[4];
    // What it waits for (waiting.h).
    Condition condition;
    Describe describe;
    void *object;
    int64_t value;
};

struct Block {
    Thread threads[MAX_THREADS];
    unsigned size, alive;     // all threads, and those that have not finished
    unsigned arrived, count;  // threads at the barrier, and those of them whose predicate holds
    unsigned counted;         // the count of the last barrier
    unsigned exited[WARPS];   // lanes that have finished, or do not exist
    unsigned waiting[WARPS];  // lanes in exchanges
    unsigned barriers, warp_barriers;
};

/* Tokens by which ThreadSanitizer knows what waited for what. */
struct Tokens {
    char barriers[2][8], warp_barriers[WARPS * 4][8], lanes[MAX_THREADS][8];
};

SIMULATOR_STATE Block block;
SIMULATOR_STATE uint64_t blocks_begun;  // of all launches
SIMULATOR_STATE Tokens tokens;
SIMULATOR_STATE Thread *current;  // null on the host
SIMULATOR_STATE const char *kernel_name;
SIMULATOR_STATE void (*kernel_body)(void *);
SIMULATOR_STATE void *kernel_arguments;
SIMULATOR_STATE bool failed;  // this launch: its threads are abandoned

/* Abandons the kernel, if a thread runs one: its error is that of all later calls. */
__attribute__((format(printf, 2, 3)))
SIMULATOR_UNSEEN inline void fail(cudaError_t error, const char *format, ...) {
    char text[800];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    sticky_error = error;
    if (!current) {
        report(error, "kernel %s, block (%u, %u, %u): %s", kernel_name, blockIdx.x, blockIdx.y, blockIdx.z, text);
        failed = true;
        return;
    }
    report(error, "kernel %s, block (%u, %u, %u), thread (%u, %u, %u): %s", kernel_name, blockIdx.x, blockIdx.y,
           blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z, text);
    failed = true;
    suspend(current->fiber, true);
    abort();  // an abandoned fiber is never continued
}

SIMULATOR_UNSEEN inline void misaligned(const void *address, size_t bytes) {
    if (current) {
        fail(cudaErrorMisalignedAddress, "a vector of %zu bytes must be at a multiple of its size, not at %p", bytes,
             address);
    }
}

/* Continues all threads that wait at the barrier. */
SIMULATOR_UNSEEN inline void open_barrier() {
    for (unsigned i = 0; i < block.size; i++) {
        if (block.threads[i].state == State::at_barrier) {
            block.threads[i].state = State::ready;
        }
    }
    block.counted = block.count;
    block.arrived = block.count = 0;
    block.barriers++;
}

/* Waits for all threads of the block that have not finished, and counts those whose predicate holds. */
SIMULATOR_UNSEEN inline void barrier(Site site, bool predicate = false) {
    Thread *const thread = current;
    for (unsigned i = 0; block.arrived && i < block.size; i++) {
        const Thread &other = block.threads[i];
        if (other.state == State::at_barrier && other.site != site) {
            fail(cudaErrorLaunchFailure, "__syncthreads() in line %u, while thread (%u, %u, %u) waits in line %u: all "
                 "threads of a block must reach the same barrier", site.line, other.index.x, other.index.y,
                 other.index.z, other.site.line);
        }
        if (other.state == State::at_barrier) {
            break;  // all others that wait agree with it
        }
    }
    void *const token = tokens.barriers[block.barriers % 2];
    release(token);
    thread->site = site;
    thread->state = State::at_barrier;
    block.count += predicate;
    if (++block.arrived == block.alive) {
        open_barrier();
    } else {
        suspend(thread->fiber, false);
    }
    acquire(token);
}
}  // namespace simulator

#define __syncthreads() ::simulator::barrier(SIMULATOR_SITE)
#define __syncthreads_count(predicate) \
    (::simulator::barrier(SIMULATOR_SITE, (predicate) != 0), static_cast<int>(::simulator::block.counted))
#define __syncthreads_or(predicate) (__syncthreads_count(predicate) != 0)
#define __syncthreads_and(predicate) (__syncthreads_count((predicate) == 0) == 0)
