// Shared memory: its arrays, of which there is one copy, since blocks run one after another.
#pragma once
#include "block.h"

// The bounds of the section of shared arrays; null if there is none.
extern "C" char __start_cuda_shared[] __attribute__((weak, visibility("hidden")));
extern "C" char __stop_cuda_shared[] __attribute__((weak, visibility("hidden")));

namespace simulator {
constexpr size_t SHARED_BYTES = 48 * 1024, MAX_SHARED_BYTES = 227 * 1024;

alignas(1024) SIMULATOR_STATE char dynamic_shared[MAX_SHARED_BYTES];
SIMULATOR_STATE size_t dynamic_bytes;  // of the launch

/* Fills memory with NaN. */
SIMULATOR_UNSEEN inline void poison(char *begin, size_t size) {
#if defined(SIMULATOR_ADDRESS) || defined(SIMULATOR_RACES)
    for (volatile char *at = begin; at < begin + size; at++) {  // both intercept memset
        *at = static_cast<char>(0xff);
    }
#else
    memset(begin, 0xff, size);
#endif
}

/* Fills all shared memory with NaN, and forgets who accessed it. */
SIMULATOR_UNSEEN inline void poison_shared() {
    char *const begin = __start_cuda_shared, *const end = __stop_cuda_shared;
    poison(begin, static_cast<size_t>(end - begin));
    poison(dynamic_shared, dynamic_bytes);
    forget_accesses(begin, end);
    forget_accesses(dynamic_shared, dynamic_shared + dynamic_bytes);
}
}  // namespace simulator
