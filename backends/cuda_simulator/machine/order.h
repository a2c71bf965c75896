// The order in which threads, blocks and what is in flight take their turns.
#pragma once
#include "sanitizers.h"
#include <stdint.h>

namespace simulator {
enum class Order { forward, backward, random, invalid };

SIMULATOR_STATE Order order;  // of this launch
SIMULATOR_STATE uint64_t random_state;

/* Returns the next random number below a bound (xorshift). */
SIMULATOR_UNSEEN inline uint64_t random_below(uint64_t bound) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % bound;
}

/* Chooses one of some: the first, the last, or any. */
SIMULATOR_UNSEEN inline unsigned chosen(unsigned count) {
    return order == Order::forward ? 0 : order == Order::backward ? count - 1 : static_cast<unsigned>(random_below(count));
}
}  // namespace simulator
