// Fibers: stacks of their own between which one processor thread switches, in some twenty instructions.
#pragma once
#include "sanitizers.h"
#include <stdint.h>
#include <sys/mman.h>
#if !defined(__ELF__) || !(defined(__x86_64__) || defined(__aarch64__))
#include <ucontext.h>
#define SIMULATOR_UCONTEXT 1
#endif

#ifdef SIMULATOR_UCONTEXT
namespace simulator {
typedef ucontext_t Context;

SIMULATOR_UNSEEN inline void switch_context(Context *from, Context *to) { swapcontext(from, to); }

inline void make_context(Context *context, char *stack, size_t size, void (*entry)()) {
    getcontext(context);
    context->uc_stack.ss_sp = stack;
    context->uc_stack.ss_size = size;
    makecontext(context, entry, 0);
}
}  // namespace simulator
#else
// Saves the registers that a function must keep on the stack, stores its top and continues on another.
extern "C" void simulator_switch(void **from, void *to);
#ifdef __x86_64__
asm(R"(
    .text
    .weak simulator_switch
    .hidden simulator_switch
    .type simulator_switch, @function
simulator_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size simulator_switch, . - simulator_switch
)");
#else
asm(R"(
    .text
    .weak simulator_switch
    .hidden simulator_switch
    .type simulator_switch, %function
simulator_switch:
    sub sp, sp, #160
    stp x29, x30, [sp]
    stp x19, x20, [sp, #16]
    stp x21, x22, [sp, #32]
    stp x23, x24, [sp, #48]
    stp x25, x26, [sp, #64]
    stp x27, x28, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x29, x30, [sp]
    ldp x19, x20, [sp, #16]
    ldp x21, x22, [sp, #32]
    ldp x23, x24, [sp, #48]
    ldp x25, x26, [sp, #64]
    ldp x27, x28, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
    .size simulator_switch, . - simulator_switch
)");
#endif

namespace simulator {
typedef void *Context;

SIMULATOR_UNSEEN inline void switch_context(Context *from, Context *to) { simulator_switch(from, *to); }

/* Lays out a stack as simulator_switch leaves it, such that it returns into `entry`. */
SIMULATOR_UNSEEN inline void make_context(Context *context, char *stack, size_t size, void (*entry)()) {
    void **top = reinterpret_cast<void **>(stack + size);
#ifdef __x86_64__
    top -= 8;  // six registers, the address of return, and an empty one: a function begins 8 bytes past 16
    top[6] = reinterpret_cast<void *>(entry);
#else
    top -= 20;
    top[1] = reinterpret_cast<void *>(entry);  // x30, the address of return
#endif
    *context = top;
}
}  // namespace simulator
#endif

namespace simulator {
constexpr size_t STACK_BYTES = 128 * 1024;
constexpr size_t GUARD_BYTES = 64 * 1024;  // a multiple of the size of a page on any machine
constexpr unsigned MAX_FIBERS = 1024;  // that run at the same time

struct Fiber {
    Context context;
    char *stack;
    void *fake_stack;  // AddressSanitizer's, of variables whose address is taken
    void *races;       // ThreadSanitizer's record of it
};

SIMULATOR_STATE Context scheduler;  // of the function that launches, on the stack of the host
SIMULATOR_STATE const void *host_stack;
SIMULATOR_STATE size_t host_stack_bytes;
SIMULATOR_STATE void *host_fake_stack, *host_races;
SIMULATOR_STATE char from_host[8], to_host[8];  // tokens: a kernel begins after what was before it, and all ends before the next

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
SIMULATOR_STATE Fiber *free_fibers[MAX_FIBERS];
SIMULATOR_STATE unsigned free_fiber_count;

inline Fiber *take_fiber(unsigned) { return free_fiber_count ? free_fibers[--free_fiber_count] : new_fiber(); }

inline void give_fiber(Fiber *fiber) { free_fibers[free_fiber_count++] = fiber; }

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
