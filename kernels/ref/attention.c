/* SPDX-License-Identifier: MIT
 *
 * What: attention over paged keys and values in plain C (kernels/ops.h defines it), row by row,
 * each as if it were alone.
 */
#include <math.h>

#include "kernels/ref/plain.h"

/* Number `index` of the KV block in which the row has a token; `base` is the keys or the values. */
static float number_at(const struct kernels_attention *a, const struct kernels_attending *row,
                       const void *base, uint32_t token, uint64_t index)
{
    const uint8_t *block =
        (const uint8_t *)base + row->blocks[token / a->block_tokens] * a->block_bytes;
    return a->halves ? kernels_half_to_float(((const uint16_t *)(const void *)block)[index])
                     : ((const float *)(const void *)block)[index];
}

static void row_scores(const struct kernels_attention *a, const struct kernels_attending *row)
{
    for (uint32_t h = 0; h < a->heads; h++) {
        const float *query = row->queries + h * a->head_dim;
        for (uint32_t t = 0; t < row->tokens; t++) {
            uint32_t offset = t % a->block_tokens;
            float score = 0.0f;
            for (uint32_t d = 0; d < a->head_dim; d++) {
                uint64_t index = (uint64_t)d * a->block_tokens + offset;
                score = fmaf(query[d], number_at(a, row, a->keys, t, index), score);
            }
            row->scores[h * a->scores_stride + t] = score;
        }
    }
}

void kernels_scores_plain(const struct kernels_attention *attention)
{
    ASSERT(attention->block_tokens % KERNELS_OCTET == 0);
    for (uint32_t i = 0; i < attention->rows_count; i++) {
        row_scores(attention, &attention->rows[i]);
    }
}

static void row_weigh(const struct kernels_attention *a, const struct kernels_attending *row)
{
    uint32_t lanes = kernels_head_lanes(a->head_dim);
    for (uint32_t h = 0; h < a->heads; h++) {
        float *out = row->out + h * lanes;
        for (uint32_t c = 0; c < lanes; c++) {
            out[c] = 0.0f;
        }
        for (uint32_t t = 0; t < row->tokens; t++) {
            uint64_t first = (uint64_t)(t % a->block_tokens) * lanes;
            float weight = row->scores[h * a->scores_stride + t];
            for (uint32_t c = 0; c < lanes; c++) {
                out[c] = fmaf(weight, number_at(a, row, a->values, t, first + c), out[c]);
            }
        }
    }
}

void kernels_weigh_plain(const struct kernels_attention *attention)
{
    for (uint32_t i = 0; i < attention->rows_count; i++) {
        row_weigh(attention, &attention->rows[i]);
    }
}
