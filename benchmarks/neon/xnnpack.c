/* Products of bytes, and convolutions, by microkernels of XNNPACK; what they read is laid out here. */
#include "product.h"

#include <float.h>
#include <string.h>

#include "src/xnnpack/gemm.h"
#include "src/xnnpack/igemm.h"

enum { ROWS = 4, COLUMNS = 16, PLACES = 6, FILTERS = 8 }; /* of a tile of bytes, and of a convolution */

static const struct xnn_f32_minmax_params LIMITS = {.scalar = {.min = -FLT_MAX, .max = FLT_MAX}};
static const struct xnn_qd8_quantization_params SYMMETRIC[ROWS] = {{0, 1}, {0, 1}, {0, 1}, {0, 1}};

static float *c, *image, *zeros;
static char *weights;
static const float **places;

static size_t least(size_t x, size_t y)
{
    return x < y ? x : y;
}

/* Panels of columns: sums, which are times the zero point, then rows of B, then scales and biases. */
static void pack_bytes(const product *x)
{
    const size_t n = (size_t)x->n, k = (size_t)x->k, panel = COLUMNS * (k + 12);
    c = c ? c : aligned((size_t)x->m * n * sizeof *c);
    weights = weights ? weights : aligned((n + COLUMNS - 1) / COLUMNS * panel);
    memset(weights, 0, (n + COLUMNS - 1) / COLUMNS * panel);
    for (size_t j = 0; j < n; j++) {
        char *to = weights + j / COLUMNS * panel;
        const float one = 1;
        for (size_t p = 0; p < k; p++) {
            to[4 * COLUMNS + p * COLUMNS + j % COLUMNS] =
                x->b_bytes[(ptrdiff_t)p * x->b_row + (ptrdiff_t)j * x->b_column];
        }
        memcpy(to + 4 * COLUMNS + k * COLUMNS + j % COLUMNS * sizeof one, &one, sizeof one);
    }
}

/* Panels of filters, with their biases, channels last; the same of the image; and places of windows for each tile. */
static void pack_convolution(const product *x)
{
    const size_t m = (size_t)x->m, side = (size_t)x->n, k = (size_t)x->k, line = side + 2, count = side * side;
    const size_t panel = FILTERS * (9 * k + 1);
    c = c ? c : aligned(m * count * sizeof *c);
    image = image ? image : aligned(line * line * k * sizeof *image);
    zeros = zeros ? zeros : aligned(k * sizeof *zeros);
    weights = weights ? weights : aligned(m / FILTERS * panel * sizeof *c);
    places = places ? places : aligned((count + PLACES) * 9 * sizeof *places);
    for (size_t p = 0; p < line * line * k; p++) {
        image[p] = x->b[p % k * line * line + p / k];
    }
    for (size_t i = 0; i < m; i++) {
        float *to = (float *)weights + i / FILTERS * panel + i % FILTERS;
        *to = 0;
        for (size_t p = 0; p < 9 * k; p++) {
            to[FILTERS * (p + 1)] = x->a[i * 9 * k + p % k * 9 + p / k];
        }
    }
    for (size_t j = 0; j < count + PLACES; j++) {
        const size_t place = least(j, count - 1), y = place / side, z = place % side;
        for (size_t q = 0; q < 9; q++) {
            places[(j / PLACES * 9 + q) * PLACES + j % PLACES] = image + ((y + q / 3) * line + z + q % 3) * k;
        }
    }
}

void pack(const product *x)
{
    (x->kind == BYTES ? pack_bytes : pack_convolution)(x);
}

void multiply(const product *x)
{
    const size_t m = (size_t)x->m, n = (size_t)x->n, k = (size_t)x->k;
    for (size_t i = 0; i < m && x->kind == BYTES; i += ROWS) {
        xnn_qd8_f32_qc8w_gemm_minmax_ukernel_4x16__neon_mlal_lane(
            least(m - i, ROWS), n, k, x->a_bytes + i * k, k, weights, c + i * n, n * sizeof *c,
            COLUMNS * sizeof *c, &LIMITS, SYMMETRIC);
    }
    for (size_t i = 0; i < n * n && x->kind == CONVOLUTION; i += PLACES) {
        xnn_f32_igemm_minmax_ukernel_6x8__aarch64_neonfma_lane_ld128(
            least(n * n - i, PLACES), m, k * sizeof *c, 9 * PLACES * sizeof *places, places + i * 9,
            (const float *)weights, c + i * m, m * sizeof *c, FILTERS * sizeof *c, 0, zeros, &LIMITS);
    }
}

double result(const product *x, ptrdiff_t i, ptrdiff_t j)
{
    return x->kind == BYTES ? c[i * x->n + j] : c[j * x->m + i];
}
