/* SPDX-License-Identifier: MIT */
/*
 * What: products of halves on tensor cores, as product.h defines them. A thread block computes a
 * tile of outputs and rows. Chunks of 64 columns of both matrices pass through shared memory, some
 * of them in flight; a warp multiplies its part of the tile. Each weight is read once for all rows
 * of the tile, by loads of whole 128-byte lines: eight lanes copy one chunk of a row.
 *
 * In shared memory a chunk of a row has eight pieces of 16 bytes, and piece p of row r lies at p ^
 * r % 8. So eight rows of one piece lie in different banks, and so do eight pieces of one row.
 */
#include "kernels/cuda/device/mma.h"
#include "kernels/cuda/device/number.h"
#include "kernels/cuda/device/step.h"
#include "kernels/cuda/device/wide.h"

#define CHUNK_BYTES  (GPU_CHUNK_COLUMNS * 2)
#define PIECES       8u                 /* of a chunk */
#define PIECE_HALVES 8u
#define M_MAX        2u
#define N_MAX        8u

/* The tile of a thread block; constants once a kernel is compiled. A warp has m times 16 outputs
 * and n times 8 rows. */
struct shape {
    uint32_t outputs, rows;
    uint32_t m, n, warps_outputs, threads, stages;
    bool is_bfloat;
};

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

/* Some of the chunks of a tile, which a thread block goes through. */
struct walk {
    struct source w, x;
    uint32_t chunk, end, segment_chunks;
};

struct sums {
    float at[M_MAX][N_MAX][4];
};

/* ---- to shared memory ---- */

GPU_INLINE unsigned char *piece_at(unsigned char *tile, uint32_t row, uint32_t piece)
{
    return tile + row * CHUNK_BYTES + (piece ^ row % PIECES) * 16;
}

/* Begins to copy a chunk of `rows` rows; zeros past the ends of the matrix. */
GPU_INLINE void chunk_copy(unsigned char *tile, const struct source *from, uint32_t rows,
                           uint32_t chunk, uint32_t threads)
{
    uint32_t piece = threadIdx.x % PIECES, row = threadIdx.x / PIECES;
    uint32_t column = chunk * GPU_CHUNK_COLUMNS;
    uint32_t own_rows = column + piece * PIECE_HALVES < from->columns ? from->own_rows : 0;
    const uint16_t *own = from->own + column;
    GPU_UNROLL
    for (uint32_t first = 0; first < rows; first += threads / PIECES) {
        bool is_there = first < own_rows;
        if (first + row < rows) {
            gpu_copy_begin(piece_at(tile, first + row, piece), is_there ? own : from->at,
                           is_there ? 16 : 0);
        }
        own += threads / PIECES * from->stride;
    }
}

/* The same, number by number: where rows or columns do not suit copies of 16 bytes. Few models have
 * such shapes, so this is short and not fast. */
GPU_INLINE void chunk_gather(unsigned char *tile, const struct source *from, uint32_t rows,
                             uint32_t chunk, uint32_t threads)
{
    GPU_ROLLED
    for (uint32_t i = threadIdx.x; i < rows * GPU_CHUNK_COLUMNS; i += threads) {
        uint32_t row = i / GPU_CHUNK_COLUMNS, at = i % GPU_CHUNK_COLUMNS;
        uint32_t column = chunk * GPU_CHUNK_COLUMNS + at;
        uint16_t *to = (uint16_t *)piece_at(tile, row, at / PIECE_HALVES);
        to[at % PIECE_HALVES] = row < from->rows && column < from->columns
                                    ? from->at[row * from->stride + column]
                                    : (uint16_t)0;
    }
}

GPU_INLINE void chunk_fetch(unsigned char *tile, const struct source *from, uint32_t rows,
                            uint32_t chunk, uint32_t threads)
{
    if (from->is_aligned) {
        chunk_copy(tile, from, rows, chunk, threads);
    } else {
        chunk_gather(tile, from, rows, chunk, threads);
    }
}

GPU_INLINE unsigned char *stage_at(uint32_t chunk, struct shape s)
{
    return gpu_shared + chunk % s.stages * (s.outputs + s.rows) * CHUNK_BYTES;
}

/* A group of copies each time, after the last chunk an empty one. */
GPU_INLINE void stage_fetch(const struct walk *walk, uint32_t chunk, struct shape s)
{
    unsigned char *stage = stage_at(chunk, s);
    if (chunk < walk->end) {
        chunk_fetch(stage, &walk->w, s.outputs, chunk, s.threads);
        chunk_fetch(stage + s.outputs * CHUNK_BYTES, &walk->x, s.rows, chunk, s.threads);
    }
    gpu_copies_close();
}

/* ---- sums ---- */

/* Where the part of a warp begins in the tile. */
GPU_INLINE uint32_t warp_output(struct shape s)
{
    return threadIdx.x / GPU_WARP % s.warps_outputs * s.m * 16;
}

GPU_INLINE uint32_t warp_row(struct shape s)
{
    return threadIdx.x / GPU_WARP / s.warps_outputs * s.n * 8;
}

/* Columns 32 * half .. 32 * half + 31 of a chunk. */
GPU_INLINE void half_multiply(struct sums *sums, unsigned char *stage, uint32_t half,
                              struct shape s)
{
    unsigned char *x = stage + s.outputs * CHUNK_BYTES;
    uint32_t a[M_MAX][2][4], b[4], lane = threadIdx.x % GPU_WARP, piece = half * 4;
    GPU_UNROLL
    for (uint32_t i = 0; i < 2 * s.m; i++) {
        gpu_load_matrices(a[i / 2][i % 2], piece_at(stage, warp_output(s) + i / 2 * 16 + lane % 16,
                                                    piece + i % 2 * 2 + lane / 16));
    }
    GPU_UNROLL
    for (uint32_t j = 0; j < s.n; j++) {
        gpu_load_matrices(b, piece_at(x, warp_row(s) + j * 8 + lane % 8, piece + lane / 8));
        GPU_UNROLL
        for (uint32_t i = 0; i < 2 * s.m; i++) {
            float *d = sums->at[i % s.m][j];
            const uint32_t *a_i = a[i % s.m][i / s.m], *b_i = b + i / s.m * 2;
            if (s.is_bfloat) {
                gpu_mma_bf16(d, a_i, b_i);
            } else {
                gpu_mma_f16(d, a_i, b_i);
            }
        }
    }
}

/* Adds the sums of a segment to the totals, and begins with the next segment. */
GPU_INLINE void segment_end(struct sums *totals, struct sums *sums, struct shape s)
{
    GPU_UNROLL
    for (uint32_t i = 0; i < s.m * s.n * 4; i++) {
        float *sum = &sums->at[i / 4 / s.n][i / 4 % s.n][i % 4];
        totals->at[i / 4 / s.n][i / 4 % s.n][i % 4] += *sum;
        *sum = 0.0f;
    }
}

GPU_INLINE void walk_through(struct sums *totals, struct walk *walk, struct shape s)
{
    struct sums sums = {{{{0.0f}}}};
    uint32_t left = walk->segment_chunks;
    GPU_UNROLL
    for (uint32_t i = 0; i + 1 < s.stages; i++) {
        stage_fetch(walk, walk->chunk + i, s);
    }
    for (; walk->chunk < walk->end; walk->chunk++) {
        gpu_copies_wait(s.stages - 2);
        __syncthreads();                /* all copies are here, and the oldest stage is free */
        stage_fetch(walk, walk->chunk + s.stages - 1, s);
        half_multiply(&sums, stage_at(walk->chunk, s), 0, s);
        half_multiply(&sums, stage_at(walk->chunk, s), 1, s);
        if (--left == 0 || walk->chunk + 1 == walk->end) {
            segment_end(totals, &sums, s);
            left = walk->segment_chunks;
        }
    }
}

/* ---- from segments to numbers ---- */

/* Where this CUDA thread keeps its fragments of one segment, each moved as a whole. */
GPU_INLINE float *partial_at(const struct gpu_product_halves *p, uint32_t segment, struct shape s)
{
    uint64_t tile = (uint64_t)blockIdx.y * gridDim.x + blockIdx.x;
    uint64_t fragments = (tile * gridDim.z + segment) * s.m * s.n;
    return (float *)p->partials + (fragments * s.threads + threadIdx.x) * GPU_FOUR;
}

GPU_INLINE void partial_write(const struct gpu_product_halves *p, const struct sums *sums,
                              struct shape s)
{
    float *to = partial_at(p, blockIdx.z, s);
    GPU_UNROLL
    for (uint32_t i = 0; i < s.m * s.n; i++) {
        gpu_four_store(to + i * s.threads * GPU_FOUR, sums->at[i / s.n][i % s.n]);
    }
}

GPU_INLINE void partials_add(const struct gpu_product_halves *p, struct sums *totals,
                             struct shape s)
{
    *totals = (struct sums){{{{0.0f}}}};
    for (uint32_t segment = 0; segment < gridDim.z; segment++) {
        const float *from = partial_at(p, segment, s);
        GPU_UNROLL
        for (uint32_t i = 0; i < s.m * s.n; i++) {
            float four[GPU_FOUR];
            gpu_four_load(from + i * s.threads * GPU_FOUR, four);
            GPU_UNROLL
            for (uint32_t e = 0; e < GPU_FOUR; e++) {
                totals->at[i / s.n][i % s.n][e] += four[e];
            }
        }
    }
}

/* True for the last thread block of a tile, which sees what all others of it have written. */
GPU_INLINE bool is_last_of_tile(const struct gpu_product_halves *p)
{
    uint32_t *ticket = (uint32_t *)p->tickets + blockIdx.y * gridDim.x + blockIdx.x;
    uint32_t *drawn = (uint32_t *)gpu_shared;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        *drawn = atomicAdd(ticket, 1u);
    }
    __syncthreads();
    if (*drawn + 1 < gridDim.z) {
        return false;
    }
    if (threadIdx.x == 0) {
        atomicAdd(ticket, 0u - gridDim.z);      /* back to 0, for the next product */
    }
    __threadfence();
    return true;
}

GPU_INLINE void totals_store(const struct gpu_product_halves *p, const struct sums *totals,
                             struct shape s)
{
    uint32_t lane = threadIdx.x % GPU_WARP;
    uint32_t output_first = blockIdx.y * s.outputs + warp_output(s) + lane / 4;
    uint32_t row_first = blockIdx.x * s.rows + warp_row(s) + lane % 4 * 2;
    GPU_UNROLL
    for (uint32_t i = 0; i < s.m * s.n * 4; i++) {
        uint32_t output = output_first + i / 4 / s.n * 16 + i % 4 / 2 * 8;
        uint32_t row = row_first + i / 4 % s.n * 8 + i % 2;
        if (row < p->rows && output < p->outputs) {
            ((float *)p->y)[row * p->y_stride + output] =
                totals->at[i / 4 / s.n][i / 4 % s.n][i % 4];
        }
    }
}

/* ---- a thread block ---- */

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

GPU_INLINE struct walk walk_of(const struct gpu_product_halves *p, struct shape s)
{
    uint32_t chunks = gpu_ceil(p->columns, GPU_CHUNK_COLUMNS);
    uint32_t each = gpu_segment_chunks(p->outputs, p->columns);
    const struct walk walk = {
        source_of(p->w, p->columns, blockIdx.y * s.outputs, p->outputs, p->columns),
        source_of(p->x, p->x_stride, blockIdx.x * s.rows, p->rows, p->columns),
        blockIdx.z * each,
        gridDim.z == 1 ? chunks : gpu_smaller(blockIdx.z * each + each, chunks),
        each,
    };
    return walk;
}

GPU_INLINE void tile_multiply(const struct gpu_product_halves *p, struct shape s)
{
    struct walk walk = walk_of(p, s);
    struct sums totals = {{{{0.0f}}}};
    walk_through(&totals, &walk, s);
    if (gridDim.z > 1) {
        partial_write(p, &totals, s);
        if (!is_last_of_tile(p)) {
            return;
        }
        partials_add(p, &totals, s);
    }
    totals_store(p, &totals, s);
}

GPU_INLINE void tile_multiply_typed(const struct gpu_product_halves *p, struct shape s)
{
    if (p->type == GPU_BF16) {
        s.is_bfloat = true;
        tile_multiply(p, s);
    } else {
        s.is_bfloat = false;
        tile_multiply(p, s);
    }
}

#define FEW(rows, m, n, warps) {GPU_PRODUCT_OUTPUTS, rows, m, n, warps, 128, GPU_FEW_STAGES, false}

GPU_KERNEL(product_few)
{
    if (gpu_step_has_ended(args.product.round)) {
        return;
    }
    switch (gpu_few_rows(args.product.rows)) {
    case 8: {
        const struct shape shape = FEW(8, 1, 1, 4);
        tile_multiply_typed(&args.product, shape);
        break;
    }
    case 16: {
        const struct shape shape = FEW(16, 1, 2, 4);
        tile_multiply_typed(&args.product, shape);
        break;
    }
    case 32: {
        const struct shape shape = FEW(32, 1, 4, 4);
        tile_multiply_typed(&args.product, shape);
        break;
    }
    default: {
        const struct shape shape = FEW(GPU_FEW_ROWS, 2, 4, 2);
        tile_multiply_typed(&args.product, shape);
        break;
    }
    }
}

GPU_KERNEL(product_many)
{
    if (gpu_step_has_ended(args.product.round)) {
        return;
    }
    const struct shape shape = {GPU_MANY_TILE, GPU_MANY_TILE, 2, 8, 4, 256, GPU_MANY_STAGES, false};
    tile_multiply_typed(&args.product, shape);
}
