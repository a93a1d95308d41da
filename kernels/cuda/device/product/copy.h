/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: chunks of 64 columns on their way to shared memory: those of rows of halves, and those of
 * panels of levels. Whole lines of 128 bytes are read: eight lanes copy one chunk of a row.
 *
 * In shared memory a chunk of a row has eight pieces of 16 bytes. Piece p of row r lies at p turned
 * by a number of r, so that what a warp reads at a time lies in different banks:
 *
 *   halves    p ^ r % 8: a piece of each of eight rows, for gpu_load_matrices()
 *   levels    p ^ r % 4 * 2: two neighbouring pieces of each of four rows, 8 bytes for each lane
 */
#include "kernels/cuda/device/mma.h"
#include "kernels/cuda/device/product/shape.h"
#include "kernels/weights/panel.h"

#define CHUNK_BYTES  (GPU_CHUNK_COLUMNS * 2)
#define PIECES       8u                 /* of a chunk */
#define PIECE_HALVES 8u

/* ---- rows of halves ---- */

/* Rows of a matrix from the first one of the tile on. A CUDA thread copies pieces of one number, of
 * every (threads / PIECES)th row from its own first row on. */
struct source {
    const uint16_t *at;
    const uint16_t *own;        /* its first piece, of chunk 0 */
    uint64_t stride;
    uint32_t rows, columns;
    uint32_t own_rows;          /* rows from its first one on; 0: there is none */
    bool is_aligned;            /* pieces are multiples of 16 bytes, at such addresses */
};

/* `first` is below `rows`. */
GPU_INLINE struct source source_of(uint64_t at, uint64_t stride, uint32_t first, uint32_t rows,
                                   uint32_t columns)
{
    const uint16_t *tile = (const uint16_t *)at + first * stride;
    uint32_t row = threadIdx.x / PIECES, piece = threadIdx.x % PIECES, left = rows - first;
    const struct source source = {tile, tile + row * stride + piece * PIECE_HALVES, stride, left,
                                  columns, row < left ? left - row : 0,
                                  (at | stride * 2 | columns * 2) % 16 == 0};
    return source;
}

GPU_INLINE unsigned char *piece_at(unsigned char *tile, uint32_t row, uint32_t piece,
                                   struct shape s)
{
    uint32_t turn = gpu_has_levels(s.type) ? row % (PIECES / 2) * 2 : row % PIECES;
    return tile + row * CHUNK_BYTES + (piece ^ turn) * 16;
}

/* Begins to copy a chunk of `rows` rows; zeros past the ends of the matrix. */
GPU_INLINE void chunk_copy(unsigned char *tile, const struct source *from, uint32_t rows,
                           uint32_t chunk, struct shape s)
{
    uint32_t piece = threadIdx.x % PIECES, row = threadIdx.x / PIECES;
    uint32_t column = chunk * GPU_CHUNK_COLUMNS;
    uint32_t own_rows = column + piece * PIECE_HALVES < from->columns ? from->own_rows : 0;
    const uint16_t *own = from->own + column;
    GPU_UNROLL
    for (uint32_t first = 0; first < rows; first += s.threads / PIECES) {
        bool is_there = first < own_rows;
        if (first + row < rows) {
            gpu_copy_begin(piece_at(tile, first + row, piece, s), is_there ? own : from->at,
                           is_there ? 16 : 0);
        }
        own += s.threads / PIECES * from->stride;
    }
}

/* The same, number by number: where rows or columns do not suit copies of 16 bytes. Few models have
 * such shapes, so this is short and not fast. */
GPU_INLINE void chunk_gather(unsigned char *tile, const struct source *from, uint32_t rows,
                             uint32_t chunk, struct shape s)
{
    GPU_ROLLED
    for (uint32_t i = threadIdx.x; i < rows * GPU_CHUNK_COLUMNS; i += s.threads) {
        uint32_t row = i / GPU_CHUNK_COLUMNS, at = i % GPU_CHUNK_COLUMNS;
        uint32_t column = chunk * GPU_CHUNK_COLUMNS + at;
        uint16_t *to = (uint16_t *)piece_at(tile, row, at / PIECE_HALVES, s);
        to[at % PIECE_HALVES] = row < from->rows && column < from->columns
                                    ? from->at[row * from->stride + column]
                                    : (uint16_t)0;
    }
}

GPU_INLINE void chunk_fetch(unsigned char *tile, const struct source *from, uint32_t rows,
                            uint32_t chunk, struct shape s)
{
    if (from->is_aligned) {
        chunk_copy(tile, from, rows, chunk, s);
    } else {
        chunk_gather(tile, from, rows, chunk, s);
    }
}

/* ---- panels ---- */

/* The panels of the tile that a warp copies: as many as the outputs are to the threads. */
struct panels {
    const uint8_t *own;         /* of the first one's first block; this lane's first piece */
    uint64_t stride;
    uint32_t count, parts;      /* panels from that one on; parts of a panel */
};

GPU_INLINE struct panels panels_of(const struct gpu_product_tiled *p, uint32_t output,
                                   struct shape s)
{
    const struct gpu_panel panel = gpu_panel_of(s.type);
    uint32_t parts = p->columns / KERNELS_QUANT_COLUMNS, of_warp = s.outputs * 2 / s.threads;
    uint32_t first = output / KERNELS_PANEL_LANES + threadIdx.x / GPU_WARP * of_warp;
    uint32_t all = gpu_ceil(p->outputs, KERNELS_PANEL_LANES);
    uint64_t stride = (uint64_t)(parts / panel.parts) * panel.block;
    const struct panels panels = {
        (const uint8_t *)p->w + (first < all ? first : 0) * stride + threadIdx.x % GPU_WARP * 16,
        stride, first < all ? all - first : 0, parts};
    return panels;
}

/* Begins to copy a chunk: of each panel its block's head, and two parts, which lie together; zeros
 * past the ends of the matrix. */
GPU_INLINE void panels_copy(unsigned char *tile, const struct panels *from, uint32_t chunk,
                            struct shape s)
{
    const struct gpu_panel panel = gpu_panel_of(s.type);
    uint32_t first = chunk * 2, lane = threadIdx.x % GPU_WARP, of_warp = s.outputs * 2 / s.threads;
    uint32_t heads = panel.head / 16, of_part = panel.part / 16, all = heads + 2 * of_part;
    uint32_t there = first + 1 < from->parts ? all : heads + of_part;
    const uint8_t *head = from->own + (uint64_t)(first / panel.parts) * panel.block;
    const uint8_t *part = head + first % panel.parts * panel.part;
    unsigned char *to = tile + threadIdx.x / GPU_WARP * of_warp * all * 16 + lane * 16;
    GPU_UNROLL
    for (uint32_t of = 0; of < of_warp; of++) {
        GPU_UNROLL
        for (uint32_t i = 0; i < all; i += GPU_WARP) {
            if (i + lane < all) {
                bool is_there = of < from->count && i + lane < there;
                const uint8_t *at = (i + lane < heads ? head : part) + of * from->stride + i * 16;
                gpu_copy_begin(to + (of * all + i) * 16, is_there ? at : from->own,
                               is_there ? 16 : 0);
            }
        }
    }
}
