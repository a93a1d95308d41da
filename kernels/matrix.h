/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a weight matrix as the kernels want it. The file holds it [out][in]; here sixteen outputs
 * lie side by side, so that a vector lane is an output and the sum over `in` runs down the panel:
 *
 *   panel p holds outputs 16p .. 16p+15; outputs past the end are zero weights
 *   F32    [in][16] float
 *   F16    [in][16] half
 *   Q8_0   [in / 32] of { [16] half scales, [32][16] int8 }
 *
 * Every type stands for exact float32 values (half scale times int8 fits 24 bits), so one contract
 * serves all: y[o] = the chain acc = fmaf(x[k], w[o][k], acc), k ascending, acc = 0 at the start.
 */
#include <stdbool.h>
#include <stdint.h>

#include "appliance/base/assert.h"
#include "config/gguf.h"

#define KERNELS_PANEL_LANES   16u       /* outputs of a panel: two AVX2 vectors */
#define KERNELS_Q8_COLUMNS    32u       /* columns that share a scale */
#define KERNELS_Q8_FILE_BYTES 34u       /* in the file: a half scale, then 32 int8 */
#define KERNELS_Q8_PANEL_BYTES \
    (KERNELS_PANEL_LANES * 2 + KERNELS_PANEL_LANES * KERNELS_Q8_COLUMNS)

struct kernels_matrix {
    enum gguf_type type;
    uint32_t outputs;           /* rows in the file */
    uint32_t columns;           /* length of a row: the `in` of the product */
    uint32_t panels_count;
    uint64_t panel_bytes;
    uint8_t *panels;            /* aligned to ARENA_ALIGN_BYTES */
};

/* Rounds up to whole panels: the width of every activation buffer. */
static inline uint32_t kernels_lanes_ceil(uint32_t count)
{
    return (count + KERNELS_PANEL_LANES - 1) / KERNELS_PANEL_LANES * KERNELS_PANEL_LANES;
}

/* Row stride of an activation buffer: an odd number of cache lines, so that the rows of a tile do
 * not fall into one cache set. */
static inline uint64_t kernels_stride_floats(uint32_t count)
{
    return kernels_lanes_ceil(count) | KERNELS_PANEL_LANES;
}

float kernels_half_to_float(uint16_t half);

/* Bytes that the panels take, a multiple of ARENA_ALIGN_BYTES. */
uint64_t kernels_matrix_bytes(enum gguf_type type, uint32_t outputs, uint32_t columns);
/* Describes the matrix that will lie at `panels` (zeroed: padding lanes stay zero). */
void kernels_matrix_init(struct kernels_matrix *matrix, enum gguf_type type, uint32_t outputs,
                         uint32_t columns, void *panels);
/* Packs `bytes` of the file's layout that start at byte `offset` of the tensor; both cut at whole
 * elements (F32, F16) or whole blocks (Q8_0). False: a weight or scale is not finite. */
MUST_CHECK bool kernels_matrix_pack(struct kernels_matrix *matrix, uint64_t offset,
                                    const uint8_t *piece, uint64_t bytes);
/* The weights of one output as floats: the embedding of a token. `row` gets `columns` floats. */
void kernels_matrix_row(const struct kernels_matrix *matrix, uint32_t output, float *row);
