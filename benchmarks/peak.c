/* The most float32 operations a second that one core does in registers: chains of multiply-adds without memory. */

#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
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

int main(void) {
    volatile float factor = 0.999f, summand = 0.001f, sink;
    double best = 1e9;
    for (int attempt = 0; attempt < TRIES; attempt++) {
        double start = now();
        sink = chains(factor, summand);
        double taken = now() - start;
        best = taken < best ? taken : best;
    }
    (void)sink;
    printf("%.6g\n", 2.0 * LANES * CHAINS * (double)TURNS / best);
    return 0;
}
