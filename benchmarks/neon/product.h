/* A product that programs of this folder compute: C[m,n] = A[m,k] B[k,n], or a convolution of m filters of 3 x 3 elements
   with k channels of n x n elements and their border. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { FLOATS = 'f', BYTES = 'i', CONVOLUTION = 'c' } kind;

typedef struct {
    kind kind;
    ptrdiff_t m, n, k, a_row, a_column, b_row, b_column;
    const float *a, *b;             /* all elements are small whole numbers, which floats have exactly */
    const int8_t *a_bytes, *b_bytes; /* the same, of BYTES */
} product;

/* Makes what a library prepares of operands before it multiplies. */
void pack(const product *x);

void multiply(const product *x);

/* Element j of row i of the result. */
double result(const product *x, ptrdiff_t i, ptrdiff_t j);

/* Memory that is aligned to a cache line, for so many bytes. */
void *aligned(size_t bytes);
