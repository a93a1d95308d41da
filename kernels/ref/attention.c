/* SPDX-License-Identifier: MIT
 *
 * What: attention over paged keys and values in plain C (kernels/ops.h defines it), row by row,
 * each as if it were alone.
 */
#include <math.h>

#include "kernels/ref/plain.h"

/* The keys, and the values, of the KV block in which the row has a token. */
static const void *keys_of(const struct kernels_attention *a, const struct kernels_attending *row,
                           uint32_t token)
{
    return (const uint8_t *)a->keys + row->blocks[token / a->block_tokens] * a->keys_bytes;
}
static const void *values_of(const struct kernels_attention *a, const struct kernels_attending *row,
                             uint32_t token)
{
    return (const uint8_t *)a->values + row->blocks[token / a->block_tokens] * a->values_bytes;
}

static float number_at(const struct kernels_attention *a, const void *block, uint64_t index)
{
    switch (a->type) {
    case KERNELS_KV_F16: return kernels_half_to_float(((const uint16_t *)block)[index]);
    case KERNELS_KV_Q8: return (float)((const int8_t *)block)[index];
    default: return ((const float *)block)[index];
    }
}

/* What a weight of the token is multiplied by. */
static float scale_at(const struct kernels_attention *a, const void *block, uint32_t token)
{
    const int8_t *numbers = block;
    uint64_t end = kernels_kv_numbers(a->head_dim, a->block_tokens);
    return a->type == KERNELS_KV_Q8
               ? ((const float *)(const void *)(numbers + end))[token % a->block_tokens]
               : 1.0f;
}

static void row_scores(const struct kernels_attention *a, const struct kernels_attending *row)
{
    for (uint32_t h = 0; h < a->heads; h++) {
        const float *query = row->queries + h * a->head_dim;
        for (uint32_t t = 0; t < row->tokens; t++) {
            const void *block = keys_of(a, row, t);
            float score = 0.0f;
            for (uint32_t d = 0; d < a->head_dim; d++) {
                uint64_t index = (uint64_t)d * a->block_tokens + t % a->block_tokens;
                score = fmaf(query[d], number_at(a, block, index), score);
            }
            row->scores[h * a->scores_stride + t] = score;
        }
    }
}

static int32_t key_level(const struct kernels_attention *a, const uint8_t *block, uint32_t token,
                         uint32_t channel)
{
    const uint8_t *signs = block + kernels_kv_numbers(a->head_dim, a->block_tokens);
    uint64_t index = ((uint64_t)channel / 2 * a->block_tokens + token) * 2 + channel % 2;
    return block[index] - (signs[index / 8] >> index % 8 & 1) * 256;
}

static float level_score(const struct kernels_attention *a, const struct kernels_attending *row,
                         uint32_t head, uint32_t t)
{
    const uint8_t *block = keys_of(a, row, t);
    const int16_t *query = row->query_levels + head * kernels_head_lanes(a->head_dim);
    const struct kernels_query_frame *frame = &row->query_frames[head];
    const void *steps_at = block + kernels_key_steps_at(a->head_dim, a->block_tokens);
    const uint16_t *steps = steps_at;
    uint32_t token = t % a->block_tokens;
    float step = kernels_half_to_float(steps[token]);
    float middle = kernels_half_to_float(steps[a->block_tokens + token]);
    int32_t sum = 0;
    STATIC_ASSERT(INT32_MAX / GGUF_HEAD_DIM_MAX / KERNELS_QUERY_LEVEL_MAX >= KERNELS_KEY_LEVEL_MAX,
                  "sums of levels");
    for (uint32_t d = 0; d < a->head_dim; d++) {
        sum += query[d] * key_level(a, block, token, d);
    }
    return fmaf((float)sum, step * frame->scale, middle * frame->sum);
}

static void row_level_scores(const struct kernels_attention *a, const struct kernels_attending *row)
{
    for (uint32_t h = 0; h < a->heads; h++) {
        for (uint32_t t = 0; t < row->tokens; t++) {
            row->scores[h * a->scores_stride + t] = level_score(a, row, h, t);
        }
    }
}

void kernels_scores_plain(const struct kernels_attention *attention)
{
    ASSERT(attention->block_tokens % KERNELS_OCTET == 0);
    for (uint32_t i = 0; i < attention->rows_count; i++) {
        if (attention->type == KERNELS_KV_Q8) {
            row_level_scores(attention, &attention->rows[i]);
        } else {
            row_scores(attention, &attention->rows[i]);
        }
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
            const void *block = values_of(a, row, t);
            uint64_t first = (uint64_t)(t % a->block_tokens) * lanes;
            float weight = row->scores[h * a->scores_stride + t] * scale_at(a, block, t);
            for (uint32_t c = 0; c < lanes; c++) {
                out[c] = fmaf(weight, number_at(a, block, first + c), out[c]);
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
