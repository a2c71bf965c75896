/* As much of a CBLAS as emitted C calls, so that it can be tested where there is none. */
#ifndef CBLAS_H
#define CBLAS_H

enum { CblasRowMajor = 101, CblasNoTrans = 111, CblasTrans = 112 };

#define GEMM(name, type)                                                                                           \
    static inline void name(int order, int transpose_a, int transpose_b, int m, int n, int k, type alpha,         \
                            const type *a, int a_row, const type *b, int b_row, type beta, type *c, int c_row)    \
    {                                                                                                              \
        (void)order;                                                                                               \
        for (int i = 0; i < m; i++) {                                                                              \
            for (int j = 0; j < n; j++) {                                                                          \
                type sum = 0;                                                                                      \
                for (int p = 0; p < k; p++) {                                                                      \
                    sum += a[transpose_a == CblasTrans ? p * a_row + i : i * a_row + p] *                          \
                           b[transpose_b == CblasTrans ? j * b_row + p : p * b_row + j];                           \
                }                                                                                                  \
                /* As in a CBLAS, what C held is not looked at unless it counts. */                                \
                c[i * c_row + j] = alpha * sum + (beta != 0 ? beta * c[i * c_row + j] : 0);                        \
            }                                                                                                      \
        }                                                                                                          \
    }

GEMM(cblas_sgemm, float)
GEMM(cblas_dgemm, double)

#endif
