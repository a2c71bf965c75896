/* The peaks of one core, a line each: float32 operations a second in registers, by chains of multiply-adds without
   memory; then, for arrays of more and more bytes, their size and the bytes a second that it reads again and again. */

#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX__)
#define LANES 8
#else
#define LANES 4
#endif

/* Enough chains to hide the latency of two multipliers, few enough for the registers. */
#define CHAINS 12
#define TURNS 4000000L
#define TRIES 9

/* From arrays that every cache of data holds to those that none does. */
#define LEAST_BYTES ((size_t)1 << 14)
#define MOST_BYTES ((size_t)1 << 28)
#define BYTES_A_TRY ((size_t)1 << 27)
#define LINE 64
/* Sums that hide the latency of an addition. */
#define SUMS 8

__extension__ typedef float vector __attribute__((vector_size(LANES * sizeof(float))));

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static float chains(float factor, float summand) {
    vector sums[CHAINS];
    for (int chain = 0; chain < CHAINS; chain++) {
        sums[chain] = (vector){0} + summand * (float)chain; /* chains that differ, or one would do for all */
    }
    for (long turn = 0; turn < TURNS; turn++) {
#pragma GCC unroll 12
        for (int chain = 0; chain < CHAINS; chain++) {
            sums[chain] = sums[chain] * factor + summand;
        }
    }
    float total = 0;
    for (int chain = 0; chain < CHAINS; chain++) {
        for (int lane = 0; lane < LANES; lane++) {
            total += sums[chain][lane];
        }
    }
    return total;
}

static double operations_a_second(void) {
    volatile float factor = 0.999f, summand = 0.001f, sink;
    double best = 1e9;
    for (int attempt = 0; attempt < TRIES; attempt++) {
        double start = now();
        sink = chains(factor, summand);
        double taken = now() - start;
        best = taken < best ? taken : best;
    }
    (void)sink;
    return 2.0 * LANES * CHAINS * (double)TURNS / best;
}

/* The sum of an array of a multiple of SUMS vectors. */
static float sum(const vector *array, size_t vectors) {
    vector sums[SUMS] = {{0}};
    for (size_t i = 0; i < vectors; i += SUMS) {
#pragma GCC unroll 8
        for (int k = 0; k < SUMS; k++) {
            sums[k] += array[i + (size_t)k];
        }
    }
    float total = 0;
    for (int k = 0; k < SUMS; k++) {
        total += sums[k][0];
    }
    return total;
}

static double bytes_a_second(const vector *array, size_t bytes) {
    const vector *volatile same = array; /* read anew each time, or one sum would do for all */
    volatile float sink;
    size_t times = bytes < BYTES_A_TRY ? BYTES_A_TRY / bytes : 1;
    double best = 1e9;
    for (int attempt = 0; attempt < TRIES; attempt++) {
        double start = now();
        for (size_t time = 0; time < times; time++) {
            sink = sum(same, bytes / sizeof(vector));
        }
        double taken = now() - start;
        best = taken < best ? taken : best;
    }
    (void)sink;
    return (double)bytes * (double)times / best;
}

int main(void) {
    vector *array = aligned_alloc(LINE, MOST_BYTES);
    if (!array) {
        fprintf(stderr, "no memory for an array of %zu bytes\n", MOST_BYTES);
        return 1;
    }
    for (size_t i = 0; i < MOST_BYTES / sizeof(vector); i++) {
        array[i] = (vector){0} + 1.0f; /* pages of their own, where zeros might share one */
    }
    printf("%.6g\n", operations_a_second());
    for (size_t bytes = LEAST_BYTES; bytes <= MOST_BYTES; bytes *= 2) {
        printf("%zu %.6g\n", bytes, bytes_a_second(array, bytes));
    }
    free(array);
    return 0;
}
