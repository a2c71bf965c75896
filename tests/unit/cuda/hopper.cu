// Products for sm_90a: kinds of elements, widths and majors, and groups of products in flight.
#include "hopper_gemm.cuh"

#define KINDS(kind)                      \
    kind(0, __nv_bfloat16, 128, 0, 0, 0) \
    kind(1, __nv_bfloat16, 128, 0, 1, 1) \
    kind(2, __nv_bfloat16, 128, 1, 0, 1) \
    kind(3, __nv_bfloat16, 128, 1, 1, 0) \
    kind(4, __nv_bfloat16, 256, 0, 1, 1) \
    kind(5, __nv_bfloat16, 256, 1, 1, 0) \
    kind(6, __nv_bfloat16, 64, 0, 1, 0)  \
    kind(7, __half, 128, 0, 1, 1)        \
    kind(8, float, 128, 0, 0, 1)         \
    kind(9, float, 256, 0, 0, 0)

extern "C" int product(int kind, const void *a, const void *b, float *c, const Sizes *sizes) {
    switch (kind) {
#define KIND(number, type, n, a_major, b_major, in_flight) \
    case number: return run<type, n, a_major, b_major, in_flight>((const type *)a, (const type *)b, c, *sizes);
        KINDS(KIND)
    }
    return cudaErrorInvalidValue;
}
