// The scheduler: it runs each thread of a block until it waits for others, or has finished.
#pragma once
#include "block.h"
#include "warp.h"

namespace simulator {
/* Runs the kernel on a fiber, to its end. */
SIMULATOR_UNSEEN inline void thread_main() {
    begin_fiber();
    kernel_body(kernel_arguments);
    Thread *const thread = current;
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

inline const char *state_name(State state) {
    return state == State::at_barrier ? "at __syncthreads()" : "in a warp's exchange";
}

/* Fails since all threads wait: names two of them that wait for different things, if there are. */
SIMULATOR_UNSEEN inline void report_deadlock() {
    const Thread *first = nullptr, *second = nullptr;
    for (unsigned i = 0; i < block.size; i++) {
        const Thread *thread = &block.threads[i];
        if (thread->state != State::finished) {
            first = first ? first : thread;
            second = !second && (thread->state != first->state || thread->site != first->site) ? thread : second;
        }
    }
    second = second ? second : first;
    fail(cudaErrorLaunchFailure, "deadlock: thread (%u, %u, %u) waits %s in line %u, thread (%u, %u, %u) %s in line %u",
         first->index.x, first->index.y, first->index.z, state_name(first->state), first->site.line, second->index.x,
         second->index.y, second->index.z, state_name(second->state), second->site.line);
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
    end_turn();
}

/* Runs a block to its end, or until a check fails: each thread in this order, until it waits, and again. */
SIMULATOR_UNSEEN inline void run_block(const unsigned short *order) {
    begin_block();
    while (block.alive && !failed) {
        bool progress = false;
        for (unsigned i = 0; i < block.size && !failed; i++) {
            Thread *const thread = &block.threads[order[i]];
            if (thread->state == State::unstarted || thread->state == State::ready) {
                run_thread(thread);
                progress = true;
            }
        }
        if (!progress) {
            report_deadlock();
        }
    }
    end_block();
}
}  // namespace simulator

