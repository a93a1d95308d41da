/* SPDX-License-Identifier: MIT
 *
 * What: the table of the AVX2 kernels, those of them that work on one vector of numbers, and the
 * copy of KV blocks between the tiers.
 */
#include "kernels/cpu/avx2.h"
#include "kernels/ref/plain.h"

const struct kernels_ops kernels_ops_avx2 = {
    .product = kernels_product_avx2,
    .quantize = kernels_quantize_avx2,
    .shorten = kernels_shorten_avx2,
    .scores = kernels_scores_avx2,
    .weigh = kernels_weigh_avx2,
    .halve = kernels_halve_avx2,
    .level = kernels_level_avx2,
    .level_key = kernels_level_key_avx2,
    .level_query = kernels_level_query_avx2,
    .exponentiate = kernels_exponentiate_avx2,
    .norm = kernels_norm_avx2,
    .swiglu = kernels_swiglu_avx2,
    .is_finite = kernels_is_finite_avx2,
    .largest = kernels_largest_avx2,
    .copy = kernels_copy_avx2,
};

void kernels_halve_avx2(uint16_t *to, const float *from, uint32_t count)
{
    const __m128i magnitude = _mm_set1_epi16(0x7fff);
    const __m128i finite_max = _mm_set1_epi16(HALF_FINITE_MAX);
    uint32_t i = 0;
    for (; i + KERNELS_OCTET <= count; i += KERNELS_OCTET) {
        __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
        __m128i bad = _mm_cmpgt_epi16(_mm_and_si128(halves, magnitude), finite_max);
        halves = _mm_blendv_epi8(halves, _mm_set1_epi16(HALF_NAN), bad);
        _mm_storeu_si128((__m128i *)(void *)(to + i), halves);
    }
    for (; i < count; i++) {
        to[i] = kernels_half_of(from[i]);
    }
}

/* The largest magnitude as an integer, which orders floats and puts infinities and NaN last. */
static uint32_t largest_magnitude(const float *from, uint32_t count)
{
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i worst = _mm256_setzero_si256();
    uint32_t i = 0;
    for (; i + KERNELS_OCTET <= count; i += KERNELS_OCTET) {
        __m256i bits = _mm256_castps_si256(_mm256_loadu_ps(from + i));
        worst = _mm256_max_epi32(worst, _mm256_and_si256(bits, magnitude));
    }
    uint32_t lanes[KERNELS_OCTET], largest = 0;
    _mm256_storeu_si256((__m256i *)(void *)lanes, worst);
    for (uint32_t j = 0; j < KERNELS_OCTET; j++) {
        largest = largest > lanes[j] ? largest : lanes[j];
    }
    for (; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &from[i], sizeof bits);
        bits &= 0x7fffffffu;
        largest = largest > bits ? largest : bits;
    }
    return largest;
}

float kernels_level_avx2(int8_t *to, const float *from, uint32_t count)
{
    const __m256i firsts = _mm256_setr_epi32(0, 4, 0, 0, 0, 0, 0, 0);
    uint32_t bits = largest_magnitude(from, count), i = 0;
    float max;
    memcpy(&max, &bits, sizeof max);
    if (bits >= 0x7f800000u || max < KERNELS_LEVEL_TINY) {
        memset(to, 0, count);
        return bits >= 0x7f800000u ? NAN : 0.0f;
    }
    const float inverse = KERNELS_LEVEL_MAX / max;
    for (; i + KERNELS_OCTET <= count; i += KERNELS_OCTET) {
        __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(from + i), _mm256_set1_ps(inverse));
        __m256i levels = _mm256_cvtps_epi32(scaled);
        levels = _mm256_packs_epi16(_mm256_packs_epi32(levels, levels), levels);
        levels = _mm256_permutevar8x32_epi32(levels, firsts);   /* four are in each half */
        _mm_storel_epi64((__m128i *)(void *)(to + i), _mm256_castsi256_si128(levels));
    }
    for (; i < count; i++) {
        to[i] = (int8_t)lrintf(from[i] * inverse);
    }
    return max / KERNELS_LEVEL_MAX;
}

/* The least and the largest of at least one number; all are finite. */
struct range {
    float low, high;
};
static struct range range_of(const float *from, uint32_t count)
{
    struct range range = {from[0], from[0]};
    __m256 low = _mm256_set1_ps(from[0]), high = low;
    uint32_t i = 0;
    for (; i + KERNELS_OCTET <= count; i += KERNELS_OCTET) {
        low = _mm256_min_ps(_mm256_loadu_ps(from + i), low);
        high = _mm256_max_ps(_mm256_loadu_ps(from + i), high);
    }
    float ends[2 * KERNELS_OCTET];
    _mm256_storeu_ps(ends, low);
    _mm256_storeu_ps(ends + KERNELS_OCTET, high);
    for (uint32_t j = 0; j < 2 * KERNELS_OCTET; j++) {
        range.low = ends[j] < range.low ? ends[j] : range.low;
        range.high = ends[j] > range.high ? ends[j] : range.high;
    }
    for (; i < count; i++) {
        range.low = from[i] < range.low ? from[i] : range.low;
        range.high = from[i] > range.high ? from[i] : range.high;
    }
    return range;
}

/* Levels are so many units of 1 / inverse away from the middle, and at most `most`. */
struct grid {
    float middle, inverse, most;
};
static void levels_round(int16_t *to, const float *from, uint32_t count, struct grid grid)
{
    const __m256 most = _mm256_set1_ps(grid.most), least = _mm256_set1_ps(-grid.most);
    const __m256 middle = _mm256_set1_ps(grid.middle), inverse = _mm256_set1_ps(grid.inverse);
    uint32_t i = 0;
    for (; i + KERNELS_OCTET <= count; i += KERNELS_OCTET) {
        __m256 v = _mm256_mul_ps(_mm256_sub_ps(_mm256_loadu_ps(from + i), middle), inverse);
        __m256i levels = _mm256_cvtps_epi32(_mm256_max_ps(_mm256_min_ps(v, most), least));
        __m128i high = _mm256_extracti128_si256(levels, 1);
        _mm_storeu_si128((__m128i *)(void *)(to + i),
                         _mm_packs_epi32(_mm256_castsi256_si128(levels), high));
    }
    for (; i < count; i++) {
        float level = fminf((from[i] - grid.middle) * grid.inverse, grid.most);
        to[i] = (int16_t)lrintf(fmaxf(level, -grid.most));
    }
}

struct kernels_key_frame kernels_level_key_avx2(int16_t *to, const float *from, uint32_t count)
{
    ASSERT(count > 0);
    bool finite = largest_magnitude(from, count) < 0x7f800000u;
    struct range range = finite ? range_of(from, count) : (struct range){NAN, NAN};
    struct kernels_key_frame frame = kernels_key_frame_of(range.low, range.high);
    float middle = kernels_half_to_float(frame.middle), inverse = kernels_key_inverse(frame);
    if (!(inverse > 0)) {
        memset(to, 0, count * sizeof *to);
        return frame;
    }
    levels_round(to, from, count, (struct grid){middle, inverse, KERNELS_KEY_LEVEL_MAX});
    return frame;
}

/* The sum in eight lanes, all of a whole number of octets. */
static float channels_sum(const float *from, uint32_t count)
{
    __m256 sums = _mm256_setzero_ps();
    uint32_t i = 0;
    for (; i + KERNELS_OCTET <= count; i += KERNELS_OCTET) {
        sums = _mm256_add_ps(sums, _mm256_loadu_ps(from + i));
    }
    float lanes[KERNELS_OCTET];
    _mm256_storeu_ps(lanes, sums);
    for (uint32_t j = 0; i + j < count; j++) {
        lanes[j] += from[i + j];
    }
    return octet_sum(_mm256_loadu_ps(lanes));
}

struct kernels_query_frame kernels_level_query_avx2(int16_t *to, const float *from, uint32_t count)
{
    uint32_t bits = largest_magnitude(from, count);
    struct kernels_query_frame frame = {.sum = channels_sum(from, count)};
    float max;
    memcpy(&max, &bits, sizeof max);
    if (bits >= 0x7f800000u || max < KERNELS_LEVEL_TINY) {
        memset(to, 0, count * sizeof *to);
        frame.scale = bits >= 0x7f800000u ? NAN : 0.0f;
        return frame;
    }
    const float inverse = KERNELS_QUERY_LEVEL_MAX / max;
    levels_round(to, from, count, (struct grid){0, inverse, KERNELS_QUERY_LEVEL_MAX});
    frame.scale = max / KERNELS_QUERY_LEVEL_MAX;
    return frame;
}

void kernels_shorten_avx2(float *bfloats, const float *x, uint32_t columns)
{
    uint32_t k = 0;
    for (; k + KERNELS_OCTET <= columns; k += KERNELS_OCTET) {
        __m256i high = _mm256_slli_epi32(octet_shortened(x + k), 16);
        _mm256_storeu_ps(bfloats + k, _mm256_castsi256_ps(high));
    }
    kernels_shorten_plain(bfloats + k, x + k, columns - k);
}

float kernels_exponentiate_avx2(float *values, uint32_t count, float scale)
{
    ASSERT(count > 0);
    float max = octets_max(values, count);
    return octet_sum(octets_exponentiate(_mm256_setzero_ps(), values, count, max, scale));
}

void kernels_norm_avx2(float *y, const float *x, const float *weight, uint32_t dim, float epsilon)
{
    ASSERT(dim > 0);
    __m256 low = _mm256_setzero_ps();
    __m256 high = _mm256_setzero_ps();
    for (uint32_t i = 0; i < dim; i += 2 * KERNELS_OCTET) {
        __m256 a = _mm256_and_ps(_mm256_loadu_ps(x + i), octet_below(i, dim));
        __m256 b = _mm256_and_ps(_mm256_loadu_ps(x + i + 8), octet_below(i + 8, dim));
        low = _mm256_fmadd_ps(a, a, low);
        high = _mm256_fmadd_ps(b, b, high);
    }
    float sum = octet_sum(_mm256_add_ps(low, high));
    const __m256 inverse = _mm256_set1_ps(1.0f / sqrtf(sum / (float)dim + epsilon));
    for (uint32_t i = 0; i < dim; i += KERNELS_OCTET) {
        __m256 v = _mm256_mul_ps(_mm256_loadu_ps(x + i), inverse);
        _mm256_storeu_ps(y + i, _mm256_mul_ps(v, _mm256_loadu_ps(weight + i)));
    }
}

void kernels_swiglu_avx2(float *gate, const float *up, uint32_t count)
{
    ASSERT(count % KERNELS_PANEL_LANES == 0);
    const __m256 one = _mm256_set1_ps(1.0f);
    const __m256 sign = _mm256_set1_ps(-0.0f);
    for (uint32_t i = 0; i < count; i += KERNELS_OCTET) {
        __m256 g = _mm256_loadu_ps(gate + i);
        __m256 e = _mm256_add_ps(one, octet_exp(_mm256_xor_ps(g, sign)));
        __m256 v = _mm256_mul_ps(_mm256_div_ps(g, e), _mm256_loadu_ps(up + i));
        _mm256_storeu_ps(gate + i, v);
    }
}

bool kernels_is_finite_avx2(const float *values, uint32_t count)
{
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i worst = _mm256_setzero_si256();
    for (uint32_t i = 0; i < count; i += KERNELS_OCTET) {
        __m256 v = _mm256_and_ps(_mm256_loadu_ps(values + i), octet_below(i, count));
        __m256i bits = _mm256_and_si256(_mm256_castps_si256(v), magnitude);
        worst = _mm256_max_epi32(worst, bits);
    }
    __m256i bad = _mm256_cmpgt_epi32(worst, _mm256_set1_epi32(0x7f7fffff));
    return _mm256_testz_si256(bad, bad);
}

/* Finds the value first, then its index: the second walk ends at the first hit. */
uint32_t kernels_largest_avx2(const float *values, uint32_t count)
{
    ASSERT(count > 0);
    const __m256 max = _mm256_set1_ps(octets_max(values, count));
    for (uint32_t i = 0; i < count; i += KERNELS_OCTET) {
        __m256 hit = _mm256_cmp_ps(_mm256_loadu_ps(values + i), max, _CMP_EQ_OQ);
        int lanes = _mm256_movemask_ps(hit);
        if (lanes != 0) {
            return i + (uint32_t)__builtin_ctz((unsigned)lanes);
        }
    }
    return 0;                           /* only if a value is NaN */
}

/* ---- copy ---- */

/* Past the caches, in four streams, a quarter of the copy each: four streams have more cache lines
 * under way than one, and their stores do not read a line before they write it.
 *
 * Why not memcpy(): its stores go past the caches only above a size that it derives from the last
 * cache's, and that is far more than a run of blocks. docs/performance.md has figures. */
#define STREAMS         4u
#define LINES_FLOATS    32u              /* two cache lines */
#define PREFETCH_FLOATS 128u             /* distance ahead of the loads */

ALWAYS_INLINE void copy_lines(float *to, const float *from)
{
    _mm_prefetch((const char *)(from + PREFETCH_FLOATS), _MM_HINT_T0);
    _mm_prefetch((const char *)(from + PREFETCH_FLOATS + LINES_FLOATS / 2), _MM_HINT_T0);
    __m256 a = _mm256_load_ps(from), b = _mm256_load_ps(from + KERNELS_OCTET);
    __m256 c = _mm256_load_ps(from + 2 * KERNELS_OCTET);
    __m256 d = _mm256_load_ps(from + 3 * KERNELS_OCTET);
    _mm256_stream_ps(to, a);
    _mm256_stream_ps(to + KERNELS_OCTET, b);
    _mm256_stream_ps(to + 2 * KERNELS_OCTET, c);
    _mm256_stream_ps(to + 3 * KERNELS_OCTET, d);
}

void kernels_copy_avx2(float *to, const float *from, uint64_t count)
{
    STATIC_ASSERT(STREAMS * LINES_FLOATS == KERNELS_COPY_FLOATS, "one step of all streams");
    ASSERT(count % KERNELS_COPY_FLOATS == 0);
    ASSERT((uintptr_t)to % ARENA_ALIGN_BYTES == 0 && (uintptr_t)from % ARENA_ALIGN_BYTES == 0);
    uint64_t quarter = count / STREAMS;
    for (uint64_t i = 0; i < quarter; i += LINES_FLOATS) {
        for (uint32_t stream = 0; stream < STREAMS; stream++) {
            copy_lines(to + stream * quarter + i, from + stream * quarter + i);
        }
    }
    _mm_sfence();           /* before any reader is told that it is there */
}
