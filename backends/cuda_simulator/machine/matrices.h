// Matrices of 8 x 8 elements of 16 bits that a warp stores to shared memory (stmatrix).
#pragma once
#include "warp.h"

namespace simulator {
/* Stores four matrices: lane l has elements 2 (l % 4) and the next of row l / 4 of each, and points to row l % 8 of
 * matrix l / 8. */
SIMULATOR_UNSEEN inline void resolve_stored_matrices(Thread *lanes, unsigned participants) {
    if (participants != 0xffffffffu) {
        fail(cudaErrorLaunchFailure, "stmatrix needs all 32 lanes of the warp; those in 0x%08x take part", participants);
    }
    for (unsigned i = 0; i < 32; i++) {
        unsigned *row;
        __builtin_memcpy(&row, lanes[i].given + 4, sizeof row);
        if (reinterpret_cast<uintptr_t>(row) % 16) {
            fail(cudaErrorMisalignedAddress, "stmatrix needs rows at multiples of 16 bytes, and lane %u points to %p",
                 i, static_cast<void *>(row));
        }
        for (unsigned j = 0; j < 4; j++) {
            row[j] = lanes[i % 8 * 4 + j].given[i / 8];
        }
    }
}

/* stmatrix.sync.aligned.m8n8.x4.shared.b16 */
SIMULATOR_UNSEEN inline void store_matrices(void *row, const unsigned (&values)[4], unsigned line = __builtin_LINE()) {
    for (unsigned i = 0; i < 4; i++) {
        current->given[i] = values[i];
    }
    __builtin_memcpy(current->given + 4, &row, sizeof row);
    exchange(0xffffffffu, resolve_stored_matrices, {line, 0});
}
}  // namespace simulator
