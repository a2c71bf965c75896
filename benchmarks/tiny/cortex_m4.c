/* A Cortex-M4 of QEMU, MPS2 AN386: trains for one step, and prints its ticks, the bytes of stack and the outputs.
 * QEMU counts an instruction as a nanosecond (-icount shift=0), so a tick of the timer is 40 of them. */
#include "trainer.h"

#define TICK 40u
#define PAINT 0xa5a5a5a5u

extern uint32_t stack_limit[], stack_top[], data_start[], data_end[], data_load[], bss_start[], bss_end[];

struct timer {
    volatile uint32_t control, value, reload;
};
static struct timer *const timer = (struct timer *)0x40000000u;
static volatile uint32_t *const coprocessors = (volatile uint32_t *)0xe000ed88u;

/* Calls the debugger's function `operation`, which QEMU implements. */
static int semihosted(int operation, const void *argument)
{
    register int r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

static void print(uint32_t number)
{
    char text[12] = "           ";
    int place = 10;
    do {
        text[--place] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    text[11] = 0;
    semihosted(0x04, text + place);
}

static void leave(int code)
{
    const uint32_t told[] = {0x20026u, (uint32_t)code};
    semihosted(0x20, told);
    for (;;) {
    }
}

void reset(void)
{
    *coprocessors |= 0xfu << 20;
    __asm__ volatile("dsb\nisb");
    for (uint32_t *to = data_start, *from = data_load; to < data_end;) {
        *to++ = *from++;
    }
    for (uint32_t *to = bss_start; to < bss_end;) {
        *to++ = 0;
    }
    uint32_t *here = (uint32_t *)__builtin_frame_address(0) - 16;
    for (uint32_t *place = stack_limit; place < here; place++) {
        *place = PAINT;
    }
    begin();
    timer->reload = timer->value = 0xffffffffu;
    timer->control = 1;
    const uint32_t before = timer->value;
    const int code = train();
    const uint32_t ticks = before - timer->value;
    uint32_t *deepest = stack_limit;
    while (*deepest == PAINT) {
        deepest++;
    }
    print(TICK);
    print(ticks);
    print((uint32_t)((unsigned char *)stack_top - (unsigned char *)deepest));
    union {
        float number;
        uint32_t bits;
    } outputs = {(float)total()};
    print(outputs.bits);
    leave(code);
}

__attribute__((section(".vectors"), used)) static const void *const vectors[] = {stack_top, (const void *)reset};
