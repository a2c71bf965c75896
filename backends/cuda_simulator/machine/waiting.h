// Waiting for a condition, which the scheduler tests whenever it is the thread's turn.
#pragma once
#include "block.h"

namespace simulator {
/* Waits until a condition of the thread holds; `describe` says for what, if it never does. */
SIMULATOR_UNSEEN inline void wait_until(Condition condition, Describe describe, void *object, int64_t value) {
    Thread *const thread = current;
    thread->condition = condition;
    thread->describe = describe;
    thread->object = object;
    thread->value = value;
    if (!condition(thread)) {
        thread->state = State::waiting;
        suspend(thread->fiber, false);
    }
}

/* Tests whether a thread can go on. */
SIMULATOR_UNSEEN inline bool can_run(const Thread *thread) {
    return thread->state == State::unstarted || thread->state == State::ready ||
           (thread->state == State::waiting && thread->condition(thread));
}
}  // namespace simulator
