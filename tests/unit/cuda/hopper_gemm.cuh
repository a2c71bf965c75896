// Products for sm_90a by the wrappers that emitted code calls: a producer, two warp groups and a ring of tiles.
//
// A block takes tiles of 128 x N results, one after another. A is [M, K], or [K, M] if A_MAJOR is 1, and B is [N, K],
// or [K, N] if B_MAJOR is 1. Arrays and ring are of any size; TMA fills the rest of tiles with zeros.
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>
#include <type_traits>

#include "hopper.cuh"

constexpr int ROWS = 128, ROW_BYTES = 128, BOX_BYTES = 64 * ROW_BYTES, CONSUMERS = 2, THREADS = 384;

template <class T> struct Format;
template <> struct Format<__nv_bfloat16> {
    static constexpr CUtensorMapDataType TYPE = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
};
template <> struct Format<__half> {
    static constexpr CUtensorMapDataType TYPE = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
};
template <> struct Format<float> {
    static constexpr CUtensorMapDataType TYPE = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
};

#define MULTIPLY(type, d, n, majors, ...)                                                              \
    template <class T, __VA_ARGS__>                                                                    \
    __device__ __forceinline__ std::enable_if_t<std::is_same<T, type>::value>                          \
    multiply(float (&sums)[n / 2], uint64_t a, uint64_t b, bool adds) {                                \
        multiply_warpgroup_##d##_##n majors(sums, a, b, adds);                                         \
    }
#define MAJORS <A_MAJOR, B_MAJOR>
MULTIPLY(__nv_bfloat16, bf16, 64, MAJORS, int A_MAJOR, int B_MAJOR)
MULTIPLY(__nv_bfloat16, bf16, 128, MAJORS, int A_MAJOR, int B_MAJOR)
MULTIPLY(__nv_bfloat16, bf16, 256, MAJORS, int A_MAJOR, int B_MAJOR)
MULTIPLY(__half, f16, 128, MAJORS, int A_MAJOR, int B_MAJOR)
MULTIPLY(float, tf32, 128, , int, int)
MULTIPLY(float, tf32, 256, , int, int)

/* The rows of a tile of an operand, and how it lies in shared memory. */
template <class T, int MAJOR> struct Operand {
    static constexpr int TERMS = ROW_BYTES / sizeof(T);  // of a slot
    static constexpr unsigned LEADING = MAJOR ? TERMS * ROW_BYTES : 16, STEP = MAJOR ? 16 * ROW_BYTES / 16 : 2;

    static __device__ __forceinline__ void load(unsigned char *tile, const CUtensorMap *map, uint64_t *full, int row,
                                                int rows, int term) {
        if (MAJOR == 0) {
            load_tile(tile, map, full, term, row);
        }
        for (int i = 0; MAJOR == 1 && i < rows; i += 64) {
            load_tile(tile + i * ROW_BYTES, map, full, row + i, term);
        }
    }
};

/* Writes 64 x N sums of a warp group to C, by boxes of 64 x 32. */
template <int N>
__device__ __forceinline__ void write(const float (&sums)[N / 2], unsigned char *box, const CUtensorMap *map, int row,
                                      int column) {
    const int thread = threadIdx.x % 128, lane = thread % 32;
#pragma unroll
    for (int i = 0; i < N / 32; i++) {
        if (thread == 0) {
            wait_for_stores<0>();
        }
        threadIdx.x < 256 ? meet_at<1, 128>() : meet_at<2, 128>();
#pragma unroll
        for (int j = 0; j < 16; j += 2) {
            const int r = thread / 32 * 16 + lane / 4 + j / 2 % 2 * 8, c = j / 4 * 8 + lane % 4 * 2;
            *(float2 *)(box + r * ROW_BYTES + (c / 4 ^ r % 8) * 16 + c % 4 * 4) =
                make_float2(sums[16 * i + j], sums[16 * i + j + 1]);
        }
        publish_stores();
        threadIdx.x < 256 ? meet_at<1, 128>() : meet_at<2, 128>();
        if (thread == 0) {
            store_tile(map, box, column + 32 * i, row);
            commit_stores();
        }
    }
}

template <class T, int N, int A_MAJOR, int B_MAJOR, int IN_FLIGHT>
__global__ void __launch_bounds__(THREADS, 1)
gemm(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map,
     const __grid_constant__ CUtensorMap c_map, int m, int n, int k, int stages) {
    using A = Operand<T, A_MAJOR>;
    using B = Operand<T, B_MAJOR>;
    constexpr int A_BYTES = ROWS * ROW_BYTES, STAGE_BYTES = A_BYTES + N * ROW_BYTES, TERMS = A::TERMS;
    extern __shared__ __align__(1024) unsigned char shared[];
    unsigned char *const boxes = shared + stages * STAGE_BYTES;
    uint64_t *const full = (uint64_t *)(boxes + CONSUMERS * BOX_BYTES), *const empty = full + stages;
    const int down = (m + ROWS - 1) / ROWS, tiles = down * ((n + N - 1) / N), blocks = (k + TERMS - 1) / TERMS;
    if (threadIdx.x == 0) {
        for (int i = 0; i < stages; i++) {
            init_barrier(full + i, 1);
            init_barrier(empty + i, CONSUMERS);
        }
        publish_barriers();
        prefetch_map(&a_map);
        prefetch_map(&b_map);
    }
    __syncthreads();
    if (threadIdx.x < 128) {  // the producer
        lower_registers<40>();
        if (threadIdx.x < 32 && elect_thread()) {
            int t = 0;
            for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
                for (int block = 0; block < blocks; block++, t++) {
                    const int slot = t % stages;
                    unsigned char *const a = shared + slot * STAGE_BYTES, *const b = a + A_BYTES;
                    wait_for_phase(empty + slot, t / stages % 2 ^ 1);
                    expect_bytes(full + slot, STAGE_BYTES);
                    A::load(a, &a_map, full + slot, tile % down * ROWS, ROWS, block * TERMS);
                    B::load(b, &b_map, full + slot, tile / down * N, N, block * TERMS);
                }
            }
        }
    } else {
        raise_registers<232>();
        const int consumer = threadIdx.x / 128 - 1;
        const bool is_first = threadIdx.x % 128 == 0;
        int t = 0;
        float sums[N / 2];
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
#pragma unroll 1
            for (int block = 0; block < blocks; block++, t++) {
                const int slot = t % stages;
                unsigned char *const tile_a = shared + slot * STAGE_BYTES + consumer * BOX_BYTES;
                const uint64_t a = describe_tile(tile_a, A::LEADING, 1024);
                const uint64_t b = describe_tile(shared + slot * STAGE_BYTES + A_BYTES, B::LEADING, 1024);
                wait_for_phase(full + slot, t / stages % 2);
                fence_products();
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    multiply<T, A_MAJOR, B_MAJOR>(sums, a + i * A::STEP, b + i * B::STEP, block > 0 || i > 0);
                }
                commit_products();
                wait_for_products<IN_FLIGHT>();
                if (is_first && block >= IN_FLIGHT) {
                    arrive_at_barrier(empty + (t - IN_FLIGHT) % stages);
                }
            }
            wait_for_products<0>();
            if (IN_FLIGHT && is_first) {
                arrive_at_barrier(empty + (t - 1) % stages);
            }
            write<N>(sums, boxes + consumer * BOX_BYTES, &c_map, tile % down * ROWS + consumer * 64, tile / down * N);
        }
        if (is_first) {
            wait_for_stores<0>();
        }
    }
}

/* Sizes of a product, and the elements between rows of its arrays. */
struct Sizes {
    int m, n, k, a_pitch, b_pitch, c_pitch, stages, blocks;
};

/* Encodes the map of a matrix, for boxes of a row of 128 bytes. */
static cudaError_t encode(CUtensorMap *map, CUtensorMapDataType type, unsigned bytes, const void *array, int rows,
                          int columns, int pitch, unsigned box_rows) {
    const cuuint64_t sizes[] = {(cuuint64_t)columns, (cuuint64_t)rows}, strides[] = {(cuuint64_t)pitch * bytes};
    const cuuint32_t box[] = {ROW_BYTES / bytes, box_rows};
    return encode_map(map, type, 2, array, sizes, strides, box);
}

template <class T, int N, int A_MAJOR, int B_MAJOR, int IN_FLIGHT>
int run(const T *a, const T *b, float *c, const Sizes &s) {
    CUtensorMap maps[3];
    constexpr int TERMS = ROW_BYTES / sizeof(T);
    const auto type = Format<T>::TYPE;
    const cudaError_t errors[] = {
        A_MAJOR ? encode(maps, type, sizeof(T), a, s.k, s.m, s.a_pitch, TERMS)
                : encode(maps, type, sizeof(T), a, s.m, s.k, s.a_pitch, ROWS),
        B_MAJOR ? encode(maps + 1, type, sizeof(T), b, s.k, s.n, s.b_pitch, TERMS)
                : encode(maps + 1, type, sizeof(T), b, s.n, s.k, s.b_pitch, N),
        encode(maps + 2, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, c, s.m, s.n, s.c_pitch, 64),
    };
    for (const cudaError_t error : errors) {
        if (error != cudaSuccess) {
            return error;
        }
    }
    auto *const kernel = gemm<T, N, A_MAJOR, B_MAJOR, IN_FLIGHT>;
    const int bytes = s.stages * (ROWS + N) * ROW_BYTES + CONSUMERS * BOX_BYTES + 2 * s.stages * 8;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    kernel<<<s.blocks, THREADS, bytes>>>(maps[0], maps[1], maps[2], s.m, s.n, s.k, s.stages);
    return cudaGetLastError();
}
