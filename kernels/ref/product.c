/* SPDX-License-Identifier: MIT
 *
 * What: the product in plain C: the definition in kernels/ops.h and nothing more. It is the twin
 * that the fast one is compared with, and what serves where a CPU has no AVX2.
 *
 * Why lanes and not outputs in the inner loop: the panel is walked in memory order, and each lane
 * is still a chain of its own.
 */
#include <math.h>

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

static void panel_product_floats(const struct kernels_product *p, uint32_t panel)
{
    const uint8_t *weights = p->matrix->panels + panel * p->matrix->panel_bytes;
    float *y = p->y + (uint64_t)panel * KERNELS_PANEL_LANES;
    for (uint32_t r = 0; r < p->rows; r++) {
        for (uint32_t lane = 0; lane < KERNELS_PANEL_LANES; lane++) {
            y[r * p->y_stride + lane] = 0.0f;
        }
    }
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

/* ---- integers ---- */

/* The columns that share a scale: sixteen in Q6_K, else a block of x. */
struct part {
    float scale, low;
    int32_t levels[KERNELS_BLOCK_COLUMNS];  /* without their offset */
    uint32_t columns;
};

static int32_t half_level(const uint8_t *levels, uint32_t column, uint32_t lane)
{
    uint8_t byte = levels[column % 16 / 4 * KERNELS_GROUP_BYTES + lane * 4 + column % 4];
    return column < 16 ? byte & 15 : byte >> 4;
}

static void part_q8_0(struct part *part, const uint8_t *panel, uint32_t index, uint32_t lane)
{
    const uint8_t *block = panel + (uint64_t)index * KERNELS_Q8_0_BYTES;
    const uint8_t *levels = block + KERNELS_SCALES_BYTES;
    part->scale = kernels_half_at(block, lane);
    part->columns = 32;
    for (uint32_t k = 0; k < 32; k++) {
        part->levels[k] = levels[k / 4 * KERNELS_GROUP_BYTES + lane * 4 + k % 4] - 128;
    }
}

static void part_q4_0(struct part *part, const uint8_t *panel, uint32_t index, uint32_t lane)
{
    const uint8_t *block = panel + (uint64_t)index * KERNELS_Q4_0_BYTES;
    part->scale = kernels_half_at(block, lane);
    part->columns = 32;
    for (uint32_t k = 0; k < 32; k++) {
        part->levels[k] = half_level(block + KERNELS_SCALES_BYTES, k, lane) - 8;
    }
}

static void part_q4_k(struct part *part, const uint8_t *panel, uint32_t index, uint32_t lane)
{
    const uint8_t *block = panel + (uint64_t)(index / 8) * KERNELS_Q4_K_BYTES;
    const uint8_t *at = block + KERNELS_Q4_K_HEAD + index % 8 * KERNELS_Q4_K_PART;
    part->scale = kernels_half_at(block, lane) * at[lane];
    part->low = kernels_half_at(block + KERNELS_SCALES_BYTES, lane) *
                at[KERNELS_PANEL_LANES + lane];
    part->columns = 32;
    for (uint32_t k = 0; k < 32; k++) {
        part->levels[k] = half_level(at + KERNELS_SCALES_BYTES, k, lane);
    }
}

/* Part 2i is the first half of 32 columns, whose bytes hold the low bits of both. */
static void part_q6_k(struct part *part, const uint8_t *panel, uint32_t index, uint32_t lane)
{
    const uint8_t *block = panel + (uint64_t)(index / 16) * KERNELS_Q6_K_BYTES;
    const uint8_t *at = block + KERNELS_Q6_K_HEAD + index % 16 / 2 * KERNELS_Q6_K_PART;
    const uint8_t *low = at + KERNELS_SCALES_BYTES;
    const uint8_t *high = low + (4 + index % 2) * KERNELS_GROUP_BYTES;
    part->scale = kernels_half_at(block, lane) *
                  (int8_t)at[index % 2 * KERNELS_PANEL_LANES + lane];
    part->columns = 16;
    for (uint32_t k = 0; k < 16; k++) {
        int32_t bits = high[lane * 4 + k % 4] >> (k / 4 * 2) & 3;
        part->levels[k] = (half_level(low, index % 2 * 16 + k, lane) | bits << 4) - 32;
    }
}

static void part_load(struct part *part, const struct kernels_matrix *matrix, const uint8_t *panel,
                      uint32_t index, uint32_t lane)
{
    part->low = 0;
    switch (matrix->type) {
    case GGUF_Q8_0: part_q8_0(part, panel, index, lane); break;
    case GGUF_Q4_0: part_q4_0(part, panel, index, lane); break;
    case GGUF_Q4_K: part_q4_k(part, panel, index, lane); break;
    case GGUF_Q6_K: part_q6_k(part, panel, index, lane); break;
    case GGUF_F32: case GGUF_F16: case GGUF_BF16: ASSERT(!"weights that are integers");
    }
}

static float part_add(float sum, const struct part *part, const struct kernels_product *p,
                      uint32_t row, uint32_t column, bool has_low)
{
    const int8_t *x = p->levels.levels + row * p->levels.stride + column;
    uint64_t at = (row * p->levels.stride + column) / KERNELS_BLOCK_COLUMNS;
    float scale = p->levels.blocks[at].scale;
    int32_t product = 0, total = 0;
    for (uint32_t k = 0; k < part->columns; k++) {
        product += x[k] * part->levels[k];
        total += x[k];
    }
    sum = fmaf((float)product, part->scale * scale, sum);
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
        struct part part = {0};
        for (uint32_t column = 0, i = 0; column < m->columns; column += part.columns, i++) {
            part_load(&part, m, weights, i, lane);
            for (uint32_t r = 0; r < p->rows; r++) {
                y[r * p->y_stride] = part_add(y[r * p->y_stride], &part, p, r, column,
                                              m->type == GGUF_Q4_K);
            }
        }
    }
}

void kernels_product_plain(const struct kernels_product *product)
{
    bool is_int8 = kernels_format(product->matrix->type)->is_int8;
    ASSERT(product->panel_end <= product->matrix->panels_count);
    ASSERT(is_int8 || product->x_stride >= product->matrix->columns || product->rows <= 1);
    for (uint32_t panel = product->panel_first; panel < product->panel_end; panel++) {
        if (is_int8) {
            panel_product_integers(product, panel);
        } else {
            panel_product_floats(product, panel);
        }
    }
}

static void block_quantize(int8_t *levels, struct kernels_block *block, const float *x)
{
    float max = 0;
    bool finite = true;
    for (uint32_t k = 0; k < KERNELS_BLOCK_COLUMNS; k++) {
        finite = finite && isfinite(x[k]);
        max = fabsf(x[k]) > max ? fabsf(x[k]) : max;
    }
    bool is_zero = !finite || max < KERNELS_LEVEL_TINY;
    float inverse = is_zero ? 0.0f : KERNELS_LEVEL_MAX / max;
    *block = (struct kernels_block){.scale = !finite ? NAN : is_zero ? 0.0f
                                                            : max / KERNELS_LEVEL_MAX};
    for (uint32_t k = 0; k < KERNELS_BLOCK_COLUMNS; k++) {
        levels[k] = is_zero ? 0 : (int8_t)lrintf(x[k] * inverse);
        block->sums[k / (KERNELS_BLOCK_COLUMNS / 2)] += levels[k];
    }
}

void kernels_quantize_plain(int8_t *levels, struct kernels_block *blocks, const float *x,
                            uint32_t columns)
{
    ASSERT(columns % KERNELS_BLOCK_COLUMNS == 0);
    for (uint32_t k = 0; k < columns; k += KERNELS_BLOCK_COLUMNS) {
        block_quantize(levels + k, &blocks[k / KERNELS_BLOCK_COLUMNS], x + k);
    }
}
