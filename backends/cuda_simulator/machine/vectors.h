// Vectors of 2 and 4 numbers, and dimensions.
//
// A copy is one access of 8 or 16 bytes, as on a device: a sanitizer sees all of it, and an address that is no
// multiple of its size is an error.
#pragma once
#include "block.h"

namespace simulator {
template <class T> inline __attribute__((always_inline)) const T *aligned(const T *address) {
    uintptr_t number = reinterpret_cast<uintptr_t>(address);
    asm("" : "+r"(number));  // or else a compiler may trust the type, and leave the check out
    if (__builtin_expect(number % alignof(T) != 0, 0)) {
        misaligned(address, alignof(T));
    }
    return address;
}
}  // namespace simulator

#define SIMULATOR_VECTOR(type, element, size, constructor, members, ...)                             \
    struct alignas(size * sizeof(element)) type {                                                    \
        typedef element Whole __attribute__((vector_size(size * sizeof(element)), may_alias));       \
        element members;                                                                             \
        type() = default;                                                                            \
        constexpr type constructor : __VA_ARGS__ {}                                                  \
        type(const type &other) { *this = other; }                                                   \
        type &operator=(const type &other) {                                                         \
            *(Whole *)simulator::aligned(this) = *(const Whole *)simulator::aligned(&other);         \
            return *this;                                                                            \
        }                                                                                            \
    };

#define SIMULATOR_ARGUMENTS(...) __VA_ARGS__
#define SIMULATOR_VECTORS(element, name)                                                             \
    SIMULATOR_VECTOR(name##2, element, 2, (element a, element b), SIMULATOR_ARGUMENTS(x, y), x(a), y(b)) \
    SIMULATOR_VECTOR(name##4, element, 4, (element a, element b, element c, element d),              \
                     SIMULATOR_ARGUMENTS(x, y, z, w), x(a), y(b), z(c), w(d))                        \
    inline name##2 make_##name##2(element x, element y) { return {x, y}; }                           \
    inline name##4 make_##name##4(element x, element y, element z, element w) { return {x, y, z, w}; }

SIMULATOR_VECTORS(float, float)
SIMULATOR_VECTORS(int, int)
SIMULATOR_VECTORS(unsigned, uint)
SIMULATOR_VECTORS(unsigned short, ushort)
SIMULATOR_VECTOR(double2, double, 2, (double a, double b), SIMULATOR_ARGUMENTS(x, y), x(a), y(b))
inline double2 make_double2(double x, double y) { return {x, y}; }
