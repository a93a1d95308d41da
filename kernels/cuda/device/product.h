/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the kernels of products (kernels.h: how to read this). A product on tensor cores has one
 * definition; kernels for few rows and for many compute it to the same bits.
 */
#include "kernels/cuda/device/record.h"
#include "kernels/weights/panel.h"

/* ---- floats, and types that differ ---- */

/* y[r][o] = chain over c ascending of fmaf(x[r][c], w[o][c], acc), acc = 0 at the start, as
 * kernels/ops.h defines it for weights that are floats. */
#define GPU_PRODUCT_TILE    16u         /* rows and outputs of a thread block */
#define GPU_PRODUCT_COLUMNS 32u         /* read at a time */
struct gpu_product {
    uint64_t x;                 /* x_type (rows, columns): F32, F16 or BF16 */
    uint64_t w;                 /* w_type (outputs, columns); levels: panels */
    uint64_t y;                 /* float (rows, outputs) */
    uint64_t round;             /* as in struct gpu_product_tiled */
    uint64_t x_stride, y_stride;
    uint32_t rows, outputs, columns, x_type, w_type;
};
static inline struct gpu_launch gpu_product_launch(const struct gpu_product *args)
{
    struct gpu_launch launch = gpu_launch(gpu_ceil(args->outputs, GPU_PRODUCT_TILE),
                                          gpu_ceil(args->rows, GPU_PRODUCT_TILE),
                                          GPU_PRODUCT_TILE * GPU_PRODUCT_TILE);
    launch.shared_bytes = 2 * GPU_PRODUCT_TILE * (GPU_PRODUCT_COLUMNS + 1) * sizeof(float);
    return launch;
}

/* ---- levels ---- */

/* A block of a panel of sixteen outputs (kernels/weights/panel.h): a head, and parts of 32 columns.
 * In bytes, but `parts`. */
struct gpu_panel {
    uint32_t head, part, parts, block;
};
static inline GPU_BOTH struct gpu_panel gpu_panel_of(uint32_t type)
{
    const struct gpu_panel q8_0 = {0, KERNELS_Q8_0_BYTES, 1, KERNELS_Q8_0_BYTES};
    const struct gpu_panel q4_0 = {0, KERNELS_Q4_0_BYTES, 1, KERNELS_Q4_0_BYTES};
    const struct gpu_panel q4_k = {KERNELS_Q4_K_HEAD, KERNELS_Q4_K_PART, 8, KERNELS_Q4_K_BYTES};
    const struct gpu_panel q6_k = {KERNELS_Q6_K_HEAD, KERNELS_Q6_K_PART, 8, KERNELS_Q6_K_BYTES};
    return type == GPU_Q8_0 ? q8_0 : type == GPU_Q4_0 ? q4_0 : type == GPU_Q4_K ? q4_k : q6_k;
}

/* ---- on tensor cores ---- */

/* The factors are halves. A weight that is a level becomes scale * level - low, rounded once, where
 * scale and low are those of the CPU engine (kernels/weights/format.h) as halves: of Q8_0 and Q4_0
 * exactly, of Q4_K and Q6_K rounded. A product by levels is the product by the matrix of those
 * halves, but for the order within an instruction. Embeddings are rows of the same matrix.
 *
 * The columns of a matrix are cut into segments, by the matrix's shape alone: as many as make
 * GPU_PRODUCT_BLOCKS pieces of 64 outputs and one segment, but no segment below 256 columns. Whole
 * chunks are a segment; zeros follow the last column up to the end of its chunk. Then
 *
 *   segment   the tensor core's mma.m16n8k16 over ascending columns, 16 at a time; its sums are
 *             floats and begin at zero (gpu_mma() of mma.h)
 *   y[r][o]   zero, plus the sums of the segments in ascending order
 *
 * Nothing here depends on the number of rows, the kernel, the launch or the chip's size. That an
 * instruction's sum for one row does not depend on its other rows is tried at boot (product.c). */
#define GPU_CHUNK_COLUMNS      64u      /* 128 bytes of a row: read at a time */
#define GPU_SEGMENT_CHUNKS_MIN 4u
#define GPU_PRODUCT_BLOCKS     512u     /* some for each multiprocessor of the largest chips */
#define GPU_PRODUCT_OUTPUTS    64u      /* of such a piece */

static inline GPU_BOTH uint32_t gpu_segment_chunks(uint32_t outputs, uint32_t columns)
{
    uint32_t pieces = gpu_ceil(outputs, GPU_PRODUCT_OUTPUTS);
    uint32_t chunks = gpu_ceil(gpu_ceil(columns, GPU_CHUNK_COLUMNS),
                               gpu_ceil(GPU_PRODUCT_BLOCKS, pieces));
    return chunks > GPU_SEGMENT_CHUNKS_MIN ? chunks : GPU_SEGMENT_CHUNKS_MIN;
}

static inline GPU_BOTH uint32_t gpu_segments(uint32_t outputs, uint32_t columns)
{
    return gpu_ceil(gpu_ceil(columns, GPU_CHUNK_COLUMNS), gpu_segment_chunks(outputs, columns));
}

/* What a chunk of `outputs` weights takes in shared memory; with `rows` of the input, a stage. */
static inline GPU_BOTH uint32_t gpu_chunk_bytes(uint32_t type, uint32_t outputs)
{
    const struct gpu_panel panel = gpu_panel_of(type);
    return gpu_has_levels(type) ? outputs / KERNELS_PANEL_LANES * (panel.head + 2 * panel.part)
                                : outputs * GPU_CHUNK_COLUMNS * 2;
}
static inline GPU_BOTH uint32_t gpu_stage_bytes(uint32_t type, uint32_t outputs, uint32_t rows)
{
    return gpu_chunk_bytes(type, outputs) + rows * GPU_CHUNK_COLUMNS * 2;
}

/* grid: tiles of rows, tiles of outputs, and 1 or the number of segments. With 1 a thread block
 * walks the segments; else it has one, and the last of a tile to end adds their sums. */
struct gpu_product_tiled {
    uint64_t x;                 /* (rows, columns): `type`; if that is levels F16, rows at multiples
                                   of 16 bytes */
    uint64_t w;                 /* type (outputs, columns); levels: panels */
    uint64_t y;                 /* float (rows, outputs) */
    uint64_t partials;          /* GPU_PARTIALS_BYTES: sums of segments */
    uint64_t tickets;           /* uint32_t (GPU_PRODUCT_BLOCKS): zeros, before and after */
    uint64_t round;             /* struct gpu_round: a step that has ended has no product; or
                                   0: it belongs to none */
    uint64_t x_stride, y_stride;
    uint32_t rows, outputs, columns;
    uint32_t type;              /* of the weights: no F32 */
};
#define GPU_PARTIALS_BYTES (32u << 20)

/* The grid of a product in tiles, of which `enough` fill a chip without the segments. */
static inline void gpu_product_grid(struct gpu_launch *launch, const struct gpu_product_tiled *p,
                                    uint32_t tile_rows, uint32_t tile_outputs, uint32_t enough)
{
    uint32_t *grid = launch->grid;
    grid[0] = gpu_ceil(p->rows, tile_rows);
    grid[1] = gpu_ceil(p->outputs, tile_outputs);
    uint64_t tiles = (uint64_t)grid[0] * grid[1], segments = gpu_segments(p->outputs, p->columns);
    uint64_t bytes = tiles * segments * tile_rows * tile_outputs * sizeof(float);
    grid[2] = tiles < enough && bytes <= GPU_PARTIALS_BYTES ? (uint32_t)segments : 1;
}

/* For 1 to 64 rows, in a tile of 8, 16, 32 or 64, and of 64 outputs; by levels, below 64 rows, of
 * 128: what is done for a row is done for more of them. Waits for the weights, each read once. */
#define GPU_FEW_ROWS   64u
#define GPU_FEW_STAGES 4u               /* chunks in flight */
struct gpu_product_few {                /* halves */
    struct gpu_product_tiled product;
};
struct gpu_product_few_levels {
    struct gpu_product_tiled product;
};
static inline GPU_BOTH uint32_t gpu_few_rows(uint32_t rows)
{
    return rows <= 8 ? 8 : rows <= 16 ? 16 : rows <= 32 ? 32 : GPU_FEW_ROWS;
}
static inline GPU_BOTH uint32_t gpu_few_outputs(uint32_t type, uint32_t tile_rows)
{
    return gpu_has_levels(type) && tile_rows < GPU_FEW_ROWS ? 2 * GPU_PRODUCT_OUTPUTS
                                                            : GPU_PRODUCT_OUTPUTS;
}
static inline struct gpu_launch gpu_few_launch(const struct gpu_product_tiled *p)
{
    struct gpu_launch launch = gpu_launch(1, 1, 128);
    uint32_t rows = gpu_few_rows(p->rows), outputs = gpu_few_outputs(p->type, rows);
    gpu_product_grid(&launch, p, rows, outputs, GPU_PRODUCT_BLOCKS);
    launch.shared_bytes = GPU_FEW_STAGES * gpu_stage_bytes(p->type, outputs, rows);
    return launch;
}
static inline struct gpu_launch gpu_product_few_launch(const struct gpu_product_few *args)
{
    return gpu_few_launch(&args->product);
}
static inline struct gpu_launch
gpu_product_few_levels_launch(const struct gpu_product_few_levels *args)
{
    return gpu_few_launch(&args->product);
}

/* For any number of rows, in tiles of 128 rows and 128 outputs. At most 96 KiB of shared memory,
 * which every chip that has mma.m16n8k16 gives. */
#define GPU_MANY_TILE   128u
#define GPU_MANY_STAGES 3u
#define GPU_MANY_ENOUGH 96u             /* tiles; each takes a multiprocessor */
struct gpu_product_many {               /* halves */
    struct gpu_product_tiled product;
};
struct gpu_product_many_levels {
    struct gpu_product_tiled product;
};
static inline struct gpu_launch gpu_many_launch(const struct gpu_product_tiled *p)
{
    struct gpu_launch launch = gpu_launch(1, 1, 256);
    gpu_product_grid(&launch, p, GPU_MANY_TILE, GPU_MANY_TILE, GPU_MANY_ENOUGH);
    launch.shared_bytes = GPU_MANY_STAGES * gpu_stage_bytes(p->type, GPU_MANY_TILE, GPU_MANY_TILE);
    return launch;
}
static inline struct gpu_launch gpu_product_many_launch(const struct gpu_product_many *args)
{
    return gpu_many_launch(&args->product);
}
static inline struct gpu_launch
gpu_product_many_levels_launch(const struct gpu_product_many_levels *args)
{
    return gpu_many_launch(&args->product);
}
