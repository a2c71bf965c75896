/* Calls the library rows from more threads than share a loop of its own, each with a workspace of so many bytes. */
#include <math.h>
#include <stdlib.h>

#include "rows.h"

enum { THREADS_HERE = 24, N = 3, M = 50 };

int main(void)
{
    int failures = 0;
#pragma omp parallel num_threads(THREADS_HERE) reduction(+ : failures)
    {
        float x[N * M], y[N * M], sum = 0;
        for (int i = 0; i < N * M; i++) {
            x[i] = sinf((float)i);
        }
        void *const workspace = aligned_alloc(64, rows_f_workspace_bytes(M, N));
        failures += workspace == NULL || rows_f(M, N, x, y, workspace) != ROWS_OK;
        for (int i = 0; i < N * M; i++) {
            sum += y[i];
        }
        failures += !(fabsf(sum - N) < 1e-5f);
        free(workspace);
    }
    return failures;
}
