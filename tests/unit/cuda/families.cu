// The kinds of kernels that a training step has; the product may have a bug.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

__device__ __forceinline__ float gelu(float x) {
    return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
}

// y[64, 96] = gelu(x[64, 96] + bias[96]) * scale[64]
__global__ void __launch_bounds__(256)
map_kernel(const float *__restrict__ x, const float *__restrict__ bias, const float *__restrict__ scale,
           float *__restrict__ y) {
    const int i = blockIdx.x * 256 + threadIdx.x;  // of 4 numbers
    if (i >= 64 * 96 / 4) {
        return;
    }
    const float4 a = reinterpret_cast<const float4 *>(x)[i], b = reinterpret_cast<const float4 *>(bias)[i % 24];
    const float s = scale[i / 24];
    reinterpret_cast<float4 *>(y)[i] =
        make_float4(gelu(a.x + b.x) * s, gelu(a.y + b.y) * s, gelu(a.z + b.z) * s, gelu(a.w + b.w) * s);
}

__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) {
        x += __shfl_xor_sync(0xffffffffu, x, d);
    }
    return x;
}

__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) {
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, d));
    }
    return x;
}

// y[11, 517] = softmax of the rows of x, by one block of 128 threads each
__global__ void __launch_bounds__(128) softmax_kernel(const float *__restrict__ x, float *__restrict__ y) {
    __shared__ float maxima[4], sums[4];
    const float *row = x + blockIdx.x * 517;
    float largest = -INFINITY, sum = 0.0f;
    for (int j = threadIdx.x; j < 517; j += 128) {
        const float larger = fmaxf(largest, row[j]);
        sum = sum * __expf(largest - larger) + __expf(row[j] - larger);
        largest = larger;
    }
    const float of_warp = warp_max(largest);
    const float sum_of_warp = warp_sum(sum * __expf(largest - of_warp));
    if (threadIdx.x % 32 == 0) {
        maxima[threadIdx.x / 32] = of_warp;
        sums[threadIdx.x / 32] = sum_of_warp;
    }
    __syncthreads();
    const float top = fmaxf(fmaxf(maxima[0], maxima[1]), fmaxf(maxima[2], maxima[3]));
    float total = 0.0f;
    for (int w = 0; w < 4; w++) {
        total += sums[w] * __expf(maxima[w] - top);
    }
    for (int j = threadIdx.x; j < 517; j += 128) {
        y[blockIdx.x * 517 + j] = __fdividef(__expf(row[j] - top), total);
    }
}

enum Bug { NONE, NO_BARRIER, NO_GUARD, SWAPPED_STRIDES };

// c[50, 70] = a[50, 41] @ b[41, 70] in tiles of 32 x 32 x 16, 2 x 2 numbers for each of 256 threads
__global__ void __launch_bounds__(256)
product_kernel(int bug, const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c) {
    __shared__ alignas(16) float left[16][36], right[16][36];
    const int row = threadIdx.x / 16 * 2, column = threadIdx.x % 16 * 2, m0 = blockIdx.y * 32, n0 = blockIdx.x * 32;
    float sums[2][2] = {};
    for (int k0 = 0; k0 < 41; k0 += 16) {
        for (int i = threadIdx.x; i < 512; i += 256) {
            const int m = m0 + i / 16, k = k0 + i % 16, k2 = k0 + i / 32, n = n0 + i % 32;
            left[i % 16][i / 16] = m < 50 && k < 41 ? a[m * 41 + k] : 0.0f;
            const int at = bug == SWAPPED_STRIDES ? n * 41 + k2 : k2 * 70 + n;
            right[i / 32][i % 32] = bug == NO_GUARD || (k2 < 41 && n < 70) ? b[at] : 0.0f;
        }
        __syncthreads();
        for (int k = 0; k < 16; k++) {
            const float2 x = *reinterpret_cast<const float2 *>(&left[k][row]);
            const float2 y = *reinterpret_cast<const float2 *>(&right[k][column]);
            sums[0][0] = fmaf(x.x, y.x, sums[0][0]);
            sums[0][1] = fmaf(x.x, y.y, sums[0][1]);
            sums[1][0] = fmaf(x.y, y.x, sums[1][0]);
            sums[1][1] = fmaf(x.y, y.y, sums[1][1]);
        }
        if (bug != NO_BARRIER) {
            __syncthreads();
        }
    }
    for (int i = 0; i < 4; i++) {
        const int m = m0 + row + i / 2, n = n0 + column + i % 2;
        if (m < 50 && n < 70) {
            c[m * 70 + n] = sums[i / 2][i % 2];
        }
    }
}

// The reverse of y = x * rstd * gain, by rows of 64: dx[24, 64], and sums of dgain over the rows of 3 blocks
__global__ void __launch_bounds__(128)
norm_kernel(const float *__restrict__ dy, const float *__restrict__ x, const float *__restrict__ gain,
            const float *__restrict__ rstd, float *__restrict__ dx, float *__restrict__ partial) {
    __shared__ float sums[4][64];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float2 dgain = make_float2(0.0f, 0.0f);
    const int first = blockIdx.x * 8;
    for (int r = first + warp; r < first + 8; r += 4) {
        const float2 a = reinterpret_cast<const float2 *>(x + r * 64)[lane];
        const float2 d = reinterpret_cast<const float2 *>(dy + r * 64)[lane];
        const float2 g = reinterpret_cast<const float2 *>(gain)[lane];
        const float s = rstd[r], dot = warp_sum(a.x * d.x * g.x + a.y * d.y * g.y) * s * s * (1.0f / 64);
        reinterpret_cast<float2 *>(dx + r * 64)[lane] =
            make_float2((d.x * g.x - a.x * dot) * s, (d.y * g.y - a.y * dot) * s);
        dgain.x += d.x * a.x * s;
        dgain.y += d.y * a.y * s;
    }
    *reinterpret_cast<float2 *>(&sums[warp][lane * 2]) = dgain;
    __syncthreads();
    if (threadIdx.x < 64) {
        const int j = threadIdx.x;
        partial[blockIdx.x * 64 + j] = (sums[0][j] + sums[1][j]) + (sums[2][j] + sums[3][j]);
    }
}

__global__ void columns_kernel(const float *__restrict__ partial, float *__restrict__ dgain) {
    dgain[threadIdx.x] = partial[threadIdx.x] + partial[64 + threadIdx.x] + partial[128 + threadIdx.x];
}

#define MMA(name, shape, types)                                                                                   \
    asm volatile("mma.sync.aligned." shape ".row.col." types " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                 \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

// d[16, 8] = a[16, 32] @ b[8, 32].T; kind 0 is bfloat16, 1 float16, 2 tf32
__global__ void mma_kernel(int kind, const unsigned *__restrict__ left, const unsigned *__restrict__ right,
                           float *__restrict__ out) {
    const int group = threadIdx.x / 4, t = threadIdx.x % 4, words = kind == 2 ? 32 : 16;
    float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int k = 0; k < words; k += 8) {
        const unsigned a[4] = {left[group * words + k + t], left[(group + 8) * words + k + t],
                               left[group * words + k + t + 4], left[(group + 8) * words + k + t + 4]};
        const unsigned b[2] = {right[group * words + k + t], right[group * words + k + t + 4]};
#ifdef CUDA_SIMULATOR
        if (kind == 0) {
            simulator::mma_m16n8k16_bf16(d, a, b);
        } else if (kind == 1) {
            simulator::mma_m16n8k16_f16(d, a, b);
        } else {
            simulator::mma_m16n8k8_tf32(d, a, b);
        }
#else
        if (kind == 0) {
            MMA(bf16, "m16n8k16", "f32.bf16.bf16.f32");
        } else if (kind == 1) {
            MMA(f16, "m16n8k16", "f32.f16.f16.f32");
        } else {
            MMA(tf32, "m16n8k8", "f32.tf32.tf32.f32");
        }
#endif
    }
    for (int i = 0; i < 4; i++) {
        out[(group + i / 2 * 8) * 8 + t * 2 + i % 2] = d[i];
    }
}

// counts[10] += how often each id occurs among 1,000
__global__ void histogram_kernel(const int *__restrict__ ids, int *__restrict__ counts) {
    extern __shared__ unsigned char shared[];
    int *const bins = reinterpret_cast<int *>(shared);
    if (threadIdx.x < 10) {
        bins[threadIdx.x] = 0;
    }
    __syncthreads();
    for (int i = blockIdx.x * 128 + threadIdx.x; i < 1000; i += 4 * 128) {
        atomicAdd(&bins[ids[i]], 1);
    }
    __syncthreads();
    if (threadIdx.x < 10) {
        atomicAdd(&counts[threadIdx.x], bins[threadIdx.x]);
    }
}

extern "C" {
int map(const float *x, const float *bias, const float *scale, float *y, cudaStream_t stream) {
    map_kernel<<<6, 256, 0, stream>>>(x, bias, scale, y);
    return cudaGetLastError();
}

int softmax(const float *x, float *y, cudaStream_t stream) {
    softmax_kernel<<<11, 128, 0, stream>>>(x, y);
    return cudaGetLastError();
}

int product(int bug, const float *a, const float *b, float *c, cudaStream_t stream) {
    product_kernel<<<dim3(3, 2), 256, 0, stream>>>(bug, a, b, c);
    return cudaGetLastError();
}

int norm_reverse(const float *dy, const float *x, const float *gain, const float *rstd, float *dx, float *partial,
         float *dgain, cudaStream_t stream) {
    norm_kernel<<<3, 128, 0, stream>>>(dy, x, gain, rstd, dx, partial);
    columns_kernel<<<1, 64, 0, stream>>>(partial, dgain);
    return cudaGetLastError();
}

int mma(int kind, const unsigned *a, const unsigned *b, float *d, cudaStream_t stream) {
    mma_kernel<<<1, 32, 0, stream>>>(kind, a, b, d);
    return cudaGetLastError();
}

int histogram(const int *ids, int *counts, cudaStream_t stream) {
    histogram_kernel<<<4, 128, 10 * sizeof(int), stream>>>(ids, counts);
    return cudaGetLastError();
}
}
