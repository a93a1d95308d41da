/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the tiles of attention for all sets of kernels (kernels/ops.h defines the result,
 * attention_walk.h a tile, vector.h a vector). In scores, lanes are tokens of one channel; in
 * weighted sums, channels of one token.
 *
 * What a tile reads lies in one stream of memory: scores take a unit of sixteen tokens at a time
 * (attention_levels.h), weighted sums as many channels of a token as registers hold. A load serves
 * up to six sums. The loops of fused operations are written out twice: as one function they were
 * 7 % slower with GCC 12.
 */
#include "kernels/cpu/attention_levels.h"
#include "kernels/cpu/attention_walk.h"
#include "kernels/cpu/vector.h"

#define VECTORS_MAX 8           /* at once */
#define WIDE (VECTOR_LANES / 4) /* vectors that six queries have sums of */

/* The queries of a tile, the vectors that it takes at a time, and their type: constants in each
 * copy of the code. */
struct form {
    int queries, vectors;
    enum kernels_kv_type type;
};

/* The vector of numbers that begins `index` numbers after `at`. */
ALWAYS_INLINE vector vector_at(const uint8_t *at, uint64_t index, enum kernels_kv_type type)
{
    if (type == KERNELS_KV_Q8) {
        return vector_load_levels((const int8_t *)at + index);
    }
    if (type == KERNELS_KV_F16) {
        return vector_load_halves((const uint16_t *)(const void *)at + index);
    }
    return vector_load((const float *)(const void *)at + index);
}

/* ---- scores ---- */

/* form.vectors vectors of tokens, from vector `first` of the stretch on. A vector past the last
 * token reads the last one again. */
ALWAYS_INLINE void score_vectors(const struct tile *t, const struct run *run, uint32_t first,
                                 struct form form)
{
    vector sums[KERNELS_TILE_QUERIES][VECTORS_MAX];
    const uint8_t *keys[VECTORS_MAX];
    uint64_t step = run->a->block_tokens;
    uint32_t last = (run->tokens - 1) / VECTOR_LANES;
    uint32_t octets = VECTOR_LANES / KERNELS_OCTET;
    int queries = form.queries, vectors = form.vectors;
#pragma GCC unroll 8
    for (int j = 0; j < vectors; j++) {
        uint32_t octet = lesser(first + (uint32_t)j, last) * octets;
        keys[j] = run->keys[octet];
#pragma GCC unroll 6
        for (int i = 0; i < queries; i++) {
            sums[i][j] = vector_zero();
        }
    }
    for (uint64_t d = 0; d < run->a->head_dim; d++) {
        vector key[VECTORS_MAX];
#pragma GCC unroll 8
        for (int j = 0; j < vectors; j++) {
            key[j] = vector_at(keys[j], d * step, form.type);
        }
#pragma GCC unroll 6
        for (int i = 0; i < queries; i++) {
            vector x = vector_all(t->queries[i] + d);
#pragma GCC unroll 8
            for (int j = 0; j < vectors; j++) {
                sums[i][j] = vector_fma(x, key[j], sums[i][j]);
            }
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < queries; i++) {
#pragma GCC unroll 8
        for (int j = 0; j < vectors; j++) {
            vector_store(t->scores[i] + (first + (uint32_t)j) * VECTOR_LANES, sums[i][j]);
        }
    }
}

/* Units divide a stretch, so the scores have room past the last token. */
ALWAYS_INLINE void score_tile(const struct tile *t, const struct run *run, int queries,
                              enum kernels_kv_type type)
{
    for (uint32_t j = 0; j * VECTOR_LANES < run->tokens; j += UNIT_VECTORS) {
        score_vectors(t, run, j, (struct form){queries, UNIT_VECTORS, type});
    }
}

ALWAYS_INLINE void score_form(const struct tile *t, const struct run *run, uint32_t queries,
                              enum kernels_kv_type type)
{
    switch (queries) {
    case 1: score_tile(t, run, 1, type); break;
    case 2: score_tile(t, run, 2, type); break;
    case 3: score_tile(t, run, 3, type); break;
    case 4: score_tile(t, run, 4, type); break;
    case 5: score_tile(t, run, 5, type); break;
    default: score_tile(t, run, 6, type); break;
    }
}

static void score_queries(const struct tile *t, const struct run *run, uint32_t queries)
{
    switch (run->a->type) {
    case KERNELS_KV_F16: score_form(t, run, queries, KERNELS_KV_F16); break;
    case KERNELS_KV_Q8: score_levels(t, run, queries); break;
    default: score_form(t, run, queries, KERNELS_KV_F32); break;
    }
}

/* ---- weigh ---- */

/* Adds the tokens of a span to form.vectors vectors of channels from `lane` on. */
ALWAYS_INLINE void weigh_vectors(const struct tile *t, const struct run *run, struct span span,
                                 uint32_t lane, struct form form)
{
    int queries = form.queries, vectors = form.vectors;
    vector sums[KERNELS_TILE_QUERIES][VECTORS_MAX];
    uint64_t lanes = kernels_head_lanes(run->a->head_dim);
    const float *weights[KERNELS_TILE_QUERIES];
#pragma GCC unroll 6
    for (int i = 0; i < queries; i++) {
        weights[i] = t->scores[i];
#pragma GCC unroll 8
        for (int j = 0; j < vectors; j++) {
            sums[i][j] = vector_load(t->out[i] + lane + j * VECTOR_LANES);
        }
    }
    for (uint32_t token = span.first; token < span.end;) {
        uint32_t octet = token / KERNELS_OCTET;
        uint32_t end = lesser(span.end, (octet + 1) * KERNELS_OCTET);
        uint64_t index = token % KERNELS_OCTET * lanes + lane;
        for (; token < end; token++, index += lanes) {
            vector v[VECTORS_MAX];
            if (form.type == KERNELS_KV_Q8) {
                ahead_ask(run, run->values[octet] + index);
            }
#pragma GCC unroll 8
            for (int j = 0; j < vectors; j++) {
                uint64_t at = index + (uint32_t)j * VECTOR_LANES;
                v[j] = vector_at(run->values[octet], at, form.type);
            }
#pragma GCC unroll 6
            for (int i = 0; i < queries; i++) {
                vector w = vector_all(weights[i] + token);
#pragma GCC unroll 8
                for (int j = 0; j < vectors; j++) {
                    sums[i][j] = vector_fma(w, v[j], sums[i][j]);
                }
            }
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < queries; i++) {
#pragma GCC unroll 8
        for (int j = 0; j < vectors; j++) {
            vector_store(t->out[i] + lane + j * VECTOR_LANES, sums[i][j]);
        }
    }
}

/* All channels: the form's vectors at a time while so many are left, then half as many. */
ALWAYS_INLINE void weigh_tile(const struct tile *t, const struct run *run, struct span span,
                              struct form form)
{
    uint32_t lane = 0, lanes = kernels_head_lanes(run->a->head_dim);
#pragma GCC unroll 4
    for (int vectors = form.vectors; vectors > 0; vectors /= 2) {
        struct form part = {form.queries, vectors, form.type};
        uint32_t width = (uint32_t)vectors * VECTOR_LANES;
        for (; lane + width <= lanes; lane += width) {
            weigh_vectors(t, run, span, lane, part);
        }
    }
}

ALWAYS_INLINE void weigh_form(const struct tile *t, const struct run *run, struct span span,
                              uint32_t queries, enum kernels_kv_type type)
{
    switch (queries) {
    case 1: weigh_tile(t, run, span, (struct form){1, 8, type}); break;
    case 2: weigh_tile(t, run, span, (struct form){2, 4, type}); break;
    case 3: weigh_tile(t, run, span, (struct form){3, WIDE, type}); break;
    case 4: weigh_tile(t, run, span, (struct form){4, WIDE, type}); break;
    case 5: weigh_tile(t, run, span, (struct form){5, WIDE, type}); break;
    default: weigh_tile(t, run, span, (struct form){6, WIDE, type}); break;
    }
}

/* The weights of a span times the scales of its tokens, whole octets of them. */
static void weigh_levels(const struct tile *t, const struct run *run, struct span span,
                         uint32_t queries)
{
    _Alignas(LINE_BYTES) float scaled[KERNELS_TILE_QUERIES][KERNELS_STRETCH];
    struct tile leveled;
    for (uint32_t i = span.first / KERNELS_OCTET; i * KERNELS_OCTET < span.end; i++) {
        ahead_ask(run, run->scales[i]);
    }
    for (uint32_t q = 0; q < queries; q++) {
        for (uint32_t i = span.first / KERNELS_OCTET; i * KERNELS_OCTET < span.end; i++) {
            __m256 weights = _mm256_loadu_ps(t->scores[q] + i * KERNELS_OCTET);
            weights = _mm256_mul_ps(weights, _mm256_loadu_ps(run->scales[i]));
            _mm256_store_ps(scaled[q] + i * KERNELS_OCTET, weights);
        }
        leveled.scores[q] = scaled[q];
        leveled.out[q] = t->out[q];
    }
    weigh_form(&leveled, run, span, queries, KERNELS_KV_Q8);
}

static void weigh_together(const struct tile *t, const struct run *run, struct span span,
                           uint32_t queries)
{
    switch (run->a->type) {
    case KERNELS_KV_F16: weigh_form(t, run, span, queries, KERNELS_KV_F16); break;
    case KERNELS_KV_Q8: weigh_levels(t, run, span, queries); break;
    default: weigh_form(t, run, span, queries, KERNELS_KV_F32); break;
    }
}
