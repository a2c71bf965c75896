// Single wrappers of sm_90a: boxes of any number of dimensions, bytes, and products whose left operand is in registers.
#include "hopper_gemm.cuh"

/* Copies a box of 2, 3 or 4 dimensions to shared memory, and that tile to a box of another array. */
__global__ void copy_box(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to, int dimensions,
                         int bytes, int4 at, int4 beyond) {
    extern __shared__ __align__(1024) unsigned char tile[];
    __shared__ uint64_t barrier;
    if (threadIdx.x == 0) {
        init_barrier(&barrier, 1);
        publish_barriers();
        expect_bytes(&barrier, bytes);
        dimensions == 2   ? load_tile(tile, &from, &barrier, at.x, at.y)
        : dimensions == 3 ? load_tile(tile, &from, &barrier, at.x, at.y, at.z)
                          : load_tile(tile, &from, &barrier, at.x, at.y, at.z, at.w);
        wait_for_phase(&barrier, 0);
        dimensions == 2   ? store_tile(&to, tile, beyond.x, beyond.y)
        : dimensions == 3 ? store_tile(&to, tile, beyond.x, beyond.y, beyond.z)
                          : store_tile(&to, tile, beyond.x, beyond.y, beyond.z, beyond.w);
        commit_stores();
        wait_for_stores<0>();
    }
}

extern "C" int box(int dimensions, const float *from, float *to, const cuuint64_t *sizes, const cuuint64_t *strides,
                   const cuuint32_t *box, const int *at, const int *beyond) {
    CUtensorMap maps[2];
    const CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    cudaError_t error = encode_map(maps, type, dimensions, from, sizes, strides, box);
    error = error == cudaSuccess ? encode_map(maps + 1, type, dimensions, to, sizes, strides, box) : error;
    if (error != cudaSuccess) {
        return error;
    }
    int bytes = 4;
    for (int i = 0; i < dimensions; i++) {
        bytes *= box[i];
    }
    copy_box<<<1, 32, bytes>>>(maps[0], maps[1], dimensions, bytes, make_int4(at[0], at[1], at[2], at[3]),
                               make_int4(beyond[0], beyond[1], beyond[2], beyond[3]));
    return cudaGetLastError();
}

/* Copies bytes to shared memory, and adds them up by one elected thread. */
__global__ void add_bytes(const float *x, int count, float *sum) {
    extern __shared__ __align__(16) float values[];
    __shared__ uint64_t barrier;
    const bool elected = elect_thread();
    if (elected) {
        init_barrier(&barrier, 1);
        publish_barriers();
        expect_bytes(&barrier, 4 * count);
        load_bytes(values, x, 4 * count, &barrier);
        wait_for_phase(&barrier, 0);
        float s = 0;
        for (int i = 0; i < count; i++) {
            s += values[i];
        }
        *sum = s;
    }
}

extern "C" int add(const float *x, int count, float *sum) {
    add_bytes<<<1, 32, 4 * count>>>(x, count, sum);
    return cudaGetLastError();
}

/* Adds the products of two terms in registers by those in shared memory to the sums. */
template <class T>
__device__ __forceinline__ void multiply_half(float (&sums)[64], const unsigned (&left)[4][4], const unsigned char *tile, int first) {
    const uint64_t b = describe_tile(tile, sizeof(T) == 4 ? 16 : BOX_BYTES, 1024);
#pragma unroll
    for (int i = first; i < first + 2; i++) {
        if constexpr (std::is_same<T, float>::value) {
            multiply_warpgroup_tf32_128_registers(sums, left[i], b + 2 * i, i > first);
        } else if constexpr (std::is_same<T, __half>::value) {
            multiply_warpgroup_f16_128_registers<1>(sums, left[i], b + 128 * i, i > first);
        } else {
            multiply_warpgroup_bf16_128_registers<1>(sums, left[i], b + 128 * i, i > first);
        }
    }
    commit_products();
}

/* C = A . B of 64 x 128, with the fragments of A from global memory, and B from shared memory.
 *
 * The sums of the first half of the terms are read while those of the second are in flight. */
template <class T>
__global__ void __launch_bounds__(128, 1) multiply_fragments(const unsigned *a, const __grid_constant__ CUtensorMap b_map, float *c) {
    constexpr int WORDS = 32;  // of a row
    extern __shared__ __align__(1024) unsigned char tile[];
    __shared__ uint64_t barrier;
    if (threadIdx.x == 0) {
        init_barrier(&barrier, 1);
        publish_barriers();
        expect_bytes(&barrier, 128 * ROW_BYTES);
        if (sizeof(T) == 4) {
            load_tile(tile, &b_map, &barrier, 0, 0);
        } else {
            load_tile(tile, &b_map, &barrier, 0, 0);
            load_tile(tile + BOX_BYTES, &b_map, &barrier, 64, 0);
        }
    }
    __syncthreads();
    wait_for_phase(&barrier, 0);
    const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, quad = threadIdx.x % 4;
    float sums[2][64];
    unsigned left[4][4];
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) {
            left[i][j] = a[(row + j % 2 * 8) * WORDS + 8 * i + quad + j / 2 * 4];
        }
    }
    fence_products();
    multiply_half<T>(sums[0], left, tile, 0);
    multiply_half<T>(sums[1], left, tile, 2);
    wait_for_products<1>();
#pragma unroll
    for (int i = 0; i < 64; i++) {
        c[(row + i / 2 % 2 * 8) * 128 + i / 4 * 8 + quad * 2 + i % 2] = sums[0][i];
    }
    wait_for_products<0>();
#pragma unroll
    for (int i = 0; i < 64; i++) {
        c[(row + i / 2 % 2 * 8) * 128 + i / 4 * 8 + quad * 2 + i % 2] += sums[1][i];
    }
}

/* B is [128, 32] of TF32, or [64, 128] of 16 bits. */
template <class T> int run_fragments(const void *a, const void *b, float *c) {
    CUtensorMap map;
    const bool wide = sizeof(T) == 4;
    const cudaError_t error = encode(&map, Format<T>::TYPE, sizeof(T), b, wide ? 128 : 64, wide ? 32 : 128,
                                     wide ? 32 : 128, wide ? 128 : 64);
    if (error != cudaSuccess) {
        return error;
    }
    auto *const kernel = multiply_fragments<T>;
    kernel<<<1, 128, 128 * ROW_BYTES>>>((const unsigned *)a, map, c);
    return cudaGetLastError();
}

extern "C" int fragments(int kind, const void *a, const void *b, float *c) {
    return kind == 0   ? run_fragments<__nv_bfloat16>(a, b, c)
           : kind == 1 ? run_fragments<__half>(a, b, c)
                       : run_fragments<float>(a, b, c);
}

/* Stores the fragments of 16 x 16 elements of 16 bits, and reads them back by rows. */
__global__ void store_fragments(const unsigned *x, uint16_t *y) {
    __shared__ __align__(16) uint16_t tile[16 * 16];
    const int lane = threadIdx.x, row = lane % 8 + lane / 8 % 2 * 8, column = lane / 16 * 8;
    unsigned values[4];
    for (int i = 0; i < 4; i++) {
        values[i] = x[(lane / 4 + i % 2 * 8) * 8 + lane % 4 + i / 2 * 4];
    }
    store_matrices(tile + row * 16 + column, values);
    __syncwarp();
    for (int i = lane; i < 256; i += 32) {
        y[i] = tile[i];
    }
}

extern "C" int matrices(const unsigned *x, uint16_t *y) {
    store_fragments<<<1, 32>>>(x, y);
    return cudaGetLastError();
}
