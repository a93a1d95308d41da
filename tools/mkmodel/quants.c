/* SPDX-License-Identifier: MIT
 *
 * What: numbers as blocks of a GGUF file. Every quantizer rounds to the nearest level of the
 * simplest scale that covers the block; none searches for a better one.
 */
#include "tools/mkmodel/quants.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define SUPER_VALUES 256
#define PART_VALUES  32         /* of Q4_K: share a scale and a minimum */
#define PARTS        (SUPER_VALUES / PART_VALUES)
#define HALF_VALUES  16         /* of Q6_K: share a scale */
#define HALVES       (SUPER_VALUES / HALF_VALUES)

/* Round to nearest even; weights are small, so there is no overflow, but there are subnormals. */
static uint16_t f16_from_f32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude < 0x38800000) {               /* below 2^-14: units of 2^-24 */
        return (uint16_t)(sign | (uint32_t)lrintf(fabsf(value) * 16777216.0f));
    }
    uint32_t half = (magnitude - 0x38000000) >> 13, rest = magnitude & 0x1fff;
    half += rest > 0x1000 || (rest == 0x1000 && (half & 1) != 0);
    return (uint16_t)(sign | half);
}

static float f32_from_f16(uint16_t half)
{
    uint32_t bits = (uint32_t)(half & 0x8000) << 16 | ((uint32_t)(half & 0x7fff) << 13);
    float value;
    memcpy(&value, &bits, sizeof bits);
    return value * 0x1p112f;                    /* exact, also for subnormals */
}

/* Writes a scale; returns it as a reader gets it. */
static float put_scale(uint8_t *at, float scale)
{
    uint16_t half = f16_from_f32(scale);
    memcpy(at, &half, sizeof half);
    return f32_from_f16(half);
}

/* The nearest of the levels least .. most. */
static int32_t level_of(float value, float scale, int32_t least, int32_t most)
{
    float level = scale != 0 ? value / scale : 0;
    return (int32_t)lrintf(fmaxf((float)least, fminf((float)most, level)));
}

static float largest_of(const float *values, uint32_t count)
{
    float largest = 0;
    for (uint32_t i = 0; i < count; i++) {
        largest = fmaxf(largest, fabsf(values[i]));
    }
    return largest;
}

static void put_f32(const float *values, uint8_t *block)
{
    memcpy(block, values, sizeof *values);
}

static void put_f16(const float *values, uint8_t *block)
{
    (void)put_scale(block, *values);
}

static void put_bf16(const float *values, uint8_t *block)
{
    uint32_t bits;
    memcpy(&bits, values, sizeof bits);
    uint16_t high = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    memcpy(block, &high, sizeof high);
}

static void put_q8_0(const float *values, uint8_t *block)
{
    float scale = put_scale(block, largest_of(values, 32) / 127.0f);
    for (uint32_t i = 0; i < 32; i++) {
        block[2 + i] = (uint8_t)(int8_t)level_of(values[i], scale, -127, 127);
    }
}

static void put_q4_0(const float *values, uint8_t *block)
{
    float largest = 0;                  /* with its sign: it becomes level -8 */
    for (uint32_t i = 0; i < 32; i++) {
        largest = fabsf(values[i]) > fabsf(largest) ? values[i] : largest;
    }
    float scale = put_scale(block, largest / -8.0f);
    for (uint32_t i = 0; i < 16; i++) {
        int32_t low = level_of(values[i], scale, -8, 7) + 8;
        int32_t high = level_of(values[i + 16], scale, -8, 7) + 8;
        block[2 + i] = (uint8_t)(low | high << 4);
    }
}

/* Scales and minima of eight parts, six bits each, in twelve bytes. */
static void put_six_bits(uint8_t *to, const int32_t *scales, const int32_t *minima)
{
    for (uint32_t j = 0; j < 4; j++) {
        to[j] = (uint8_t)(scales[j] | scales[j + 4] >> 4 << 6);
        to[j + 4] = (uint8_t)(minima[j] | minima[j + 4] >> 4 << 6);
        to[j + 8] = (uint8_t)((scales[j + 4] & 15) | (minima[j + 4] & 15) << 4);
    }
}

static void put_q4_k(const float *values, uint8_t *block)
{
    float ranges[PARTS], minima[PARTS];
    int32_t scale_levels[PARTS], minimum_levels[PARTS];
    for (uint32_t p = 0; p < PARTS; p++) {
        float least = 0, most = 0;
        for (uint32_t i = 0; i < PART_VALUES; i++) {
            least = fminf(least, values[p * PART_VALUES + i]);
            most = fmaxf(most, values[p * PART_VALUES + i]);
        }
        ranges[p] = (most - least) / 15;
        minima[p] = -least;
    }
    float scale = put_scale(block, largest_of(ranges, PARTS) / 63);
    float low = put_scale(block + 2, largest_of(minima, PARTS) / 63);
    memset(block + 16, 0, SUPER_VALUES / 2);
    for (uint32_t p = 0; p < PARTS; p++) {
        scale_levels[p] = level_of(ranges[p], scale, 0, 63);
        minimum_levels[p] = level_of(minima[p], low, 0, 63);
        float unit = scale * (float)scale_levels[p], base = low * (float)minimum_levels[p];
        for (uint32_t i = 0; i < PART_VALUES; i++) {
            int32_t level = level_of(values[p * PART_VALUES + i] + base, unit, 0, 15);
            block[16 + p / 2 * PART_VALUES + i] |= (uint8_t)(level << p % 2 * 4);
        }
    }
    put_six_bits(block + 4, scale_levels, minimum_levels);
}

static void put_q6_k(const float *values, uint8_t *block)
{
    float scales[HALVES];
    for (uint32_t h = 0; h < HALVES; h++) {
        scales[h] = largest_of(values + h * HALF_VALUES, HALF_VALUES) / 31;
    }
    memset(block, 0, 192);
    float scale = put_scale(block + 208, largest_of(scales, HALVES) / 127);
    for (uint32_t i = 0; i < SUPER_VALUES; i++) {
        uint32_t h = i / HALF_VALUES, quarter = i % 128 / 32;
        int32_t part = level_of(scales[h], scale, -127, 127);
        uint32_t level = (uint32_t)(level_of(values[i], scale * (float)part, -32, 31) + 32);
        block[192 + h] = (uint8_t)(int8_t)part;
        block[i / 128 * 64 + quarter % 2 * 32 + i % 32] |= (uint8_t)((level & 15)
                                                                     << quarter / 2 * 4);
        block[128 + i / 128 * 32 + i % 32] |= (uint8_t)(level >> 4 << quarter * 2);
    }
}

static const struct quant quants[] = {
    {"f32", 0, 1, 4, put_f32},          {"f16", 1, 1, 2, put_f16},
    {"bf16", 30, 1, 2, put_bf16},       {"q8_0", 8, 32, 34, put_q8_0},
    {"q4_0", 2, 32, 18, put_q4_0},      {"q4_k", 12, 256, 144, put_q4_k},
    {"q6_k", 14, 256, 210, put_q6_k},
};
#define QUANTS (sizeof quants / sizeof quants[0])

const struct quant *quant_named(const char *name)
{
    for (size_t i = 0; i < QUANTS; i++) {
        if (strcmp(quants[i].name, name) == 0) {
            return &quants[i];
        }
    }
    return NULL;
}

const struct quant *quant_of(uint32_t type)
{
    for (size_t i = 0; i < QUANTS; i++) {
        if (quants[i].type == type) {
            return &quants[i];
        }
    }
    return NULL;
}

const char *quant_names(void)
{
    return "f32, f16, bf16, q8_0, q4_0, q4_k or q6_k";
}
