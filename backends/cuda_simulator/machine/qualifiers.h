// Words of CUDA that the host's compiler does not know.
#pragma once

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __grid_constant__
#define __managed__
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(bytes) __attribute__((aligned(bytes)))

// Blocks run one after another, so they share one copy. The section has bounds, between which it is poisoned.
#define __shared__ static __attribute__((section("cuda_shared")))
