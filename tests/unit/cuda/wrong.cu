// Programs that a device runs into undefined behaviour, each with one bug.
#include <cuda_runtime.h>

#define ALL 0xffffffffu

__global__ void two_barriers(float *x) {
    if (threadIdx.x < 16) {
        __syncthreads();  // bug
    } else {
        x[0] = 1.0f;
        __syncthreads();  // bug
    }
}

__global__ void barrier_in_branch(float *x) {
    if (threadIdx.x < 16) {
        x[threadIdx.x] += __shfl_xor_sync(ALL, x[threadIdx.x], 1);  // bug
    } else {
        __syncthreads();  // bug
    }
}

__global__ void outside_of_mask(float *x) {
    if (threadIdx.x < 8) {
        x[threadIdx.x] = __shfl_sync(0x000000ffu, x[threadIdx.x], 9);  // bug
    }
}

__global__ void not_in_own_mask(float *x) {
    x[threadIdx.x] = __shfl_sync(0x0000ffffu, x[threadIdx.x], 0);  // bug
}

__global__ void exited_lane(float *x) {
    if (threadIdx.x >= 16) {
        return;
    }
    x[threadIdx.x] = __shfl_xor_sync(ALL, x[threadIdx.x], 16);  // bug
}

__global__ void two_shuffles(float *x) {
    if (threadIdx.x % 2 == 0) {
        x[threadIdx.x] = __shfl_xor_sync(ALL, x[threadIdx.x], 1);  // bug
    } else {
        x[threadIdx.x] = __shfl_xor_sync(ALL, x[threadIdx.x], 1);  // bug
    }
}

__global__ void misaligned(float *x) {
    reinterpret_cast<float4 *>(x + 1)[threadIdx.x] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}

// By a sanitizer only:

__global__ void no_guard(float *x) {
    x[blockIdx.x * 32 + threadIdx.x] += 1.0f;  // bug: there are 40
}

__global__ void beyond_shared(float *x) {
    __shared__ float first[8], second[8];
    first[threadIdx.x % 8] = second[threadIdx.x % 8] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = (threadIdx.x < 16 ? first : second)[threadIdx.x % 16];  // bug
}

__global__ void beyond_dynamic(float *x) {
    extern __shared__ float values[];
    values[threadIdx.x] = x[threadIdx.x];  // bug: there are 31
}

__global__ void no_barrier(float *x) {
    __shared__ float values[64];
    values[threadIdx.x] = x[threadIdx.x];
    x[threadIdx.x] = values[63 - threadIdx.x];
}

__global__ void no_warp_barrier(float *x) {
    __shared__ float values[32];
    values[threadIdx.x] = x[threadIdx.x];
    __shfl_sync(ALL, 0, 0);  // orders no accesses to memory
    x[threadIdx.x] = values[31 - threadIdx.x];
}

__global__ void same_element(float *x) {
    __shared__ float values[32];
    values[threadIdx.x] = x[0];
    __syncthreads();
    x[1 + blockIdx.x * 0] = values[0];
}

// Correct, to be found so: barriers of blocks and warps, atomics, arrays on the stack, blocks that share no element
__global__ void correct(float *x) {
    __shared__ float values[64];
    __shared__ int count;
    float mine[4];
    for (int round = 0; round < 3; round++) {
        values[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
        if (threadIdx.x == 0) {
            count = 0;
        }
        __syncthreads();
        atomicAdd(&count, 1);
        for (int i = 0; i < 4; i++) {
            mine[(i + threadIdx.x) % 4] = values[(threadIdx.x + i) % 64];
        }
        __syncthreads();
        values[threadIdx.x] = mine[threadIdx.x % 4] + static_cast<float>(count);
        __syncwarp();
        x[blockIdx.x * 64 + threadIdx.x] = values[threadIdx.x ^ 1];
        __syncthreads();
    }
}

extern "C" {
#define RUN(kernel, grid, block, shared) \
    int run_##kernel(float *x) {         \
        kernel<<<grid, block, shared>>>(x); \
        return cudaGetLastError();       \
    }
RUN(two_barriers, 1, 32, 0)
RUN(barrier_in_branch, 1, 32, 0)
RUN(outside_of_mask, 1, 32, 0)
RUN(not_in_own_mask, 1, 32, 0)
RUN(exited_lane, 1, 32, 0)
RUN(two_shuffles, 1, 32, 0)
RUN(misaligned, 1, 1, 0)
RUN(no_guard, 2, 32, 0)
RUN(beyond_shared, 1, 32, 0)
RUN(beyond_dynamic, 1, 32, 31 * sizeof(float))
RUN(no_barrier, 1, 64, 0)
RUN(no_warp_barrier, 1, 32, 0)
RUN(same_element, 2, 1, 0)
RUN(correct, 3, 64, 0)

int create(float **x, int count) {
    const cudaError_t error = cudaMalloc(x, count * sizeof(float));
    return error != cudaSuccess ? error : cudaMemset(*x, 0, count * sizeof(float));
}

int synchronize() { return cudaDeviceSynchronize(); }

int reset() { return cudaDeviceReset(); }
}
