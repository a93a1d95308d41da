/* SPDX-License-Identifier: MIT
 *
 * What: attention of one row over paged keys and values, in plain C (kernels/ops.h defines it).
 */
#include <math.h>

#include "kernels/ref/plain.h"

static uint64_t block_offset(const struct kernels_attention *a, uint32_t token)
{
    return a->blocks[token / a->block_tokens] * a->block_floats;
}

void kernels_scores_plain(const struct kernels_attention *a)
{
    ASSERT(a->tokens > 0);
    ASSERT(a->block_tokens % KERNELS_OCTET == 0);
    for (uint32_t h = 0; h < a->heads; h++) {
        const float *query = a->queries + h * a->head_dim;
        for (uint32_t t = 0; t < a->tokens; t++) {
            const float *key = a->keys + block_offset(a, t) + t % a->block_tokens;
            float score = 0.0f;
            for (uint32_t d = 0; d < a->head_dim; d++) {
                score = fmaf(query[d], key[d * a->block_tokens], score);
            }
            a->scores[h * a->scores_stride + t] = score;
        }
    }
}

void kernels_weigh_plain(const struct kernels_attention *a)
{
    ASSERT(a->tokens > 0);
    uint32_t lanes = kernels_head_lanes(a->head_dim);
    for (uint32_t h = 0; h < a->heads; h++) {
        float *out = a->out + h * lanes;
        for (uint32_t c = 0; c < lanes; c++) {
            out[c] = 0.0f;
        }
        for (uint32_t t = 0; t < a->tokens; t++) {
            const float *value = a->values + block_offset(a, t) + t % a->block_tokens * lanes;
            float weight = a->scores[h * a->scores_stride + t];
            for (uint32_t c = 0; c < lanes; c++) {
                out[c] = fmaf(weight, value[c], out[c]);
            }
        }
    }
}
