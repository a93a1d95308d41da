/* SPDX-License-Identifier: MIT
 *
 * What: packs quantisation blocks of the file into those of panels, and unpacks them, for each
 * format.
 *
 * Bounds: linear in the bytes. Stores of one output go to lines 64 bytes apart, but the sixteen
 * file rows of a panel meet in one extent that fits a cache.
 */
#include "kernels/weights/format.h"

#include <string.h>

#include "config/base/assert.h"
#include "kernels/half.h"

#define LANES         KERNELS_PANEL_LANES
#define PARTS         (KERNELS_SUPER_COLUMNS / KERNELS_QUANT_COLUMNS)
#define PART_COLUMNS  KERNELS_QUANT_COLUMNS
#define SUPER_COLUMNS KERNELS_SUPER_COLUMNS

float kernels_half_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t exponent = (half >> 10) & 31u;
    uint32_t fraction = half & 1023u;
    uint32_t bits;
    if (exponent == 31) {
        bits = sign | 0x7f800000u | fraction << 13;
    } else if (exponent != 0) {
        bits = sign | (exponent + 112) << 23 | fraction << 13;
    } else {
        /* Subnormal: the fraction counts units of 2^-24, exact in a float. */
        float value = (float)fraction * 0x1p-24f;
        memcpy(&bits, &value, sizeof bits);
        bits |= sign;
    }
    float result;
    memcpy(&result, &bits, sizeof result);
    return result;
}

/* ---- floats ---- */

static bool pack_f32(uint8_t *panel, uint64_t first, uint32_t lane, const uint8_t *file,
                     uint64_t blocks)
{
    uint32_t *to = (uint32_t *)(void *)panel + first * LANES + lane;
    uint32_t worst = 0;
    for (uint64_t i = 0; i < blocks; i++) {
        uint32_t bits;
        memcpy(&bits, file + i * 4, sizeof bits);
        uint32_t magnitude = bits & 0x7fffffffu;
        worst = magnitude > worst ? magnitude : worst;
        to[i * LANES] = bits;
    }
    return worst < 0x7f800000u;
}

static void unpack_f32(const uint8_t *panel, uint32_t lane, float *weights, uint64_t columns)
{
    const float *from = (const float *)(const void *)panel + lane;
    for (uint64_t i = 0; i < columns; i++) {
        weights[i] = from[i * LANES];
    }
}

static bool pack_f16(uint8_t *panel, uint64_t first, uint32_t lane, const uint8_t *file,
                     uint64_t blocks)
{
    uint16_t *to = (uint16_t *)(void *)panel + first * LANES + lane;
    uint32_t worst = 0;
    for (uint64_t i = 0; i < blocks; i++) {
        uint16_t bits;
        memcpy(&bits, file + i * 2, sizeof bits);
        uint32_t magnitude = bits & 0x7fffu;
        worst = magnitude > worst ? magnitude : worst;
        to[i * LANES] = bits;
    }
    return worst < 0x7c00u;
}

static void unpack_f16(const uint8_t *panel, uint32_t lane, float *weights, uint64_t columns)
{
    for (uint64_t i = 0; i < columns; i++) {
        weights[i] = kernels_half_at(panel + i * LANES * 2, lane);
    }
}

/* The index of a column's bfloat in the panel. */
static uint64_t bfloat_at(uint64_t column, uint32_t lane)
{
    return (column / 2 * LANES + lane) * 2 + column % 2;
}

static bool pack_bf16(uint8_t *panel, uint64_t first, uint32_t lane, const uint8_t *file,
                      uint64_t blocks)
{
    uint16_t *to = (uint16_t *)(void *)panel;
    uint32_t worst = 0;
    for (uint64_t i = 0; i < blocks; i++) {
        uint16_t bits;
        memcpy(&bits, file + i * 2, sizeof bits);
        uint32_t magnitude = bits & 0x7fffu;
        worst = magnitude > worst ? magnitude : worst;
        to[bfloat_at(first + i, lane)] = magnitude < BFLOAT_NORMAL_MIN ? bits & 0x8000u : bits;
    }
    return worst < BFLOAT_INFINITY;
}

static void unpack_bf16(const uint8_t *panel, uint32_t lane, float *weights, uint64_t columns)
{
    const uint16_t *from = (const uint16_t *)(const void *)panel;
    for (uint64_t i = 0; i < columns; i++) {
        weights[i] = kernels_float_of_bfloat(from[bfloat_at(i, lane)]);
    }
}

/* ---- levels ---- */

/* The index of a column's byte, counted from its first group. */
static uint32_t level_at(uint32_t column, uint32_t lane)
{
    return column / 4 * KERNELS_GROUP_BYTES + lane * 4 + column % 4;
}

/* Copies a scale to its lane; false: it is not finite. */
static bool put_half(uint8_t *halves, uint32_t lane, const uint8_t *half)
{
    memcpy(halves + lane * 2, half, 2);
    return (half[1] & 0x7cu) != 0x7cu;
}

static bool pack_q8_0(uint8_t *panel, uint64_t first, uint32_t lane, const uint8_t *file,
                      uint64_t blocks)
{
    bool finite = true;
    panel += first * KERNELS_Q8_0_BYTES;
    for (uint64_t i = 0; i < blocks; i++) {
        finite = put_half(panel, lane, file) && finite;
        for (uint32_t k = 0; k < PART_COLUMNS; k++) {
            panel[KERNELS_SCALES_BYTES + level_at(k, lane)] = file[2 + k];
        }
        file += 34;
        panel += KERNELS_Q8_0_BYTES;
    }
    return finite;
}

/* Like the panel, the file has columns 0 .. 15 in the low halves of sixteen bytes. */
static bool pack_q4_0(uint8_t *panel, uint64_t first, uint32_t lane, const uint8_t *file,
                      uint64_t blocks)
{
    bool finite = true;
    panel += first * KERNELS_Q4_0_BYTES;
    for (uint64_t i = 0; i < blocks; i++) {
        finite = put_half(panel, lane, file) && finite;
        for (uint32_t k = 0; k < PART_COLUMNS / 2; k++) {
            panel[KERNELS_SCALES_BYTES + level_at(k, lane)] = file[2 + k];
        }
        file += 18;
        panel += KERNELS_Q4_0_BYTES;
    }
    return finite;
}

/* ---- levels in quantisation blocks of 256 ---- */

/* The scale (which = 0) or minimum (1) of a part, six bits. Parts 0 .. 3: the low bits of bytes
 * 0 .. 3 (scales) and 4 .. 7 (minima). Parts 4 .. 7: four bits in bytes 8 .. 11, and above them the
 * two high bits of bytes 0 .. 7. */
static uint8_t six_bits(const uint8_t *packed, uint32_t part, uint32_t which)
{
    uint32_t at = part % 4 + which * 4;
    if (part < 4) {
        return packed[at] & 63u;
    }
    uint32_t low = packed[8 + part % 4] >> (which * 4) & 15u;
    return (uint8_t)(low | packed[at] >> 6 << 4);
}

static bool pack_q4_k(uint8_t *panel, uint64_t first, uint32_t lane, const uint8_t *file,
                      uint64_t blocks)
{
    bool finite = true;
    panel += first * KERNELS_Q4_K_BYTES;
    for (uint64_t i = 0; i < blocks; i++) {
        finite = put_half(panel, lane, file) && finite;
        finite = put_half(panel + KERNELS_SCALES_BYTES, lane, file + 2) && finite;
        uint8_t *part = panel + KERNELS_Q4_K_HEAD;
        for (uint32_t p = 0; p < PARTS; p++) {
            /* 32 bytes of the file hold two parts, one in the low halves. */
            const uint8_t *levels = file + 16 + p / 2 * PART_COLUMNS;
            uint32_t shift = p % 2 * 4;
            part[lane] = six_bits(file + 4, p, 0);
            part[LANES + lane] = six_bits(file + 4, p, 1);
            for (uint32_t k = 0; k < PART_COLUMNS / 2; k++) {
                uint32_t low = levels[k] >> shift & 15u;
                uint32_t high = levels[k + PART_COLUMNS / 2] >> shift & 15u;
                part[KERNELS_SCALES_BYTES + level_at(k, lane)] = (uint8_t)(low | high << 4);
            }
            part += KERNELS_Q4_K_PART;
        }
        file += 144;
        panel += KERNELS_Q4_K_BYTES;
    }
    return finite;
}

/* Level + 32 of a column of a block in the file. In each half of 128 columns, the four quarters
 * share 32 bytes of high bits, and two quarters share 32 bytes of low ones. */
static uint32_t file_level_q6(const uint8_t *file, uint32_t column)
{
    uint32_t half = column / 128, quarter = column % 128 / 32, at = column % 32;
    uint32_t low = file[half * 64 + quarter % 2 * 32 + at] >> (quarter / 2 * 4) & 15u;
    uint32_t high = file[128 + half * 32 + at] >> (quarter * 2) & 3u;
    return low | high << 4;
}

static bool pack_q6_k(uint8_t *panel, uint64_t first, uint32_t lane, const uint8_t *file,
                      uint64_t blocks)
{
    bool finite = true;
    panel += first * KERNELS_Q6_K_BYTES;
    for (uint64_t i = 0; i < blocks; i++) {
        finite = put_half(panel, lane, file + 208) && finite;
        uint8_t *part = panel + KERNELS_Q6_K_HEAD;
        for (uint32_t p = 0; p < PARTS; p++) {
            uint8_t *low = part + KERNELS_SCALES_BYTES, *high = low + 4 * KERNELS_GROUP_BYTES;
            part[lane] = file[192 + p * 2];
            part[LANES + lane] = file[192 + p * 2 + 1];
            for (uint32_t k = 0; k < PART_COLUMNS / 2; k++) {
                uint32_t a = file_level_q6(file, p * PART_COLUMNS + k);
                uint32_t b = file_level_q6(file, p * PART_COLUMNS + k + PART_COLUMNS / 2);
                uint32_t shift = k / 4 * 2;
                uint8_t *of_a = &high[level_at(k % 4, lane)], *of_b = of_a + KERNELS_GROUP_BYTES;
                low[level_at(k, lane)] = (uint8_t)((a & 15u) | (b & 15u) << 4);
                *of_a = (uint8_t)((*of_a & ~(3u << shift)) | a >> 4 << shift);
                *of_b = (uint8_t)((*of_b & ~(3u << shift)) | b >> 4 << shift);
            }
            part += KERNELS_Q6_K_PART;
        }
        file += 210;
        panel += KERNELS_Q6_K_BYTES;
    }
    return finite;
}

/* ---- the parts of a lane in a panel ---- */

/* The level of a column in a part whose bytes hold two levels. */
static int32_t half_level(const uint8_t *levels, uint32_t column, uint32_t lane)
{
    int32_t byte = levels[level_at(column % (PART_COLUMNS / 2), lane)];
    return column < PART_COLUMNS / 2 ? byte & 15 : byte >> 4;
}

static void part_q8_0(const uint8_t *panel, uint32_t lane, uint32_t index,
                      struct kernels_part *part)
{
    const uint8_t *block = panel + (uint64_t)index * KERNELS_Q8_0_BYTES;
    *part = (struct kernels_part){.scale = kernels_half_at(block, lane), .columns = PART_COLUMNS};
    for (uint32_t k = 0; k < PART_COLUMNS; k++) {
        part->levels[k] = (int8_t)block[KERNELS_SCALES_BYTES + level_at(k, lane)];
    }
}

static void part_q4_0(const uint8_t *panel, uint32_t lane, uint32_t index,
                      struct kernels_part *part)
{
    const uint8_t *block = panel + (uint64_t)index * KERNELS_Q4_0_BYTES;
    *part = (struct kernels_part){.scale = kernels_half_at(block, lane), .columns = PART_COLUMNS};
    for (uint32_t k = 0; k < PART_COLUMNS; k++) {
        part->levels[k] = half_level(block + KERNELS_SCALES_BYTES, k, lane) - 8;
    }
}

static void part_q4_k(const uint8_t *panel, uint32_t lane, uint32_t index,
                      struct kernels_part *part)
{
    const uint8_t *block = panel + (uint64_t)(index / PARTS) * KERNELS_Q4_K_BYTES;
    const uint8_t *at = block + KERNELS_Q4_K_HEAD + index % PARTS * KERNELS_Q4_K_PART;
    *part = (struct kernels_part){
        .scale = kernels_half_at(block, lane) * at[lane],
        .low = kernels_half_at(block + KERNELS_SCALES_BYTES, lane) * at[LANES + lane],
        .columns = PART_COLUMNS,
    };
    for (uint32_t k = 0; k < PART_COLUMNS; k++) {
        part->levels[k] = half_level(at + KERNELS_SCALES_BYTES, k, lane);
    }
}

/* Part 2i is the first half of 32 columns; their bytes hold the low bits of both halves. */
static void part_q6_k(const uint8_t *panel, uint32_t lane, uint32_t index,
                      struct kernels_part *part)
{
    const uint8_t *block = panel + (uint64_t)(index / (2 * PARTS)) * KERNELS_Q6_K_BYTES;
    const uint8_t *at = block + KERNELS_Q6_K_HEAD + index % (2 * PARTS) / 2 * KERNELS_Q6_K_PART;
    const uint8_t *low = at + KERNELS_SCALES_BYTES;
    uint32_t half = index % 2;
    const uint8_t *high = low + (4 + half) * KERNELS_GROUP_BYTES;
    *part = (struct kernels_part){
        .scale = kernels_half_at(block, lane) * (int8_t)at[half * LANES + lane],
        .columns = PART_COLUMNS / 2,
    };
    for (uint32_t k = 0; k < PART_COLUMNS / 2; k++) {
        int32_t bits = high[level_at(k % 4, lane)] >> (k / 4 * 2) & 3;
        int32_t four = half_level(low, half * (PART_COLUMNS / 2) + k, lane);
        part->levels[k] = (four | bits << 4) - 32;
    }
}

/* ---- the table ---- */

const struct kernels_format *kernels_format(enum gguf_type type)
{
    static const struct kernels_format formats[] = {
        [GGUF_F32] = {1, LANES * 4, pack_f32, unpack_f32, NULL},
        [GGUF_F16] = {1, LANES * 2, pack_f16, unpack_f16, NULL},
        [GGUF_BF16] = {2, LANES * 4, pack_bf16, unpack_bf16, NULL},
        [GGUF_Q8_0] = {PART_COLUMNS, KERNELS_Q8_0_BYTES, pack_q8_0, NULL, part_q8_0},
        [GGUF_Q4_0] = {PART_COLUMNS, KERNELS_Q4_0_BYTES, pack_q4_0, NULL, part_q4_0},
        [GGUF_Q4_K] = {SUPER_COLUMNS, KERNELS_Q4_K_BYTES, pack_q4_k, NULL, part_q4_k},
        [GGUF_Q6_K] = {SUPER_COLUMNS, KERNELS_Q6_K_BYTES, pack_q6_k, NULL, part_q6_k},
    };
    ASSERT((uint32_t)type < sizeof formats / sizeof formats[0] && formats[type].pack != NULL);
    return &formats[type];
}
