// Barriers of some warps of a block (bar.sync), by numbers from 1 to 15; 0 is __syncthreads().
#pragma once
#include "waiting.h"

namespace simulator {
struct NamedBarrier {
    unsigned threads, arrived, phase;
    char tokens[2][8];
};

constexpr unsigned NAMED_BARRIERS = 16;
SIMULATOR_STATE NamedBarrier named_barriers[NAMED_BARRIERS];

SIMULATOR_UNSEEN inline void begin_named_barriers() {
    for (NamedBarrier &barrier : named_barriers) {
        barrier.arrived = barrier.phase = 0;
    }
}

SIMULATOR_UNSEEN inline void describe_named(const Thread *thread, char *text, size_t size) {
    const NamedBarrier *const barrier = static_cast<const NamedBarrier *>(thread->object);
    snprintf(text, size, "at barrier %d for %u threads, of which %u arrived", static_cast<int>(barrier - named_barriers),
             barrier->threads, barrier->arrived);
}

/* bar.sync */
SIMULATOR_UNSEEN inline void named_barrier(unsigned number, unsigned threads) {
    if (number < 1 || number >= NAMED_BARRIERS || threads % 32 || threads == 0 || threads > block.size) {
        fail(cudaErrorLaunchFailure, "a barrier must have a number from 1 to 15, not %u, and a multiple of 32 threads of the "
             "block, not %u", number, threads);
    }
    NamedBarrier *const barrier = &named_barriers[number];
    if (barrier->arrived && barrier->threads != threads) {
        fail(cudaErrorLaunchFailure, "barrier %u is for %u threads, while others wait at it for %u", number, threads,
             barrier->threads);
    }
    void *const token = barrier->tokens[barrier->phase % 2];
    release(token);
    barrier->threads = threads;
    const unsigned phase = barrier->phase;
    if (++barrier->arrived == threads) {
        barrier->arrived = 0;
        barrier->phase++;
    }
    const auto has_opened = [](const Thread *thread) {
        return static_cast<const NamedBarrier *>(thread->object)->phase != thread->value;
    };
    wait_until(has_opened, describe_named, barrier, phase);
    acquire(token);
}
}  // namespace simulator
