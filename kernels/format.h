/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the formats of weights: the layout of a quantisation block of columns in the file, for one
 * output, and in a panel, for sixteen outputs. The table in format.c has a row for each format.
 *
 *   block of a panel, in columns and bytes; [16] is always the sixteen outputs, side by side
 *   F32     1  [16] float
 *   F16     1  [16] half
 *   BF16    2  [16][2] bfloat: a pair of columns, which one instruction multiplies; zeros follow an
 *              odd last column. A bfloat below 2^-126 is a zero, because it is to that instruction
 *   Q8_0   32  [16] half scale, [8][16][4] int8 level
 *   Q4_0   32  [16] half scale, [4][16][4] two levels + 8
 *   Q4_K  256  [16] half scale, [16] half scale of minima,
 *              8 times: [16] scale, [16] minimum, [4][16][4] two levels
 *   Q6_K  256  [16] half scale, 8 times: [2][16] int8 scale, [4][16][4] two times the low four bits
 *              of a level + 32, [2][16][4] four times the high two bits
 *
 * Levels are the integers of a quantised weight. They lie in groups of four columns:
 * [group][16 outputs][4 columns] bytes, so that 32 bytes are four columns of eight outputs, which
 * one multiply-add of bytes takes together. If a byte holds two levels, its low half belongs to
 * group g and its high half to group g + 4; if it holds four times two bits, they belong to groups
 * g .. g + 3.
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/model/gguf.h"

#define KERNELS_PANEL_LANES   16u       /* outputs of a panel: a vector of AVX-512, two of AVX2 */
#define KERNELS_QUANT_COLUMNS 32u       /* columns of a part, which has its own scale; Q6_K: two */
#define KERNELS_SUPER_COLUMNS 256u      /* columns of a quantisation block of Q4_K and Q6_K */
#define KERNELS_GROUP_BYTES   (KERNELS_PANEL_LANES * 4)     /* four columns, a byte each */
#define KERNELS_SCALES_BYTES  (KERNELS_PANEL_LANES * 2)     /* halves, or two rows of bytes */

#define KERNELS_Q8_0_BYTES     (KERNELS_SCALES_BYTES + 8 * KERNELS_GROUP_BYTES)
#define KERNELS_Q4_0_BYTES     (KERNELS_SCALES_BYTES + 4 * KERNELS_GROUP_BYTES)
#define KERNELS_Q4_K_HEAD      (2 * KERNELS_SCALES_BYTES)
#define KERNELS_Q4_K_PART      (KERNELS_SCALES_BYTES + 4 * KERNELS_GROUP_BYTES)
#define KERNELS_Q4_K_BYTES     (KERNELS_Q4_K_HEAD + 8 * KERNELS_Q4_K_PART)
#define KERNELS_Q6_K_HEAD      KERNELS_SCALES_BYTES
#define KERNELS_Q6_K_PART      (KERNELS_SCALES_BYTES + 6 * KERNELS_GROUP_BYTES)
#define KERNELS_Q6_K_BYTES     (KERNELS_Q6_K_HEAD + 8 * KERNELS_Q6_K_PART)

/* A part: columns of one output that share a scale. A weight is scale * level - low. */
struct kernels_part {
    float scale, low;           /* low is 0, except in Q4_K */
    uint32_t columns;           /* 32; in Q6_K 16 */
    int32_t levels[KERNELS_QUANT_COLUMNS];
};

struct kernels_format {
    uint32_t panel_columns;     /* of a block of a panel */
    uint32_t panel_bytes;       /* of such a block of sixteen outputs */
    /* Puts `blocks` quantisation blocks of one output into its lane of a panel, from block `first`
     * on. False: a weight or a scale is not finite. */
    bool (*pack)(uint8_t *panel, uint64_t first, uint32_t lane, const uint8_t *file,
                 uint64_t blocks);
    /* The weights of a lane as floats. NULL: they are integers, in parts. */
    void (*unpack)(const uint8_t *panel, uint32_t lane, float *weights, uint64_t columns);
    /* Part `index` of a lane, counted from the start of the panel. NULL: weights are floats. */
    void (*part)(const uint8_t *panel, uint32_t lane, uint32_t index, struct kernels_part *part);
};
const struct kernels_format *kernels_format(enum gguf_type type);

/* True when weights are integers, and so their products (kernels/ops.h). */
static inline bool kernels_has_levels(enum gguf_type type)
{
    return kernels_format(type)->part != NULL;
}

float kernels_half_to_float(uint16_t half);

/* Element `lane` of a row of sixteen halves, as it lies in a panel. */
static inline float kernels_half_at(const uint8_t *halves, uint32_t lane)
{
    return kernels_half_to_float((uint16_t)(halves[lane * 2] | halves[lane * 2 + 1] << 8));
}
