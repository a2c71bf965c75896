// float16: IEEE binary16.
#pragma once
#include "cuda_runtime.h"

struct __half {
    uint16_t bits;
};
struct alignas(4) __half2 {
    __half x, y;
};
typedef __half half;
typedef __half2 half2;

inline unsigned short __half_as_ushort(__half x) { return x.bits; }
inline __half __ushort_as_half(unsigned short bits) { return {bits}; }

inline float __half2float(__half x) { return simulator::half_to_float(x.bits); }

/* Rounds to nearest, ties to even; NaN becomes the one that a device gives. */
inline __half __float2half_rn(float x) {
    const unsigned bits = __float_as_uint(x), size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) {
        return {0x7fff};
    }
    const unsigned normal = (size - (112u << 23) + 0xfffu + (size >> 13 & 1u)) >> 13;
    const unsigned subnormal = __float_as_uint(fabsf(x) + 0.5f) - 0x3f000000u;  // multiples of the least one, 2^-24
    const unsigned rounded = size < 0x38800000u ? subnormal : size >= 0x477ff000u ? 0x7c00u : normal;
    return {static_cast<uint16_t>(rounded | (bits >> 16 & 0x8000u))};
}


inline float __low2float(__half2 x) { return __half2float(x.x); }
inline float __high2float(__half2 x) { return __half2float(x.y); }
