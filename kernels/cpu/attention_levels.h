/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the tiles of scores whose keys are levels, for AVX2 and AVX-512 (kernels/ops.h defines the
 * result). Queries are levels, too, and sums are integers: one instruction multiplies the words of
 * two channels and adds both products.
 *
 * A unit is sixteen tokens: 32 bytes of a pair of channels, and 32 signs. AVX-512 takes the signs
 * as a mask. AVX2 spreads them over bytes, which are the high halves of the words.
 */
#include "kernels/cpu/attention_walk.h"
#include "kernels/cpu/vector.h"

#define UNIT_TOKENS  16u
#define UNIT_VECTORS (16 / VECTOR_LANES)

/* Where a unit's tokens are, for the first pair of channels: two octets, which are neighbours if
 * `whole`. AVX-512 has whole units only. A tile goes unit by unit: as they lie in memory. */
struct unit {
    const struct run *run;
    const uint8_t *bytes[2], *signs[2];
    const uint16_t *steps[2];
    bool whole;
};

/* A unit's tokens as words (two channels of a token are neighbours), or as sums of its tokens. AVX2
 * has tokens 0 .. 3 and 8 .. 11 in its first vector, the others in its second. */
struct unit_vectors {
    vector_bits at[UNIT_VECTORS];
};

#if VECTOR_LANES == 8

ALWAYS_INLINE struct unit_vectors unit_words(const struct unit *unit, uint64_t bytes_at,
                                             uint64_t signs_at)
{
    const __m256i spread = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202,
                                              0x0303030303030303);
    const __m256i places = _mm256_set1_epi64x((long long)0x8040201008040201u);
    const uint8_t *bytes = unit->bytes[0] + bytes_at;
    __m256i low;
    uint32_t bits;
    memcpy(&bits, unit->signs[0] + signs_at, sizeof bits);
    if (unit->whole) {
        low = _mm256_loadu_si256((const __m256i *)(const void *)bytes);
    } else {
        uint16_t others;
        memcpy(&others, unit->signs[1] + signs_at, sizeof others);
        bits = (bits & 0xffffu) | (uint32_t)others << 16;
        low = _mm256_loadu2_m128i((const __m128i *)(const void *)(unit->bytes[1] + bytes_at),
                                  (const __m128i *)(const void *)bytes);
    }
    __m256i high = _mm256_shuffle_epi8(_mm256_set1_epi32((int)bits), spread);
    high = _mm256_cmpeq_epi8(_mm256_and_si256(high, places), places);
    return (struct unit_vectors){{_mm256_unpacklo_epi8(low, high),
                                  _mm256_unpackhi_epi8(low, high)}};
}

ALWAYS_INLINE vector_bits words_fma(vector_bits words, vector_bits query, vector_bits sums)
{
    return _mm256_add_epi32(sums, _mm256_madd_epi16(words, query));
}

ALWAYS_INLINE vector_bits words_all(const int16_t *pair)
{
    int both;
    memcpy(&both, pair, sizeof both);
    return _mm256_set1_epi32(both);
}

ALWAYS_INLINE vector unit_floats(const struct unit_vectors *sums, int octet)
{
    __m256i ordered = octet == 0 ? _mm256_permute2x128_si256(sums->at[0], sums->at[1], 0x20)
                                 : _mm256_permute2x128_si256(sums->at[0], sums->at[1], 0x31);
    return _mm256_cvtepi32_ps(ordered);
}

ALWAYS_INLINE vector_bits words_add(vector_bits a, vector_bits b)
{
    return _mm256_add_epi32(a, b);
}

ALWAYS_INLINE vector_bits words_zero(void)
{
    return _mm256_setzero_si256();
}

#else

ALWAYS_INLINE struct unit_vectors unit_words(const struct unit *unit, uint64_t bytes_at,
                                             uint64_t signs_at)
{
    const void *bytes = unit->bytes[0] + bytes_at;
    uint32_t signs;
    memcpy(&signs, unit->signs[0] + signs_at, sizeof signs);
    __m512i words = _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)bytes));
    words = _mm512_mask_sub_epi16(words, (__mmask32)signs, words, _mm512_set1_epi16(256));
    return (struct unit_vectors){{words}};
}

ALWAYS_INLINE vector_bits words_fma(vector_bits words, vector_bits query, vector_bits sums)
{
    return _mm512_dpwssd_epi32(sums, words, query);
}

ALWAYS_INLINE vector_bits words_all(const int16_t *pair)
{
    int both;
    memcpy(&both, pair, sizeof both);
    return _mm512_set1_epi32(both);
}

ALWAYS_INLINE vector unit_floats(const struct unit_vectors *sums, int octet)
{
    (void)octet;
    return _mm512_cvtepi32_ps(sums->at[0]);
}

ALWAYS_INLINE vector_bits words_add(vector_bits a, vector_bits b)
{
    return _mm512_add_epi32(a, b);
}

ALWAYS_INLINE vector_bits words_zero(void)
{
    return _mm512_setzero_si512();
}

#endif

/* The scores of a unit for one query. */
ALWAYS_INLINE void unit_store(float *scores, const struct unit_vectors *sums,
                              const struct unit *unit, const struct kernels_query_frame *frame)
{
    uint32_t block_tokens = unit->run->a->block_tokens;
    vector scale = vector_all(&frame->scale), sum = vector_all(&frame->sum);
#pragma GCC unroll 2
    for (int i = 0; i < UNIT_VECTORS; i++) {
        vector steps = vector_mul(vector_load_halves(unit->steps[i]), scale);
        vector middles = vector_load_halves(unit->steps[i] + block_tokens);
        vector score = vector_fma(unit_floats(sums, i), steps, vector_mul(middles, sum));
        vector_store(scores + i * VECTOR_LANES, score);
    }
}

/* Unit `index` of the stretch. */
ALWAYS_INLINE struct unit unit_find(const struct run *run, uint32_t index)
{
    struct unit unit = {.run = run};
    unit.whole = VECTOR_LANES == 16 || run->a->block_tokens % UNIT_TOKENS == 0;
#pragma GCC unroll 2
    for (uint32_t i = 0; i < 2; i++) {
        unit.bytes[i] = run->keys[index * 2 + i];
        unit.signs[i] = run->signs[index * 2 + i];
        unit.steps[i] = run->steps[index * 2 + i];
    }
    return unit;
}

/* Asks for what a pair of channels will read further on: a piece has bytes, signs and steps, which
 * are not read as they lie. */
ALWAYS_INLINE void unit_ask(const struct unit *unit, uint32_t pair)
{
    const struct run *run = unit->run;
    uint32_t tokens = run->a->block_tokens;
    ahead_ask(run, unit->bytes[0] + (uint64_t)pair * 2 * tokens);
    if (pair % 16 == 0) {
        ahead_ask(run, unit->signs[0] + (uint64_t)pair * (tokens / 4));
        ahead_ask(run, unit->steps[0]);
    }
}

/* Adds a pair of channels of the unit to each query's sums. */
ALWAYS_INLINE void unit_add(const struct tile *t, const struct unit *unit, uint32_t pair,
                            struct unit_vectors *sums, int queries)
{
    uint32_t tokens = unit->run->a->block_tokens;
    struct unit_vectors words = unit_words(unit, (uint64_t)pair * 2 * tokens,
                                           (uint64_t)pair * (tokens / 4));
    unit_ask(unit, pair);
#pragma GCC unroll 6
    for (int i = 0; i < queries; i++) {
        vector_bits query = words_all(t->levels[i] + pair * 2);
#pragma GCC unroll 2
        for (int v = 0; v < UNIT_VECTORS; v++) {
            sums[i].at[v] = words_fma(words.at[v], query, sums[i].at[v]);
        }
    }
}

/* One query has two sums, of the even pairs and of the odd ones, as a single one would wait for
 * itself: they are integers. */
ALWAYS_INLINE void score_unit(const struct tile *t, const struct run *run, uint32_t index,
                              int queries)
{
    struct unit unit = unit_find(run, index);
    struct unit_vectors sums[KERNELS_TILE_QUERIES];
    uint32_t pair = 0, pairs = run->a->head_dim / 2;
#pragma GCC unroll 6
    for (int i = 0; i < KERNELS_TILE_QUERIES; i++) {
#pragma GCC unroll 2
        for (int v = 0; v < UNIT_VECTORS; v++) {
            sums[i].at[v] = words_zero();
        }
    }
    for (; pair + 1 < pairs; pair += 2) {
        unit_add(t, &unit, pair, sums, queries);
        unit_add(t, &unit, pair + 1, queries == 1 ? sums + 1 : sums, queries);
    }
    if (pair < pairs) {
        unit_add(t, &unit, pair, sums, queries);
    }
#pragma GCC unroll 2
    for (int v = 0; queries == 1 && v < UNIT_VECTORS; v++) {
        sums[0].at[v] = words_add(sums[0].at[v], sums[1].at[v]);
    }
#pragma GCC unroll 6
    for (int i = 0; i < queries; i++) {
        unit_store(t->scores[i] + index * UNIT_TOKENS, &sums[i], &unit, t->frames[i]);
    }
}

ALWAYS_INLINE void score_units(const struct tile *t, const struct run *run, int queries)
{
    for (uint32_t i = 0; i * UNIT_TOKENS < run->tokens; i++) {
        score_unit(t, run, i, queries);
    }
}

static void score_levels(const struct tile *t, const struct run *run, uint32_t queries)
{
    switch (queries) {
    case 1: score_units(t, run, 1); break;
    case 2: score_units(t, run, 2); break;
    case 3: score_units(t, run, 3); break;
    case 4: score_units(t, run, 4); break;
    case 5: score_units(t, run, 5); break;
    default: score_units(t, run, 6); break;
    }
}
