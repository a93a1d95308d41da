/* SPDX-License-Identifier: MIT
 *
 * What: attention of one row over paged keys and values, AVX2 (kernels/ops.h defines the result).
 *
 *   scores   lanes are tokens: a key block is (head_dim, block_tokens), so eight tokens of one
 *            channel are one load; four octets and up to two heads run at once, eight chains
 *   weigh    lanes are channels: up to eight octets of channels are eight chains down the tokens
 *
 * Invariant: how many octets or heads run at once never enters a sum; lanes of tokens that do not
 * exist yet (stale memory of a block) are computed and never read, because exponentiate() masks
 * them and weigh() stops at the last token.
 *
 * Why not whole heads one after the other: the heads of a group share keys and values, so the loops
 * go by block first and find them in the L1 cache for the second head.
 */
#include "kernels/cpu/avx2.h"

#define OCTETS_MAX 4

/* Four octets of tokens: where channel 0 of each lies, and where its scores go. */
struct octets {
    const float *keys[OCTETS_MAX];
    float *scores[OCTETS_MAX];
};

ALWAYS_INLINE void score_octets(const struct octets *o, const struct kernels_attention *a,
                                const float *query, uint64_t scores_offset, int heads)
{
    __m256 acc[2][OCTETS_MAX];
#pragma GCC unroll 2
    for (int h = 0; h < heads; h++) {
#pragma GCC unroll 4
        for (int j = 0; j < OCTETS_MAX; j++) {
            acc[h][j] = _mm256_setzero_ps();
        }
    }
    const float *k0 = o->keys[0], *k1 = o->keys[1], *k2 = o->keys[2], *k3 = o->keys[3];
    for (uint32_t d = 0; d < a->head_dim; d++) {
        uint64_t at = (uint64_t)d * a->block_tokens;
        __m256 key[OCTETS_MAX] = {_mm256_loadu_ps(k0 + at), _mm256_loadu_ps(k1 + at),
                                  _mm256_loadu_ps(k2 + at), _mm256_loadu_ps(k3 + at)};
#pragma GCC unroll 2
        for (int h = 0; h < heads; h++) {
            __m256 q = _mm256_broadcast_ss(query + (uint32_t)h * a->head_dim + d);
#pragma GCC unroll 4
            for (int j = 0; j < OCTETS_MAX; j++) {
                acc[h][j] = _mm256_fmadd_ps(q, key[j], acc[h][j]);
            }
        }
    }
#pragma GCC unroll 2
    for (int h = 0; h < heads; h++) {
#pragma GCC unroll 4
        for (int j = 0; j < OCTETS_MAX; j++) {
            float *scores = o->scores[j] + scores_offset + (uint64_t)h * a->scores_stride;
            _mm256_storeu_ps(scores, acc[h][j]);
        }
    }
}

/* Octets first .. first + 3; those past the end repeat the last one, which is harmless. */
static void octets_find(struct octets *o, const struct kernels_attention *a, uint32_t first)
{
    uint32_t last = (a->tokens - 1) / KERNELS_OCTET;
    for (uint32_t j = 0; j < OCTETS_MAX; j++) {
        uint32_t octet = first + j < last ? first + j : last;
        uint32_t token = octet * KERNELS_OCTET;
        uint64_t block = a->blocks[token / a->block_tokens];
        o->keys[j] = a->keys + block * a->block_floats + token % a->block_tokens;
        o->scores[j] = a->scores + token;
    }
}

void kernels_scores_avx2(const struct kernels_attention *a)
{
    ASSERT(a->tokens > 0);
    ASSERT(a->block_tokens % KERNELS_OCTET == 0);
    for (uint32_t first = 0; first * KERNELS_OCTET < a->tokens; first += OCTETS_MAX) {
        struct octets o;
        octets_find(&o, a, first);
        uint32_t h = 0;
        for (; h + 2 <= a->heads; h += 2) {
            score_octets(&o, a, a->queries + h * a->head_dim, h * a->scores_stride, 2);
        }
        if (h < a->heads) {
            score_octets(&o, a, a->queries + h * a->head_dim, h * a->scores_stride, 1);
        }
    }
}

/* Adds `tokens` tokens of one block to `octets` octets of channels. */
ALWAYS_INLINE void weigh_channels(float *out, const float *weights, const float *values,
                                  uint32_t lanes, uint32_t tokens, int octets)
{
    __m256 acc[8];
#pragma GCC unroll 8
    for (int j = 0; j < octets; j++) {
        acc[j] = _mm256_loadu_ps(out + j * 8);
    }
    for (uint32_t t = 0; t < tokens; t++) {
        __m256 weight = _mm256_broadcast_ss(weights + t);
        const float *value = values + t * lanes;
#pragma GCC unroll 8
        for (int j = 0; j < octets; j++) {
            acc[j] = _mm256_fmadd_ps(weight, _mm256_loadu_ps(value + j * 8), acc[j]);
        }
    }
#pragma GCC unroll 8
    for (int j = 0; j < octets; j++) {
        _mm256_storeu_ps(out + j * 8, acc[j]);
    }
}

static void weigh_block(float *out, const float *weights, const float *values, uint32_t lanes,
                        uint32_t tokens)
{
    uint32_t c = 0;
    for (; c + 64 <= lanes; c += 64) {
        weigh_channels(out + c, weights, values + c, lanes, tokens, 8);
    }
    for (; c + 32 <= lanes; c += 32) {
        weigh_channels(out + c, weights, values + c, lanes, tokens, 4);
    }
    for (; c + 16 <= lanes; c += 16) {
        weigh_channels(out + c, weights, values + c, lanes, tokens, 2);
    }
    for (; c < lanes; c += 8) {
        weigh_channels(out + c, weights, values + c, lanes, tokens, 1);
    }
}

void kernels_weigh_avx2(const struct kernels_attention *a)
{
    ASSERT(a->tokens > 0);
    uint32_t lanes = kernels_head_lanes(a->head_dim);
    for (uint32_t i = 0; i < a->heads * lanes; i++) {
        a->out[i] = 0.0f;
    }
    for (uint32_t first = 0; first < a->tokens; first += a->block_tokens) {
        uint32_t left = a->tokens - first;
        uint32_t tokens = left < a->block_tokens ? left : a->block_tokens;
        uint64_t block = a->blocks[first / a->block_tokens];
        const float *values = a->values + block * a->block_floats;
        for (uint32_t h = 0; h < a->heads; h++) {
            weigh_block(a->out + h * lanes, a->scores + h * a->scores_stride + first, values, lanes,
                        tokens);
        }
    }
}
