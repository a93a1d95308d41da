/* SPDX-License-Identifier: MIT
 *
 * What: the tiles of attention, AVX-512 (kernels/ops.h defines the result, attention_walk.h what a
 * tile is). As AVX2's (attention_avx2.c), but lanes are sixteen tokens or channels.
 *
 * Where sixteen tokens need not lie side by side (blocks of 8, 24, ... tokens), or the lanes of a
 * head are no multiple of sixteen, AVX2's kernels do the work.
 */
#include "kernels/cpu/avx512.h"
#include "kernels/cpu/attention_walk.h"

#define SIXTEEN   16u           /* tokens or channels of one vector */
#define WIDES_MAX 8             /* vectors at once */

/* How many queries a tile has, how many vectors it takes at a time, and of what: constants of each
 * copy of the code. */
struct form {
    int queries, wides;
    bool halves;
};

/* The sixteen numbers that lie `index` numbers behind `at`. */
ALWAYS_INLINE __m512 sixteen_at(const uint8_t *at, uint64_t index, bool halves)
{
    if (halves) {
        const uint16_t *from = (const uint16_t *)(const void *)at + index;
        return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)from));
    }
    return _mm512_loadu_ps((const float *)(const void *)at + index);
}

/* ---- scores ---- */

/* So many vectors of tokens, from vector `first` of the stretch on. Those past the last token are
 * the last one again. */
ALWAYS_INLINE void score_wides(const struct tile *t, const struct run *run, uint32_t first,
                               struct form form)
{
    __m512 sums[QUERIES_MAX][WIDES_MAX];
    const uint8_t *keys[WIDES_MAX];
    uint64_t step = run->a->block_tokens;
    uint32_t last = (run->tokens - 1) / SIXTEEN;
    int queries = form.queries, wides = form.wides;
#pragma GCC unroll 8
    for (int j = 0; j < wides; j++) {
        keys[j] = run->keys[smaller(first + (uint32_t)j, last) * 2];
#pragma GCC unroll 6
        for (int i = 0; i < queries; i++) {
            sums[i][j] = _mm512_setzero_ps();
        }
    }
    for (uint64_t d = 0; d < run->a->head_dim; d++) {
        __m512 key[WIDES_MAX];
#pragma GCC unroll 8
        for (int j = 0; j < wides; j++) {
            key[j] = sixteen_at(keys[j], d * step, form.halves);
        }
#pragma GCC unroll 6
        for (int i = 0; i < queries; i++) {
            __m512 x = _mm512_set1_ps(t->queries[i][d]);
#pragma GCC unroll 8
            for (int j = 0; j < wides; j++) {
                sums[i][j] = _mm512_fmadd_ps(x, key[j], sums[i][j]);
            }
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < queries; i++) {
#pragma GCC unroll 8
        for (int j = 0; j < wides; j++) {
            _mm512_storeu_ps(t->scores[i] + (first + (uint32_t)j) * SIXTEEN, sums[i][j]);
        }
    }
}

/* Vectors of a form divide a stretch: what is past the last token has room in the scores. */
ALWAYS_INLINE void score_tile(const struct tile *t, const struct run *run, struct form form)
{
    for (uint32_t j = 0; j * SIXTEEN < run->tokens; j += (uint32_t)form.wides) {
        score_wides(t, run, j, form);
    }
}

ALWAYS_INLINE void score_form(const struct tile *t, const struct run *run, uint32_t queries,
                              bool halves)
{
    switch (queries) {
    case 1: score_tile(t, run, (struct form){1, 4, halves}); break;
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

/* Adds the tokens of a span to so many vectors of channels from `lane` on. */
ALWAYS_INLINE void weigh_wides(const struct tile *t, const struct run *run, struct span span,
                               uint32_t lane, struct form form)
{
    int queries = form.queries, wides = form.wides;
    __m512 sums[QUERIES_MAX][WIDES_MAX];
    uint64_t lanes = kernels_head_lanes(run->a->head_dim);
    const float *weights[QUERIES_MAX];
#pragma GCC unroll 6
    for (int i = 0; i < queries; i++) {
        weights[i] = t->scores[i];
#pragma GCC unroll 8
        for (int j = 0; j < wides; j++) {
            sums[i][j] = _mm512_loadu_ps(t->out[i] + lane + j * (int)SIXTEEN);
        }
    }
    for (uint32_t token = span.first; token < span.end;) {
        uint32_t octet = token / KERNELS_OCTET;
        uint32_t end = smaller(span.end, (octet + 1) * KERNELS_OCTET);
        uint64_t index = token % KERNELS_OCTET * lanes + lane;
        for (; token < end; token++, index += lanes) {
            __m512 v[WIDES_MAX];
#pragma GCC unroll 8
            for (int j = 0; j < wides; j++) {
                v[j] = sixteen_at(run->values[octet], index + (uint32_t)j * SIXTEEN, form.halves);
            }
#pragma GCC unroll 6
            for (int i = 0; i < queries; i++) {
                __m512 w = _mm512_set1_ps(weights[i][token]);
#pragma GCC unroll 8
                for (int j = 0; j < wides; j++) {
                    sums[i][j] = _mm512_fmadd_ps(w, v[j], sums[i][j]);
                }
            }
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < queries; i++) {
#pragma GCC unroll 8
        for (int j = 0; j < wides; j++) {
            _mm512_storeu_ps(t->out[i] + lane + j * (int)SIXTEEN, sums[i][j]);
        }
    }
}

/* All channels: the form's vectors at a time while there are as many, then half of them. */
ALWAYS_INLINE void weigh_tile(const struct tile *t, const struct run *run, struct span span,
                              struct form form)
{
    uint32_t lane = 0, lanes = kernels_head_lanes(run->a->head_dim);
#pragma GCC unroll 4
    for (int wides = form.wides; wides > 0; wides /= 2) {
        struct form part = {form.queries, wides, form.halves};
        uint32_t width = (uint32_t)wides * SIXTEEN;
        for (; lane + width <= lanes; lane += width) {
            weigh_wides(t, run, span, lane, part);
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

void kernels_scores_avx512(const struct kernels_attention *attention)
{
    if (attention->block_tokens % SIXTEEN != 0) {
        kernels_scores_avx2(attention);
    } else {
        attention_walk(attention, (struct tile_work){.score = score_queries});
    }
}

void kernels_weigh_avx512(const struct kernels_attention *attention)
{
    if (kernels_head_lanes(attention->head_dim) % SIXTEEN != 0) {
        kernels_weigh_avx2(attention);
    } else {
        outs_clear(attention);
        attention_walk(attention, (struct tile_work){.weigh = weigh_together});
    }
}
