// Asynchronous copies to shared memory (cp.async of PTX), in groups.
//
// A copy reads at once, and writes when its thread waits for its group: until then, its target is NaN. So a wait that
// is missing, and a target that others still read, change results, and are races of the two writes.
#pragma once
#include "shared_memory.h"

namespace simulator {
constexpr unsigned MAX_COPIES = 256;  // that a thread has under way

struct AsyncCopy {
    unsigned char *to;
    unsigned char data[16];
    unsigned bytes, group;
};

/* The copies of a thread that are under way, of which the first is at `begin`, modulo their number. */
struct AsyncCopies {
    AsyncCopy all[MAX_COPIES];
    unsigned begin, end, groups;  // groups that have ended
    uint64_t block;               // the block that the copies are of
};

SIMULATOR_STATE AsyncCopies async_copies[MAX_THREADS];

/* Returns the copies of the current thread; a block begins with none. */
SIMULATOR_UNSEEN inline AsyncCopies &own_copies() {
    AsyncCopies &own = async_copies[current->number];
    if (own.block != blocks_begun) {
        own.begin = own.end = own.groups = 0;
        own.block = blocks_begun;
    }
    return own;
}

/* Adds a copy to the current group of the thread. */
SIMULATOR_UNSEEN inline void begin_copy(AsyncCopy &copy, unsigned line) {
    AsyncCopies &own = own_copies();
    if (own.end - own.begin == MAX_COPIES) {
        fail(cudaErrorLaunchFailure, "cp.async in line %u: the simulator has room for %u copies of a thread", line, MAX_COPIES);
    }
    copy.group = own.groups;
    own.all[own.end++ % MAX_COPIES] = copy;
}

/* Takes the first copy of the thread that is not in the last `pending` groups; returns whether there was one. */
SIMULATOR_UNSEEN inline bool end_copy(AsyncCopy &copy, unsigned pending) {
    AsyncCopies &own = own_copies();
    const AsyncCopy &first = own.all[own.begin % MAX_COPIES];
    if (own.begin == own.end || first.group + pending >= own.groups) {
        return false;
    }
    copy = first;
    own.begin++;
    return true;
}

/* Fails unless an address is one of shared memory, and a multiple of so many bytes. */
SIMULATOR_UNSEEN inline void check_shared(const void *address, unsigned bytes, const char *what, unsigned line) {
    const char *const at = static_cast<const char *>(address);
    if (!(at >= __start_cuda_shared && at < __stop_cuda_shared) &&
        !(at >= dynamic_shared && at < dynamic_shared + MAX_SHARED_BYTES)) {
        fail(cudaErrorLaunchFailure, "%s in line %u needs an address of shared memory, not %p", what, line, address);
    }
    if (reinterpret_cast<uintptr_t>(address) % bytes) {
        misaligned(address, bytes);
    }
}

/* cp.async.ca.shared.global of so many bytes, the first of which it reads; the others are zeros. */
inline void copy_async(void *to, const void *from, unsigned bytes, unsigned read, unsigned line = __builtin_LINE()) {
    check_shared(to, bytes, "cp.async", line);
    if (read && reinterpret_cast<uintptr_t>(from) % bytes) {
        misaligned(from, bytes);
    }
    AsyncCopy copy;
    copy.to = static_cast<unsigned char *>(to);
    copy.bytes = bytes;
    for (unsigned i = 0; i < bytes; i++) {
        copy.data[i] = i < read ? static_cast<const unsigned char *>(from)[i] : 0;
        copy.to[i] = 0xff;
    }
    begin_copy(copy, line);
}

/* cp.async.commit_group. */
SIMULATOR_UNSEEN inline void commit_copies() { own_copies().groups++; }

/* cp.async.wait_group: writes what copies have read, but those of the last `pending` groups. */
inline void wait_for_copies(unsigned pending) {
    for (AsyncCopy copy; end_copy(copy, pending);) {
        for (unsigned i = 0; i < copy.bytes; i++) {
            copy.to[i] = copy.data[i];
        }
    }
}
}  // namespace simulator
