// The scheduler: it runs each thread of a block until it waits for others, or has finished.
#pragma once
#include "block.h"
#include "bulk_copies.h"
#include "named_barriers.h"
#include "registers.h"
#include "waiting.h"
#include "warp.h"
#include "warpgroups.h"

namespace simulator {
/* Runs the kernel on a fiber, to its end. */
SIMULATOR_UNSEEN inline void thread_main() {
    begin_fiber();
    kernel_body(kernel_arguments);
    Thread *const thread = current;
    check_stores_were_read(thread);
    check_products_were_awaited(thread);
    thread->state = State::finished;
    block.exited[thread->number / 32] |= 1u << thread->lane;
    complete_exchanges_without(thread->number / 32, thread->lane);
    if (--block.alive && block.arrived == block.alive) {
        open_barrier();
    }
    suspend(thread->fiber, true);
    abort();  // a finished fiber is never continued
}

/* Runs a thread until it waits or has finished. */
SIMULATOR_UNSEEN inline void run_thread(Thread *thread) {
    if (thread->state == State::unstarted) {
        thread->fiber = take_fiber(thread->number);
        start_fiber(thread->fiber, thread->number, thread_main);
        thread->state = State::ready;
    }
    current = thread;
    threadIdx = thread->index;
    resume(thread->fiber);
    current = nullptr;
    if (thread->state == State::finished) {
        give_fiber(thread->fiber);
    }
}

/* Says what a thread waits for. */
SIMULATOR_UNSEEN inline void describe(const Thread *thread, char *text, size_t size) {
    if (thread->state == State::waiting) {
        thread->describe(thread, text, size);
    } else {
        snprintf(text, size, "%s in line %u",
                 thread->state == State::at_barrier ? "at __syncthreads()" : "in a warp's exchange", thread->site.line);
    }
}

inline bool wait_alike(const Thread &a, const Thread &b) {
    return a.state == b.state && (a.state == State::waiting ? a.object == b.object : !(a.site != b.site));
}

/* Fails since all threads wait: names one for each thing that they wait for, as far as there is room. */
SIMULATOR_UNSEEN inline void report_deadlock() {
    const Thread *named[5];
    unsigned count = 0;
    char text[700] = "";
    for (unsigned i = 0, j; i < block.size && count < sizeof named / sizeof *named; i++) {
        const Thread *const thread = &block.threads[i];
        for (j = 0; j < count && !wait_alike(*thread, *named[j]); j++) {
        }
        if (thread->state == State::finished || j < count) {
            continue;
        }
        char what[140];
        describe(thread, what, sizeof what);
        const size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s thread (%u, %u, %u) %s%s", count ? "," : "", thread->index.x,
                 thread->index.y, thread->index.z, count ? "" : "waits ", what);
        named[count++] = thread;
    }
    fail(cudaErrorLaunchFailure, "deadlock:%s", text);
}

/* Numbers the threads of all blocks of a grid. */
SIMULATOR_UNSEEN inline void begin_grid() {
    block.size = blockDim.x * blockDim.y * blockDim.z;
    for (unsigned i = 0; i < block.size; i++) {
        Thread &thread = block.threads[i];
        thread.number = i;
        thread.lane = i % 32;
        thread.index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / (blockDim.x * blockDim.y)};
    }
}

/* Prepares the threads of the next block. */
SIMULATOR_UNSEEN inline void begin_block() {
    blocks_begun++;
    block.alive = block.size;
    block.arrived = block.count = block.barriers = block.warp_barriers = 0;
    for (unsigned w = 0; w < WARPS; w++) {
        const unsigned lanes = block.size > w * 32 ? block.size - w * 32 : 0;
        block.exited[w] = lanes >= 32 ? 0 : ~0u << lanes;
        block.waiting[w] = 0;
    }
    for (unsigned i = 0; i < block.size; i++) {
        block.threads[i].state = State::unstarted;
    }
    begin_asynchronous();
    begin_mbarriers();
    begin_stores();
    begin_warpgroups();
    begin_named_barriers();
    begin_registers();
    forget_accesses(&tokens, &tokens + 1);
}

/* Takes back the fibers that a failed check has left where they were. */
SIMULATOR_UNSEEN inline void end_block() {
    for (unsigned i = 0; i < block.size; i++) {
        const Thread &thread = block.threads[i];
        if (thread.state != State::unstarted && thread.state != State::finished) {
            abandon_fiber(thread.fiber);
        }
    }
    discard_operations();
    end_turn();
}

/* Runs a block to its end, or until a check fails: each thread in this order, until it waits, and again.
 *
 * What is in flight completes as late as it may: only when no thread can go on. */
SIMULATOR_UNSEEN inline void run_block(const unsigned short *order) {
    begin_block();
    while (block.alive && !failed) {
        bool progress = false;
        for (unsigned i = 0; i < block.size && !failed; i++) {
            Thread *const thread = &block.threads[order[i]];
            if (can_run(thread)) {
                run_thread(thread);
                progress = true;
            }
        }
        if (!progress && !complete_operation()) {
            report_deadlock();
        }
    }
    check_loads_have_completed();
    end_block();
}
}  // namespace simulator

