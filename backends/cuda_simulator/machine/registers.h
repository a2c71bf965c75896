// Registers that warps give and take (setmaxnreg), and the election of a lane.
#pragma once
#include "waiting.h"
#include "warp.h"

namespace simulator {
constexpr unsigned REGISTERS = 65536, MAX_THREAD_REGISTERS = 256;

SIMULATOR_STATE unsigned registers[MAX_THREADS];
SIMULATOR_STATE unsigned free_registers;  // that threads gave

/* Blocks begin with all registers of the multiprocessor that they share, by multiples of 8 a thread. */
SIMULATOR_UNSEEN inline void share_registers(unsigned blocks) {
    const unsigned equal = REGISTERS / blocks / block.size / 8 * 8;
    for (unsigned i = 0; i < block.size; i++) {
        registers[i] = equal < MAX_THREAD_REGISTERS ? equal : MAX_THREAD_REGISTERS;
    }
    free_registers = 0;
}

/* A block is alone, unless it says otherwise before any of its threads gives registers. */
SIMULATOR_UNSEEN inline void begin_registers() { share_registers(1); }

SIMULATOR_UNSEEN inline void check_registers(unsigned count, bool is_possible) {
    if (count % 8 || count < 24 || count > MAX_THREAD_REGISTERS || !is_possible) {
        fail(cudaErrorLaunchFailure, "setmaxnreg must have a multiple of 8 registers from 24 to 256, inc at least the %u "
             "that the thread has, and dec at most as many, not %u", registers[current->number], count);
    }
}

/* setmaxnreg.dec */
SIMULATOR_UNSEEN inline void lower_registers(unsigned count) {
    unsigned &own = registers[current->number];
    check_registers(count, count <= own);
    free_registers += own - count;
    own = count;
}

/* setmaxnreg.inc */
SIMULATOR_UNSEEN inline void raise_registers(unsigned count) {
    unsigned &own = registers[current->number];
    check_registers(count, count >= own);
    const auto suffice = [](const Thread *thread) { return free_registers >= thread->value; };
    const auto describe = [](const Thread *thread, char *text, size_t size) {
        snprintf(text, size, "for %d more registers, of which %u are free in its block", static_cast<int>(thread->value),
                 free_registers);
    };
    wait_until(suffice, describe, registers, count - own);
    free_registers -= count - own;
    own = count;
}

/* elect.sync of all lanes. */
SIMULATOR_UNSEEN inline bool elect(unsigned line = __builtin_LINE()) {
    const uint64_t votes = ballot({line, 0}, 0xffffffffu, true);
    return current->lane == static_cast<unsigned>(__builtin_ctz(static_cast<unsigned>(votes)));
}
}  // namespace simulator
