// Atomic operations. They order nothing else, as on a device.
#pragma once
#include <stdint.h>

template <class T> T atomicExch(T *address, T value) {
    T old;
    __atomic_exchange(address, &value, &old, __ATOMIC_RELAXED);
    return old;
}

template <class T> T atomicCAS(T *address, T expected, T value) {
    __atomic_compare_exchange_n(address, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}

namespace simulator {
/* Replaces a number by a function of it and another, and returns the old one. */
template <class T, class F> T atomic_update(T *address, T value, F function) {
    T old, updated;
    __atomic_load(address, &old, __ATOMIC_RELAXED);
    do {
        updated = function(old, value);
    } while (!__atomic_compare_exchange(address, &old, &updated, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return old;
}
}  // namespace simulator

// The second parameter of each does not take part in deducing T, as CUDA converts it.
#define SIMULATOR_ATOMIC(name, expression)                                          \
    template <class T> T name(T *address, decltype(T() + T()) value) {              \
        const auto function = [](T a, T b) { return static_cast<T>(expression); };  \
        return simulator::atomic_update(address, static_cast<T>(value), function);  \
    }
SIMULATOR_ATOMIC(atomicAdd, a + b)
SIMULATOR_ATOMIC(atomicSub, a - b)
SIMULATOR_ATOMIC(atomicMin, b < a ? b : a)
SIMULATOR_ATOMIC(atomicMax, a < b ? b : a)
SIMULATOR_ATOMIC(atomicAnd, a & b)
SIMULATOR_ATOMIC(atomicOr, a | b)
SIMULATOR_ATOMIC(atomicXor, a ^ b)
