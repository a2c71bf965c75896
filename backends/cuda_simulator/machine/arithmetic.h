// Functions that CUDA has beside <cmath>. Fast ones are exact here: on a device they are not.
#pragma once
#include <cmath>
#include <float.h>
#include <math.h>
#include <stdint.h>

namespace simulator {
template <class To, class From> To bits_of(From value) {
    static_assert(sizeof(To) == sizeof(From), "both have the same size");
    To bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Reads an IEEE binary16, which has 5 bits of exponent, of bias 15, and 10 of fraction. */
inline float half_to_float(uint16_t half) {
    const unsigned size = (half & 0x7fffu) << 13;
    const float scaled = bits_of<float>(size) * 0x1p112f;  // the difference of the biases; exact for subnormals too
    const unsigned bits = size >= 0x0f800000u ? size | 0x7f800000u : bits_of<unsigned>(scaled);  // infinity and NaN
    return bits_of<float>(bits | (half & 0x8000u) << 16);
}
}  // namespace simulator

inline float rsqrtf(float x) { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(x))); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }

// The C library declares functions of these names.
#define __expf(x) expf(x)
#define __logf(x) logf(x)
#define __powf(x, y) powf(x, y)

inline unsigned __float_as_uint(float x) { return simulator::bits_of<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return simulator::bits_of<float>(x); }

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x ? __builtin_clz(static_cast<unsigned>(x)) : 32; }
inline unsigned __umulhi(unsigned x, unsigned y) { return static_cast<unsigned>(static_cast<uint64_t>(x) * y >> 32); }
inline unsigned __brev(unsigned x) {
    unsigned reversed = 0;
    for (int i = 0; i < 32; i++) {
        reversed |= (x >> i & 1u) << (31 - i);
    }
    return reversed;
}

template <class T> T __ldg(const T *address) { return *address; }

// As in CUDA: of two types, the result has the one that the host's `?:` gives them; of floats, NaN loses.
template <class A, class B> auto min(A a, B b) -> decltype(a + b) {
    const decltype(a + b) x = a, y = b;
    return y < x || x != x ? y : x;
}
template <class A, class B> auto max(A a, B b) -> decltype(a + b) {
    const decltype(a + b) x = a, y = b;
    return x < y || x != x ? y : x;
}
