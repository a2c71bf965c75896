/* The instructions of a Cortex-M for pairs of halves, in C: what tests of its products of bytes run on other processors. */
#include <stdint.h>

typedef int32_t int16x2_t;

static inline int16x2_t halves(int32_t low, int32_t high)
{
    return (int32_t)((uint32_t)(uint16_t)low | (uint32_t)(uint16_t)high << 16);
}

/* Bytes 0 and 2 of a word, widened. */
static inline int16x2_t __sxtb16(uint32_t x)
{
    return halves((int8_t)x, (int8_t)(x >> 16));
}

/* The sum, and the products of both pairs of halves; it wraps. */
static inline int32_t __smlad(int16x2_t x, int16x2_t y, int32_t sum)
{
    const int32_t low = (int16_t)x * (int16_t)y, high = (int16_t)(x >> 16) * (int16_t)(y >> 16);
    return (int32_t)((uint32_t)sum + (uint32_t)low + (uint32_t)high);
}
