/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a weight matrix in the layout of the kernels. The file holds it [out][in]; here sixteen
 * outputs lie side by side, so that a vector lane is an output and the sum over `in` runs down the
 * panel:
 *
 *   panel p holds outputs 16p .. 16p+15, as blocks of columns (panel.h); outputs past the end are
 *   zero bytes, and their results are never read
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/assert.h"
#include "config/model/gguf.h"
#include "kernels/weights/format.h"

struct kernels_matrix {
    enum gguf_type type;        /* of the panels */
    enum gguf_type file_type;   /* the same; or F32 or F16, rounded to BF16 as it is packed */
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

/* The row stride of an activation buffer: an odd number of cache lines, so that the rows of a tile
 * do not fall into one cache set. */
static inline uint64_t kernels_stride_floats(uint32_t count)
{
    return kernels_lanes_ceil(count) | KERNELS_PANEL_LANES;
}

/* Bytes of the first `columns` columns of a panel. */
uint64_t kernels_columns_bytes(enum gguf_type type, uint32_t columns);
/* Bytes that the panels take, a multiple of ARENA_ALIGN_BYTES. */
uint64_t kernels_matrix_bytes(enum gguf_type type, uint32_t outputs, uint32_t columns);
/* Describes the matrix that will lie at `panels`, which are zeroed: padding lanes stay zero. The
 * type of the file is the same, unless the caller sets `file_type`. */
void kernels_matrix_init(struct kernels_matrix *matrix, enum gguf_type type, uint32_t outputs,
                         uint32_t columns, void *panels);
/* Packs `bytes` of the file's layout that start at byte `offset` of the tensor; both are multiples
 * of a quantisation block. False: a weight or scale is not finite. */
MUST_CHECK bool kernels_matrix_pack(struct kernels_matrix *matrix, uint64_t offset,
                                    const uint8_t *piece, uint64_t bytes);
/* The weights of one output as floats: the embedding of a token. `row` gets `columns` floats. */
void kernels_matrix_row(const struct kernels_matrix *matrix, uint32_t output, float *row);
