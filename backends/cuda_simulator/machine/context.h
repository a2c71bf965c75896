// A context: the registers and the top of a stack, to be continued later, on x86-64, AArch64 and elsewhere.
#pragma once
#include "sanitizers.h"
#include <stdint.h>
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
