// Asynchronous copies to shared memory, and matrices that a warp loads from there; some with a bug.
#include <cuda_runtime.h>

#ifdef CUDA_SIMULATOR
#define COPY(to, from, bytes, read) simulator::copy_async(to, from, bytes, read)
#define COMMIT() simulator::commit_copies()
#define WAIT(pending) simulator::wait_for_copies(pending)
#define LOAD(d, row, transposed) simulator::load_matrices(d, row, transposed)
#else
#define PLACE(address) static_cast<unsigned>(__cvta_generic_to_shared(address))
#define COPY(to, from, bytes, read) \
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(PLACE(to)), "l"(from), "n"(bytes), "r"(read))
#define COMMIT() asm volatile("cp.async.commit_group;")
#define WAIT(pending) asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory")
#define LOAD_AS(kind, d, row)                                                                   \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" kind ".shared.b16 {%0, %1, %2, %3}, [%4];"    \
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(PLACE(row)) : "memory")
#define LOAD(d, row, transposed)        \
    if (transposed) {                   \
        LOAD_AS(".trans", d, row);      \
    } else {                            \
        LOAD_AS("", d, row);            \
    }
#endif

enum { NONE, NO_WAIT, NO_BARRIER, TOO_EARLY };

// out[slice, i] = x[slice, 255 - i] for 8 slices of 256 numbers, through a ring of 3 stages
__global__ void ring_kernel(int bug, const float *x, float *out) {
    __shared__ __align__(16) float tiles[3][256];
    const int mine = threadIdx.x * 4;
    for (int slice = 0; slice < 2; slice++) {
        COPY(&tiles[slice][mine], x + slice * 256 + mine, 16, 16);
        COMMIT();
    }
    for (int slice = 0; slice < 8; slice++) {
        if (bug != NO_WAIT) {
            WAIT(1);
        }
        if (bug != NO_BARRIER) {
            __syncthreads();
        }
        const int next = slice + (bug == TOO_EARLY ? 3 : 2);
        COPY(&tiles[next % 3][mine], x + (next < 8 ? next * 256 + mine : 0), 16, next < 8 ? 16 : 0);
        COMMIT();
        for (int i = mine; i < mine + 4; i++) {
            out[slice * 256 + i] = tiles[slice % 3][255 - i];
        }
    }
}

// out[lane] = the words of four matrices of 8 rows of 8 halves, of x[32 rows, 4 words]
__global__ void matrices_kernel(int transposed, const unsigned *x, unsigned *out) {
    __shared__ __align__(16) unsigned rows[32][4];
    for (int i = 0; i < 4; i++) {
        rows[threadIdx.x][i] = x[threadIdx.x * 4 + i];
    }
    __syncwarp();
    unsigned d[4];
    LOAD(d, rows[threadIdx.x], transposed);
    for (int i = 0; i < 4; i++) {
        out[threadIdx.x * 4 + i] = d[i];
    }
}

// out[32, 4]: of each four numbers, the first ones, as many as the thread's number in turn, and zeros
__global__ void zeros_kernel(const float *x, float *out) {
    __shared__ __align__(16) float tile[32][4];
    const int i = threadIdx.x;
    COPY(tile[i], x + 4 * i, 16, i % 5 * 4);
    COMMIT();
    WAIT(0);
    for (int j = 0; j < 4; j++) {
        out[4 * i + j] = tile[i][j];
    }
}

__global__ void to_memory(float *x) {
    COPY(x + 8, x, 4, 4);  // bug
}

__global__ void misaligned_source(float *x) {
    __shared__ __align__(16) float tile[4];
    COPY(tile, x + 1, 16, 16);  // bug
}

__global__ void half_a_warp(unsigned *x) {
    __shared__ __align__(16) unsigned rows[4];
    if (threadIdx.x < 16) {
        unsigned d[4];
        LOAD(d, rows, 0);  // bug
        x[threadIdx.x] = d[0];
    }
}

extern "C" {
int ring(int bug, const float *x, float *out) {
    ring_kernel<<<1, 64>>>(bug, x, out);
    return cudaGetLastError();
}

int matrices(int transposed, const unsigned *x, unsigned *out) {
    matrices_kernel<<<1, 32>>>(transposed, x, out);
    return cudaGetLastError();
}

int zeros(const float *x, float *out) {
    zeros_kernel<<<1, 32>>>(x, out);
    return cudaGetLastError();
}

int run_to_memory(float *x) {
    to_memory<<<1, 1>>>(x);
    return cudaGetLastError();
}

int run_misaligned_source(float *x) {
    misaligned_source<<<1, 1>>>(x);
    return cudaGetLastError();
}

int run_half_a_warp(unsigned *x) {
    half_a_warp<<<1, 32>>>(x);
    return cudaGetLastError();
}

int reset() { return cudaDeviceReset(); }
}
