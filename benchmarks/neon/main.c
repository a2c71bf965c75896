/* Packs and multiplies so often, and perhaps prints the greatest error over the greatest element. */
#include "product.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void *aligned(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 511) / 64 * 64); /* kernels may read some bytes beyond */
    if (!memory) {
        exit(1);
    }
    return memory;
}

static const float *filled(ptrdiff_t size, const int8_t **bytes)
{
    float *floats = aligned((size_t)size * sizeof *floats);
    int8_t *copy = aligned((size_t)size);
    for (ptrdiff_t i = 0; i < size; i++) {
        copy[i] = (int8_t)(i * 7919 % 255 - 127);
        floats[i] = copy[i];
    }
    *bytes = copy;
    return floats;
}

static double expected(const product *x, ptrdiff_t i, ptrdiff_t j)
{
    double sum = 0;
    const ptrdiff_t line = x->n + 2;
    for (ptrdiff_t p = 0; p < x->k && x->kind != CONVOLUTION; p++) {
        sum += (double)x->a[i * x->a_row + p * x->a_column] * x->b[p * x->b_row + j * x->b_column];
    }
    for (ptrdiff_t p = 0; p < 9 * x->k && x->kind == CONVOLUTION; p++) {
        const ptrdiff_t y = j / x->n + p % 9 / 3, z = j % x->n + p % 3;
        sum += (double)x->a[i * 9 * x->k + p] * x->b[(p / 9 * line + y) * line + z];
    }
    return sum;
}

static double error(const product *x)
{
    double greatest = 0, error = 0;
    const ptrdiff_t columns = x->kind == CONVOLUTION ? x->n * x->n : x->n;
    for (ptrdiff_t i = 0; i < x->m; i++) {
        for (ptrdiff_t j = 0; j < columns; j++) {
            const double wanted = expected(x, i, j);
            greatest = fmax(greatest, fabs(wanted));
            error = fmax(error, fabs(result(x, i, j) - wanted));
        }
    }
    return error / greatest;
}

/* Arguments: kind, layout of A and B, m, n, k, how often to pack and to multiply, and whether to check. */
int main(int count, char **argument)
{
    if (count != 9) {
        return 2;
    }
    product x = {.kind = argument[1][0], .m = atoi(argument[3]), .n = atoi(argument[4]), .k = atoi(argument[5])};
    const bool is_a_rows = argument[2][0] == 'N', is_b_rows = argument[2][1] == 'N';
    x.a_row = is_a_rows ? x.k : 1;
    x.a_column = is_a_rows ? 1 : x.m;
    x.b_row = is_b_rows ? x.n : 1;
    x.b_column = is_b_rows ? 1 : x.k;
    const ptrdiff_t depth = x.kind == CONVOLUTION ? 9 * x.k : x.k;
    x.a = filled(x.m * depth, &x.a_bytes);
    x.b = filled(x.kind == CONVOLUTION ? x.k * (x.n + 2) * (x.n + 2) : x.k * x.n, &x.b_bytes);
    for (int i = atoi(argument[6]); i > 0; i--) {
        pack(&x);
    }
    for (int i = atoi(argument[7]); i > 0; i--) {
        multiply(&x);
    }
    if (argument[8][0] == 'y') {
        printf("%g\n", error(&x));
    }
    return 0;
}
