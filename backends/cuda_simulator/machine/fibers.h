// Fibers: stacks of their own, between which one thread of the processor switches.
#pragma once
#include "context.h"
#include <atomic>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

namespace simulator {
constexpr size_t STACK_BYTES = 128 * 1024;
constexpr size_t GUARD_BYTES = 64 * 1024;  // a multiple of the size of a page on any machine
constexpr unsigned MAX_FIBERS = 1024;  // that run at the same time

struct Fiber {
    Context context;
    char *stack;
    Fiber *next;       // in the pool
    void *fake_stack;  // AddressSanitizer's, of variables whose address is taken
    void *races;       // ThreadSanitizer's record of it
};

SIMULATOR_STATE Context scheduler;  // of the function that launches, on the stack of the host
SIMULATOR_STATE const void *host_stack;
SIMULATOR_STATE size_t host_stack_bytes;
SIMULATOR_STATE void *host_fake_stack, *host_races;
SIMULATOR_STATE char from_host[8], to_host[8];  // tokens of what a kernel begins after, and of what follows it

/* Creates a fiber with a stack below which nothing can be accessed, so that an overflow is no silent damage. */
SIMULATOR_UNSEEN inline Fiber *new_fiber() {
    const size_t size = GUARD_BYTES + STACK_BYTES;
    void *memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, GUARD_BYTES, PROT_NONE) != 0) {
        perror("the CUDA simulator must map a stack for each thread of a block");
        abort();
    }
    Fiber *const fiber = new Fiber();
    fiber->stack = static_cast<char *>(memory) + GUARD_BYTES;
#ifdef SIMULATOR_RACES
    fiber->races = __tsan_create_fiber(0);
#endif
    return fiber;
}

#ifdef SIMULATOR_RACES
// Threads of a block and of the next have fibers of their own: of two accesses by one fiber, none is a race. To
// create one is slow, so every other block uses the same.
SIMULATOR_STATE Fiber *fibers[2][MAX_FIBERS];
SIMULATOR_STATE unsigned turn;

SIMULATOR_UNSEEN inline Fiber *take_fiber(unsigned number) {
    Fiber *&fiber = fibers[turn][number];
    fiber = fiber ? fiber : new_fiber();
    return fiber;
}

inline void give_fiber(Fiber *) {}

/* Takes back a fiber that is not at its end, with what is known of its accesses. */
SIMULATOR_UNSEEN inline void abandon_fiber(Fiber *fiber) {
    __tsan_destroy_fiber(fiber->races);
    fiber->races = __tsan_create_fiber(0);
    forget_accesses(fiber->stack, fiber->stack + STACK_BYTES);
}

SIMULATOR_UNSEEN inline void end_turn() { turn = 1 - turn; }
#else
struct Pool {
    std::atomic_flag in_use = ATOMIC_FLAG_INIT;
    Fiber *first = nullptr;
};
SIMULATOR_SHARED Pool free_fibers;

inline Fiber *take_fiber(unsigned) {
    while (free_fibers.in_use.test_and_set(std::memory_order_acquire)) {
    }
    Fiber *const fiber = free_fibers.first;
    free_fibers.first = fiber ? fiber->next : nullptr;
    free_fibers.in_use.clear(std::memory_order_release);
    return fiber ? fiber : new_fiber();
}

inline void give_fiber(Fiber *fiber) {
    while (free_fibers.in_use.test_and_set(std::memory_order_acquire)) {
    }
    fiber->next = free_fibers.first;
    free_fibers.first = fiber;
    free_fibers.in_use.clear(std::memory_order_release);
}

/* Takes back a fiber that is not at its end. */
inline void abandon_fiber(Fiber *fiber) {
    permit(fiber->stack, STACK_BYTES);
    give_fiber(fiber);
}

inline void end_turn() {}
#endif

/* Lets a fiber begin with a function. */
SIMULATOR_UNSEEN inline void start_fiber(Fiber *fiber, unsigned number, void (*entry)()) {
    const size_t stagger = number % 61 * 64;  // stacks at equal offsets in pages would share lines of the cache
    make_context(&fiber->context, fiber->stack, STACK_BYTES - stagger, entry);
}

/* Continues a fiber until it suspends itself. */
SIMULATOR_UNSEEN inline void resume(Fiber *fiber) {
#ifdef SIMULATOR_ADDRESS
    __sanitizer_start_switch_fiber(&host_fake_stack, fiber->stack, STACK_BYTES);
#endif
#ifdef SIMULATOR_RACES
    __tsan_switch_to_fiber(fiber->races, 1);  // 1: that the scheduler continues it orders nothing
#endif
    switch_context(&scheduler, &fiber->context);
#ifdef SIMULATOR_ADDRESS
    __sanitizer_finish_switch_fiber(host_fake_stack, nullptr, nullptr);
#endif
}

/* Returns to the scheduler, for the last time if the fiber has finished. */
SIMULATOR_UNSEEN inline void suspend(Fiber *fiber, [[maybe_unused]] bool finished) {
    release(to_host);
#ifdef SIMULATOR_ADDRESS
    __sanitizer_start_switch_fiber(finished ? nullptr : &fiber->fake_stack, host_stack, host_stack_bytes);
#endif
#ifdef SIMULATOR_RACES
    __tsan_switch_to_fiber(host_races, 1);
#endif
    switch_context(&fiber->context, &scheduler);
#ifdef SIMULATOR_ADDRESS
    __sanitizer_finish_switch_fiber(fiber->fake_stack, nullptr, nullptr);
#endif
}

/* Begins a fiber; AddressSanitizer tells where the stack of the host is. */
SIMULATOR_UNSEEN inline void begin_fiber() {
#ifdef SIMULATOR_ADDRESS
    __sanitizer_finish_switch_fiber(nullptr, &host_stack, &host_stack_bytes);
#endif
    acquire(from_host);
}

/* Begins the time in which fibers run. */
SIMULATOR_UNSEEN inline void begin_fibers() {
#ifdef SIMULATOR_RACES
    host_races = __tsan_get_current_fiber();
#endif
    release(from_host);
}

/* Ends the time in which fibers run. */
inline void end_fibers() { acquire(to_host); }
}  // namespace simulator
