/* SPDX-License-Identifier: MIT
 *
 * What: the product in plain C: the definition in kernels/ops.h and nothing more. The fast products
 * are compared with it, and it serves where a CPU has no AVX2.
 *
 * Why lanes are in the inner loop: the panel is walked in memory order, and each lane is still a
 * chain of its own.
 */
#include <math.h>

#include "kernels/half.h"
#include "kernels/ref/plain.h"

/* Column k of a panel of floats as sixteen floats. */
static void column_load(const struct kernels_matrix *matrix, const uint8_t *panel, uint32_t k,
                        float *column)
{
    const struct kernels_format *format = kernels_format(matrix->type);
    for (uint32_t lane = 0; lane < KERNELS_PANEL_LANES; lane++) {
        format->unpack(panel + (uint64_t)k * format->panel_bytes, lane, &column[lane], 1);
    }
}

static void panel_clear(const struct kernels_product *p, uint32_t panel)
{
    float *y = p->y + (uint64_t)panel * KERNELS_PANEL_LANES;
    for (uint32_t r = 0; r < p->rows; r++) {
        for (uint32_t lane = 0; lane < KERNELS_PANEL_LANES; lane++) {
            y[r * p->y_stride + lane] = 0.0f;
        }
    }
}

static void panel_product_floats(const struct kernels_product *p, uint32_t panel)
{
    const uint8_t *weights = p->matrix->panels + panel * p->matrix->panel_bytes;
    float *y = p->y + (uint64_t)panel * KERNELS_PANEL_LANES;
    panel_clear(p, panel);
    for (uint32_t k = 0; k < p->matrix->columns; k++) {
        float column[KERNELS_PANEL_LANES];
        column_load(p->matrix, weights, k, column);
        for (uint32_t r = 0; r < p->rows; r++) {
            float x = p->x[r * p->x_stride + k];
            for (uint32_t lane = 0; lane < KERNELS_PANEL_LANES; lane++) {
                float *sum = &y[r * p->y_stride + lane];
                *sum = fmaf(x, column[lane], *sum);
            }
        }
    }
}

/* ---- bfloats ---- */

/* fmaf() that gives zero for a sum below 2^-126. Both factors have eight bits, so a double holds
 * their product exactly; if the sum is tiny, it holds that exactly too. */
static float flushed_fma(float a, float b, float sum)
{
    double exact = (double)a * b + sum;
    bool tiny = fabs(exact) < 0x1p-126 - 0x1p-151;      /* not rounded up to 2^-126 by 24 bits */
    float rounded = fmaf(a, b, sum);
    return tiny ? copysignf(0.0f, rounded) : rounded;
}

static void panel_product_bfloats(const struct kernels_product *p, uint32_t panel)
{
    const uint16_t *weights =
        (const uint16_t *)(const void *)(p->matrix->panels + panel * p->matrix->panel_bytes);
    float *y = p->y + (uint64_t)panel * KERNELS_PANEL_LANES;
    panel_clear(p, panel);
    for (uint32_t k = 0; k < p->matrix->columns; k += 2, weights += 2 * KERNELS_PANEL_LANES) {
        for (uint32_t r = 0; r < p->rows; r++) {
            const float *x = p->rounded.bfloats + r * p->rounded.stride + k;
            for (uint32_t lane = 0; lane < KERNELS_PANEL_LANES; lane++) {
                float *sum = &y[r * p->y_stride + lane];
                *sum = flushed_fma(x[1], kernels_float_of_bfloat(weights[2 * lane + 1]), *sum);
                *sum = flushed_fma(x[0], kernels_float_of_bfloat(weights[2 * lane]), *sum);
            }
        }
    }
}

/* ---- integers ---- */

static float part_add(float sum, const struct kernels_part *part, const struct kernels_product *p,
                      uint32_t row, uint32_t column)
{
    const int8_t *x = p->rounded.levels + row * p->rounded.stride + column;
    uint64_t at = (row * p->rounded.stride + column) / KERNELS_QUANT_COLUMNS;
    float scale = p->rounded.blocks[at].scale;
    int32_t product = 0, total = 0;
    for (uint32_t k = 0; k < part->columns; k++) {
        product += x[k] * part->levels[k];
        total += x[k];
    }
    sum = fmaf((float)product, part->scale * scale, sum);
    bool has_low = p->matrix->type == GGUF_Q4_K;
    return has_low ? fmaf((float)total, part->low * -scale, sum) : sum;
}

static void panel_product_integers(const struct kernels_product *p, uint32_t panel)
{
    const struct kernels_matrix *m = p->matrix;
    const uint8_t *weights = m->panels + panel * m->panel_bytes;
    for (uint32_t lane = 0; lane < KERNELS_PANEL_LANES; lane++) {
        float *y = p->y + (uint64_t)panel * KERNELS_PANEL_LANES + lane;
        for (uint32_t r = 0; r < p->rows; r++) {
            y[r * p->y_stride] = 0.0f;
        }
        struct kernels_part part = {0};
        for (uint32_t column = 0, i = 0; column < m->columns; column += part.columns, i++) {
            kernels_format(m->type)->part(weights, lane, i, &part);
            for (uint32_t r = 0; r < p->rows; r++) {
                y[r * p->y_stride] = part_add(y[r * p->y_stride], &part, p, r, column);
            }
        }
    }
}

void kernels_product_plain(const struct kernels_product *product)
{
    enum kernels_reads reads = kernels_reads(product->matrix->type);
    ASSERT(product->panel_end <= product->matrix->panels_count);
    ASSERT(reads != KERNELS_READS_FLOATS || product->x_stride >= product->matrix->columns ||
           product->rows <= 1);
    for (uint32_t panel = product->panel_first; panel < product->panel_end; panel++) {
        switch (reads) {
        case KERNELS_READS_FLOATS: panel_product_floats(product, panel); break;
        case KERNELS_READS_BFLOATS: panel_product_bfloats(product, panel); break;
        case KERNELS_READS_LEVELS: panel_product_integers(product, panel); break;
        }
    }
}

static void block_quantize(int8_t *levels, struct kernels_quant_block *block, const float *x)
{
    float max = 0;
    bool finite = true;
    for (uint32_t k = 0; k < KERNELS_QUANT_COLUMNS; k++) {
        finite = finite && isfinite(x[k]);
        max = fabsf(x[k]) > max ? fabsf(x[k]) : max;
    }
    bool is_zero = !finite || max < KERNELS_LEVEL_TINY;
    float inverse = is_zero ? 0.0f : KERNELS_LEVEL_MAX / max;
    float scale = is_zero ? 0.0f : kernels_half_rounded(max / KERNELS_LEVEL_MAX);
    *block = (struct kernels_quant_block){.scale = finite ? scale : NAN};
    for (uint32_t k = 0; k < KERNELS_QUANT_COLUMNS; k++) {
        levels[k] = is_zero ? 0 : (int8_t)lrintf(x[k] * inverse);
        block->sums[k / (KERNELS_QUANT_COLUMNS / 2)] += levels[k];
    }
}

void kernels_quantize_plain(int8_t *levels, struct kernels_quant_block *blocks, const float *x,
                            uint32_t columns)
{
    ASSERT(columns % KERNELS_QUANT_COLUMNS == 0);
    for (uint32_t k = 0; k < columns; k += KERNELS_QUANT_COLUMNS) {
        block_quantize(levels + k, &blocks[k / KERNELS_QUANT_COLUMNS], x + k);
    }
}

void kernels_shorten_plain(float *bfloats, const float *x, uint32_t columns)
{
    for (uint32_t k = 0; k < columns; k++) {
        bfloats[k] = kernels_float_of_bfloat(kernels_bfloat_of(x[k]));
    }
    if (columns % 2 != 0) {
        bfloats[columns] = 0;
    }
}
