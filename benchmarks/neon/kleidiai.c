/* Products by microkernels of Arm's KleidiAI. Those of bytes take floats of A, which they quantise in `pack`. */
#include "product.h"

#include <float.h>

#include "matmul_clamp_f32_f32_f32p/kai_matmul_clamp_f32_f32_f32p16x1b_6x16_neon_mla.h"
#include "matmul_clamp_f32_qai8dxp_qsi8cxp/kai_matmul_clamp_f32_qai8dxp1x4_qsi8cxp4x4_1x4_neon_dotprod.h"
#include "matmul_clamp_f32_qai8dxp_qsi8cxp/kai_matmul_clamp_f32_qai8dxp4x4_qsi8cxp4x4_16x4_neon_dotprod.h"
#include "pack/kai_lhs_quant_pack_qai8dxp_f32.h"
#include "pack/kai_rhs_pack_kxn_qsi8cxp_qsi8cx_neon.h"
#include "pack/kai_rhs_pack_kxn_x32p16x1b_x32_x32_neon.h"
#include "pack/kai_rhs_pack_nxk_qsi8cxp_qsi8cx_neon.h"
#include "pack/kai_rhs_pack_nxk_x32p16x1bx32_x32_x32_neon.h"

static float *c, *zeros, *ones;
static void *a_packed, *b_packed;

static void make_memory(const product *x)
{
    const size_t m = (size_t)x->m, n = (size_t)x->n, k = (size_t)x->k;
    if (!c) {
        c = aligned(m * n * sizeof *c);
        zeros = aligned(n * sizeof *zeros);
        ones = aligned(n * sizeof *ones);
        for (size_t j = 0; j < n; j++) {
            zeros[j] = 0;
            ones[j] = 1;
        }
        a_packed = aligned((m + 16) * (k + 64) + 8 * m);
        b_packed = aligned((n + 16) * (k + 64) * sizeof *c);
    }
}

static void pack_bytes(const product *x)
{
    const size_t m = (size_t)x->m, n = (size_t)x->n, k = (size_t)x->k;
    const struct kai_rhs_pack_qsi8cx_params symmetric = {.lhs_zero_point = 1, .scale_multiplier = 1};
    if (x->b_column == 1) {
        kai_run_rhs_pack_kxn_qsi8cxp_qsi8cx_neon(
            1, n, k, 4, 4, 1, x->b_bytes, zeros, ones, b_packed, 0, &symmetric);
    } else {
        kai_run_rhs_pack_nxk_qsi8cxp_qsi8cx_neon(
            1, n, k, 4, 4, 1, x->b_bytes, zeros, ones, b_packed, 0, &symmetric);
    }
    kai_run_lhs_quant_pack_qai8dxp_f32(m, k, m == 1 ? 1 : 4, 4, 1, 0, x->a, k * sizeof *x->a, a_packed);
}

void pack(const product *x)
{
    const size_t n = (size_t)x->n, k = (size_t)x->k;
    make_memory(x);
    if (x->kind == BYTES) {
        pack_bytes(x);
    } else if (x->b_column == 1) {
        kai_run_rhs_pack_kxn_x32p16x1b_x32_x32_neon(
            1, n, k, 16, 1, 1, n * sizeof *x->b, x->b, zeros, NULL, b_packed, 0, NULL);
    } else {
        kai_run_rhs_pack_nxk_x32p16x1bx32_x32_x32_neon(
            1, n, k, 16, 1, 1, k * sizeof *x->b, x->b, zeros, NULL, b_packed, 0, NULL);
    }
}

void multiply(const product *x)
{
    const size_t m = (size_t)x->m, n = (size_t)x->n, k = (size_t)x->k, row = n * sizeof *c;
    if (x->kind == FLOATS) {
        kai_run_matmul_clamp_f32_f32_f32p16x1b_6x16_neon_mla(
            m, n, k, x->a, k * sizeof *x->a, b_packed, c, row, sizeof *c, -FLT_MAX, FLT_MAX);
    } else if (m == 1) {
        kai_run_matmul_clamp_f32_qai8dxp1x4_qsi8cxp4x4_1x4_neon_dotprod(
            m, n, k, a_packed, b_packed, c, row, sizeof *c, -FLT_MAX, FLT_MAX);
    } else {
        kai_run_matmul_clamp_f32_qai8dxp4x4_qsi8cxp4x4_16x4_neon_dotprod(
            m, n, k, a_packed, b_packed, c, row, sizeof *c, -FLT_MAX, FLT_MAX);
    }
}

double result(const product *x, ptrdiff_t i, ptrdiff_t j)
{
    return c[i * x->n + j];
}
