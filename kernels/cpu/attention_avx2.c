/* SPDX-License-Identifier: MIT
 *
 * What: the tiles of attention, AVX2 (kernels/ops.h defines the result, attention_walk.h what a
 * tile is). Lanes are eight tokens of one channel for scores, eight channels of one token to weigh.
 *
 * A tile is 6 queries x 2 octets, so that a load serves six sums; with few queries it is wider
 * instead, so that there are eight sums or more to hide the latency of the fused operation.
 */
#include "kernels/cpu/avx2.h"
#include "kernels/cpu/attention_walk.h"

/* How many queries a tile has, how many octets it takes at a time, and of what: constants of each
 * copy of the code. */
struct form {
    int queries, octets;
    bool halves;
};

/* The octet of numbers that lies `index` numbers behind `at`. */
ALWAYS_INLINE __m256 octet_at(const uint8_t *at, uint64_t index, bool halves)
{
    if (halves) {
        const uint16_t *from = (const uint16_t *)(const void *)at + index;
        return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)from));
    }
    return _mm256_loadu_ps((const float *)(const void *)at + index);
}

/* ---- scores ---- */

ALWAYS_INLINE void score_octets(const struct tile *t, const struct run *run, uint32_t first,
                                struct form form)
{
    __m256 sums[QUERIES_MAX][OCTETS_MAX];
    const uint8_t *keys[OCTETS_MAX];
    const float *q[QUERIES_MAX];
    uint64_t step = run->a->block_tokens;
    int queries = form.queries, octets = form.octets;
#pragma GCC unroll 8
    for (int j = 0; j < octets; j++) {
        keys[j] = run->keys[first + (uint32_t)j];
#pragma GCC unroll 6
        for (int i = 0; i < queries; i++) {
            q[i] = t->queries[i];
            sums[i][j] = _mm256_setzero_ps();
        }
    }
    for (uint64_t d = 0; d < run->a->head_dim; d++) {
        __m256 key[OCTETS_MAX];
#pragma GCC unroll 8
        for (int j = 0; j < octets; j++) {
            key[j] = octet_at(keys[j], d * step, form.halves);
        }
#pragma GCC unroll 6
        for (int i = 0; i < queries; i++) {
            __m256 x = _mm256_broadcast_ss(q[i] + d);
#pragma GCC unroll 8
            for (int j = 0; j < octets; j++) {
                sums[i][j] = _mm256_fmadd_ps(x, key[j], sums[i][j]);
            }
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < queries; i++) {
#pragma GCC unroll 8
        for (int j = 0; j < octets; j++) {
            _mm256_storeu_ps(t->scores[i] + (first + (uint32_t)j) * KERNELS_OCTET, sums[i][j]);
        }
    }
}

/* A divisor of OCTETS_MAX octets at a time: what is past the last one has room in the scores. */
ALWAYS_INLINE void score_tile(const struct tile *t, const struct run *run, struct form form)
{
    for (uint32_t j = 0; j * KERNELS_OCTET < run->tokens; j += (uint32_t)form.octets) {
        score_octets(t, run, j, form);
    }
}

ALWAYS_INLINE void score_form(const struct tile *t, const struct run *run, uint32_t queries,
                              bool halves)
{
    switch (queries) {
    case 1: score_tile(t, run, (struct form){1, 8, halves}); break;
    case 2: score_tile(t, run, (struct form){2, 4, halves}); break;
    case 3: score_tile(t, run, (struct form){3, 2, halves}); break;
    case 4: score_tile(t, run, (struct form){4, 2, halves}); break;
    case 5: score_tile(t, run, (struct form){5, 2, halves}); break;
    default: score_tile(t, run, (struct form){6, 2, halves}); break;
    }
}

static void score_queries(const struct tile *t, const struct run *run, uint32_t queries)
{
    if (run->a->halves) {
        score_form(t, run, queries, true);
    } else {
        score_form(t, run, queries, false);
    }
}

/* ---- weigh ---- */

/* Adds the tokens of a span to so many octets of channels from `lane` on. */
ALWAYS_INLINE void weigh_octets(const struct tile *t, const struct run *run, struct span span,
                                uint32_t lane, struct form form)
{
    int queries = form.queries, octets = form.octets;
    __m256 sums[QUERIES_MAX][OCTETS_MAX];
    uint64_t lanes = kernels_head_lanes(run->a->head_dim);
    const float *weights[QUERIES_MAX];
#pragma GCC unroll 6
    for (int i = 0; i < queries; i++) {
        weights[i] = t->scores[i];
#pragma GCC unroll 8
        for (int j = 0; j < octets; j++) {
            sums[i][j] = _mm256_loadu_ps(t->out[i] + lane + j * 8);
        }
    }
    for (uint32_t token = span.first; token < span.end;) {
        uint32_t octet = token / KERNELS_OCTET;
        uint32_t end = smaller(span.end, (octet + 1) * KERNELS_OCTET);
        uint64_t index = token % KERNELS_OCTET * lanes + lane;
        for (; token < end; token++, index += lanes) {
            __m256 v[OCTETS_MAX];
#pragma GCC unroll 8
            for (int j = 0; j < octets; j++) {
                v[j] = octet_at(run->values[octet], index + (uint32_t)j * 8, form.halves);
            }
#pragma GCC unroll 6
            for (int i = 0; i < queries; i++) {
                __m256 w = _mm256_broadcast_ss(weights[i] + token);
#pragma GCC unroll 8
                for (int j = 0; j < octets; j++) {
                    sums[i][j] = _mm256_fmadd_ps(w, v[j], sums[i][j]);
                }
            }
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < queries; i++) {
#pragma GCC unroll 8
        for (int j = 0; j < octets; j++) {
            _mm256_storeu_ps(t->out[i] + lane + j * 8, sums[i][j]);
        }
    }
}

/* All channels: the form's octets at a time while there are as many, then half of them. */
ALWAYS_INLINE void weigh_tile(const struct tile *t, const struct run *run, struct span span,
                              struct form form)
{
    uint32_t lane = 0, lanes = kernels_head_lanes(run->a->head_dim);
#pragma GCC unroll 4
    for (int octets = form.octets; octets > 0; octets /= 2) {
        struct form part = {form.queries, octets, form.halves};
        uint32_t wide = (uint32_t)octets * KERNELS_OCTET;
        for (; lane + wide <= lanes; lane += wide) {
            weigh_octets(t, run, span, lane, part);
        }
    }
}

ALWAYS_INLINE void weigh_form(const struct tile *t, const struct run *run, struct span span,
                              uint32_t queries, bool halves)
{
    switch (queries) {
    case 1: weigh_tile(t, run, span, (struct form){1, 8, halves}); break;
    case 2: weigh_tile(t, run, span, (struct form){2, 4, halves}); break;
    case 3: weigh_tile(t, run, span, (struct form){3, 2, halves}); break;
    case 4: weigh_tile(t, run, span, (struct form){4, 2, halves}); break;
    case 5: weigh_tile(t, run, span, (struct form){5, 2, halves}); break;
    default: weigh_tile(t, run, span, (struct form){6, 2, halves}); break;
    }
}

static void weigh_together(const struct tile *t, const struct run *run, struct span span,
                           uint32_t queries)
{
    if (run->a->halves) {
        weigh_form(t, run, span, queries, true);
    } else {
        weigh_form(t, run, span, queries, false);
    }
}

void kernels_scores_avx2(const struct kernels_attention *attention)
{
    attention_walk(attention, (struct tile_work){.score = score_queries});
}

void kernels_weigh_avx2(const struct kernels_attention *attention)
{
    outs_clear(attention);
    attention_walk(attention, (struct tile_work){.weigh = weigh_together});
}
