// Pieces of CUDA that emitted code uses, one by one.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define ALL 0xffffffffu

__device__ unsigned number_in_block() {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}

__global__ void index_kernel(int *out) {
    const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const unsigned i = block * blockDim.x * blockDim.y * blockDim.z + number_in_block();
    out[i] = static_cast<int>(threadIdx.x + 10 * threadIdx.y + 100 * threadIdx.z + 1000 * blockIdx.x +
                              10000 * blockIdx.y + 100000 * blockIdx.z);
}

__global__ void vector_kernel(const float4 *x, float4 *y, const int4 *i, int4 *j, const double2 *u, double2 *v) {
    __shared__ float4 tile[32];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncwarp();
    const float4 a = tile[31 - threadIdx.x];
    y[threadIdx.x] = make_float4(a.w, a.z, a.y, a.x);
    const int4 b = i[threadIdx.x];
    j[threadIdx.x] = make_int4(min(b.x, b.y), max(b.x, b.y), b.z + 1, b.w - 1);
    const double2 c = u[threadIdx.x];
    v[threadIdx.x] = make_double2(c.y, c.x);
}

__global__ void shuffle_kernel(const int *x, int *out) {
    const unsigned i = threadIdx.x;
    out[i] = __shfl_sync(ALL, x[i], 5);
    out[32 + i] = __shfl_up_sync(ALL, x[i], 3);
    out[64 + i] = __shfl_down_sync(ALL, x[i], 3);
    out[96 + i] = __shfl_xor_sync(ALL, x[i], 6);
    out[128 + i] = __shfl_sync(ALL, x[i], i + 1, 8);
    out[160 + i] = __shfl_down_sync(ALL, x[i], 2, 8);
    const double sum = __shfl_xor_sync(ALL, x[i] + 0.5, 1);
    out[192 + i] = static_cast<int>(2 * sum);
    out[224 + i] = i < 16 ? __shfl_xor_sync(0x0000ffffu, x[i], 8) : __shfl_xor_sync(0xffff0000u, x[i], 4);
}

__global__ void vote_kernel(const int *x, int *out) {
    const int v = x[threadIdx.x];
    const unsigned votes = __ballot_sync(ALL, v > 0);
    const int any = __any_sync(ALL, v > 100), all = __all_sync(ALL, v > -100);
    const int count = __syncthreads_count(v > 0), some = __syncthreads_or(v > 100), each = __syncthreads_and(v > -100);
    if (threadIdx.x == 0) {
        out[0] = static_cast<int>(votes);
        out[1] = any;
        out[2] = all;
        out[3] = count;
        out[4] = some != 0;
        out[5] = each != 0;
    }
}

// The lanes after the 20th have returned; the mask still names them, but none is read.
__global__ void early_return_kernel(int *out) {
    if (threadIdx.x >= 20) {
        return;
    }
    out[threadIdx.x] = __shfl_sync(ALL, static_cast<int>(threadIdx.x) * 3, 7);
    __syncthreads();
    out[20 + threadIdx.x] = out[19 - threadIdx.x] + static_cast<int>(__ballot_sync(ALL, 1));
}

__global__ void bits_kernel(const unsigned *x, unsigned *out) {
    const unsigned i = threadIdx.x, v = x[i];
    out[i] = static_cast<unsigned>(__popc(v));
    out[32 + i] = static_cast<unsigned>(__ffs(static_cast<int>(v)));
    out[64 + i] = static_cast<unsigned>(__clz(static_cast<int>(v)));
    out[96 + i] = __umulhi(v, 0x9e3779b9u);
    out[128 + i] = __brev(v);
    out[160 + i] = __float_as_uint(__uint_as_float(v));
}

__global__ void atomic_kernel(int *n, unsigned *u, float *f) {
    const int i = static_cast<int>(threadIdx.x);
    atomicAdd(&n[0], i);
    atomicMax(&n[1], i);
    atomicMin(&n[2], -i);
    atomicExch(&n[3], 7);
    atomicCAS(&n[4], 0, i + 1);
    atomicOr(&u[0], 1u << i % 32);
    atomicAnd(&u[1], ~(1u << i % 4));
    atomicXor(&u[2], 1u << i % 32);
    atomicAdd(f, 0.5f);
}

__global__ void reverse_kernel(float *x, int n) {
    extern __shared__ __align__(16) float values[];
    values[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = values[n - 1 - static_cast<int>(threadIdx.x)];
}

__global__ void unwritten_kernel(float *out, const float *memory) {
    __shared__ float array[2];
    extern __shared__ float values[];
    out[0] = array[blockIdx.x % 2];
    out[1] = values[3];
    out[2] = memory[3];
    array[blockIdx.x % 2] = values[3] = 1.0f;  // another block does not see it
}

__global__ void halves_kernel(const unsigned short *bits, float *f16, float *bf16, const float *x,
                              unsigned short *to_f16, unsigned short *to_bf16) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    f16[i] = __half2float(__ushort_as_half(bits[i]));
    bf16[i] = __bfloat162float(__ushort_as_bfloat16(bits[i]));
    to_f16[i] = __half_as_ushort(__float2half_rn(x[i]));
    to_bf16[i] = __bfloat16_as_ushort(__float2bfloat16_rn(x[i]));
}

__global__ void math_kernel(const float *x, float *out) {
    const unsigned i = threadIdx.x;
    out[i] = rsqrtf(x[i]);
    out[32 + i] = __expf(x[i]);
    out[64 + i] = erff(x[i]);
    out[96 + i] = __fdividef(x[i], 3.0f);
    out[128 + i] = fmaf(x[i], x[i], 1.0f);
    out[160 + i] = __logf(x[i]);
    out[192 + i] = __saturatef(x[i]);
    out[224 + i] = min(x[i], 1.5f) + max(2, static_cast<int>(i));
    out[256 + i] = __ldg(&x[i]) + __powf(x[i], 2.0f);
}

// Adds 1 to 4 numbers by 2 kernels of different kinds of parameters.
struct Pair {
    float *data;
    int count;
};

__global__ void pair_kernel(Pair pair, const double increment) {
    if (threadIdx.x < static_cast<unsigned>(pair.count)) {
        pair.data[threadIdx.x] += static_cast<float>(increment);
    }
}

extern "C" {
int indices(int *out) {
    index_kernel<<<dim3(2, 3, 2), dim3(4, 2, 3)>>>(out);
    return cudaGetLastError();
}

int vectors(const float4 *x, float4 *y, const int4 *i, int4 *j, const double2 *u, double2 *v) {
    vector_kernel<<<1, 32>>>(x, y, i, j, u, v);
    return cudaGetLastError();
}

int shuffles(const int *x, int *out) {
    shuffle_kernel<<<1, 32>>>(x, out);
    return cudaGetLastError();
}

int votes(const int *x, int *out) {
    vote_kernel<<<1, 32>>>(x, out);
    return cudaGetLastError();
}

int early_return(int *out) {
    early_return_kernel<<<1, 50>>>(out);
    return cudaGetLastError();
}

int bits(const unsigned *x, unsigned *out) {
    bits_kernel<<<1, 32>>>(x, out);
    return cudaGetLastError();
}

int atomics(int *n, unsigned *u, float *f) {
    atomic_kernel<<<1, 64>>>(n, u, f);
    return cudaGetLastError();
}

int reversed(float *x, int n, size_t bytes) {
    reverse_kernel<<<1, static_cast<unsigned>(n), bytes>>>(x, n);
    return cudaGetLastError();
}

int allow(int bytes) {
    const int error = cudaFuncSetAttribute(reverse_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    cudaGetLastError();
    return error;
}

int unwritten(float *out) {
    float *memory;
    cudaMalloc(&memory, 16);
    unwritten_kernel<<<3, 1, 16>>>(out, memory);
    cudaFree(memory);
    return cudaGetLastError();
}

int halves(const unsigned short *bits, float *f16, float *bf16, const float *x, unsigned short *to_f16,
           unsigned short *to_bf16) {
    halves_kernel<<<64, 1024>>>(bits, f16, bf16, x, to_f16, to_bf16);
    return cudaGetLastError();
}

int math(const float *x, float *out) {
    math_kernel<<<1, 32>>>(x, out);
    return cudaGetLastError();
}

int launch(unsigned grid_x, unsigned grid_y, unsigned block_x, unsigned block_z) {
    pair_kernel<<<dim3(grid_x, grid_y), dim3(block_x, 1, block_z)>>>(Pair{nullptr, 0}, 1);
    return cudaGetLastError();
}

int add(float *x, int count, float increment, cudaStream_t stream) {
    const Pair pair = {x, count};
    pair_kernel
        <<<1, /* threads */ (1 << 5) >> 0, sizeof(float[2]) * (2 > 1),
           stream>>>(pair, increment);  // on several lines
    return cudaGetLastError();
}

const char *words(int error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); }
}
