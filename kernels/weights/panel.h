/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the layout of a panel: the weights of sixteen outputs, side by side, as blocks of columns.
 * All engines have quantised weights in it; the CPU engine has floats in it, too.
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
