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
inline float rcbrtf(float x) { return 1.0f / cbrtf(x); }
inline float normcdff(float x) { return 0.5f * erfcf(-x * 0.70710678f); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __frsqrt_rn(float x) { return rsqrtf(x); }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline double __dadd_rn(double x, double y) { return x + y; }
inline double __dmul_rn(double x, double y) { return x * y; }
inline double __fma_rn(double x, double y, double z) { return fma(x, y, z); }

// The C library declares functions of these names.
#define __expf(x) expf(x)
#define __exp10f(x) powf(10.0f, x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __log10f(x) log10f(x)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __tanf(x) tanf(x)
#define __powf(x, y) powf(x, y)

inline int __float_as_int(float x) { return simulator::bits_of<int>(x); }
inline unsigned __float_as_uint(float x) { return simulator::bits_of<unsigned>(x); }
inline float __int_as_float(int x) { return simulator::bits_of<float>(x); }
inline float __uint_as_float(unsigned x) { return simulator::bits_of<float>(x); }
inline long long __double_as_longlong(double x) { return simulator::bits_of<long long>(x); }
inline double __longlong_as_double(long long x) { return simulator::bits_of<double>(x); }
inline int __float2int_rn(float x) { return static_cast<int>(rintf(x)); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x ? __builtin_clz(static_cast<unsigned>(x)) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64; }
inline unsigned __umulhi(unsigned x, unsigned y) { return static_cast<unsigned>(static_cast<uint64_t>(x) * y >> 32); }
inline int __mulhi(int x, int y) { return static_cast<int>(static_cast<int64_t>(x) * y >> 32); }
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return static_cast<unsigned long long>(static_cast<unsigned __int128>(x) * y >> 64);
}
inline unsigned __brev(unsigned x) {
    unsigned reversed = 0;
    for (int i = 0; i < 32; i++) {
        reversed |= (x >> i & 1u) << (31 - i);
    }
    return reversed;
}

template <class T> T __ldg(const T *address) { return *address; }
template <class T> T __ldcs(const T *address) { return *address; }
template <class T> T __ldca(const T *address) { return *address; }
template <class T> T __ldcg(const T *address) { return *address; }
template <class T> void __stcs(T *address, T value) { *address = value; }
template <class T> void __stcg(T *address, T value) { *address = value; }

// As in CUDA: of two types, the result has the one that the host's `?:` gives them; of floats, NaN loses.
template <class A, class B> auto min(A a, B b) -> decltype(a + b) {
    const decltype(a + b) x = a, y = b;
    return y < x || x != x ? y : x;
}
template <class A, class B> auto max(A a, B b) -> decltype(a + b) {
    const decltype(a + b) x = a, y = b;
    return x < y || x != x ? y : x;
}
