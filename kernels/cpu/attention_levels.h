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
#define UNITS_MAX    4          /* at once */

/* Where a unit's tokens are, for the first pair of channels: two octets, which are neighbours if
 * `whole`. AVX-512 has whole units only. */
struct unit {
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

ALWAYS_INLINE vector_bits words_zero(void)
{
    return _mm512_setzero_si512();
}

#endif

/* The scores of a unit for one query. */
ALWAYS_INLINE void unit_store(float *scores, const struct unit_vectors *sums,
                              const struct unit *unit, uint32_t block_tokens,
                              const struct kernels_query_frame *frame)
{
    vector scale = vector_all(&frame->scale), sum = vector_all(&frame->sum);
#pragma GCC unroll 2
    for (int i = 0; i < UNIT_VECTORS; i++) {
        vector steps = vector_mul(vector_load_halves(unit->steps[i]), scale);
        vector middles = vector_load_halves(unit->steps[i] + block_tokens);
        vector score = vector_fma(unit_floats(sums, i), steps, vector_mul(middles, sum));
        vector_store(scores + i * VECTOR_LANES, score);
    }
}

/* The queries of a tile and the units that it takes at a time: constants in each copy. */
struct unit_form {
    int queries, units;
};

/* A unit past the last token reads the last one again. */
ALWAYS_INLINE void units_find(struct unit *units, const struct run *run, uint32_t first, int count)
{
    uint32_t last = (run->tokens - 1) / UNIT_TOKENS;
#pragma GCC unroll 4
    for (int j = 0; j < count; j++) {
        uint32_t octet = lesser(first + (uint32_t)j, last) * 2;
        units[j].whole = VECTOR_LANES == 16 || run->a->block_tokens % UNIT_TOKENS == 0;
#pragma GCC unroll 2
        for (uint32_t i = 0; i < 2; i++) {
            units[j].bytes[i] = run->keys[octet + i];
            units[j].signs[i] = run->signs[octet + i];
            units[j].steps[i] = run->steps[octet + i];
        }
    }
}

/* form.units units from unit `first` of the stretch on. */
ALWAYS_INLINE void score_units(const struct tile *t, struct run *run, uint32_t first,
                               struct unit_form form)
{
    struct unit units[UNITS_MAX];
    struct unit_vectors sums[QUERIES_MAX][UNITS_MAX];
    uint32_t tokens = run->a->block_tokens, pairs = run->a->head_dim / 2;
    int lines = form.units > 1 ? form.units / 2 : 1;
    units_find(units, run, first, form.units);
#pragma GCC unroll 6
    for (int i = 0; i < form.queries; i++) {
#pragma GCC unroll 8
        for (int j = 0; j < form.units * UNIT_VECTORS; j++) {
            sums[i][j / UNIT_VECTORS].at[j % UNIT_VECTORS] = words_zero();
        }
    }
    for (uint32_t pair = 0; pair < pairs; pair++) {
        ahead_ask(run, lines + (pair % 4 == 0));
#pragma GCC unroll 4
        for (int j = 0; j < form.units; j++) {
            struct unit_vectors words = unit_words(&units[j], (uint64_t)pair * 2 * tokens,
                                                   (uint64_t)pair * (tokens / 4));
#pragma GCC unroll 6
            for (int i = 0; i < form.queries; i++) {
                vector_bits query = words_all(t->levels[i] + pair * 2);
#pragma GCC unroll 2
                for (int v = 0; v < UNIT_VECTORS; v++) {
                    sums[i][j].at[v] = words_fma(words.at[v], query, sums[i][j].at[v]);
                }
            }
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < form.queries; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < form.units; j++) {
            unit_store(t->scores[i] + (first + (uint32_t)j) * UNIT_TOKENS, &sums[i][j], &units[j],
                       tokens, t->frames[i]);
        }
    }
}

/* The units of a form divide a stretch, so the scores have room past the last token. */
ALWAYS_INLINE void score_unit_tile(const struct tile *t, struct run *run, struct unit_form form)
{
    for (uint32_t j = 0; j * UNIT_TOKENS < run->tokens; j += (uint32_t)form.units) {
        score_units(t, run, j, form);
    }
}

static void score_levels(const struct tile *t, struct run *run, uint32_t queries)
{
    switch (queries) {
    case 1: score_unit_tile(t, run, (struct unit_form){1, 4}); break;
    case 2: score_unit_tile(t, run, (struct unit_form){2, VECTOR_LANES / 4}); break;
    case 3: score_unit_tile(t, run, (struct unit_form){3, VECTOR_LANES / 8}); break;
    case 4: score_unit_tile(t, run, (struct unit_form){4, VECTOR_LANES / 8}); break;
    case 5: score_unit_tile(t, run, (struct unit_form){5, VECTOR_LANES / 8}); break;
    default: score_unit_tile(t, run, (struct unit_form){6, VECTOR_LANES / 8}); break;
    }
}
