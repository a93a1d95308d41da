/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: products on tensor cores, as product.h defines them. A thread block computes a tile of
 * outputs and rows. Chunks of 64 columns of both matrices pass through shared memory, some of them
 * in flight; a warp multiplies its part of the tile. Each weight is read once for all rows of the
 * tile.
 */
#include "kernels/cuda/device/product/fragments.h"
#include "kernels/cuda/device/product/sums.h"
#include "kernels/cuda/device/step.h"

/* Some of the chunks of a tile, which a thread block goes through. */
struct walk {
    struct source w, x;
    struct panels panels;       /* instead of w, of weights that are levels */
    uint32_t chunk, end, segment_chunks;
};

/* ---- chunks ---- */

GPU_INLINE unsigned char *stage_at(uint32_t chunk, struct shape s)
{
    return gpu_shared + chunk % s.stages * gpu_stage_bytes(s.type, s.outputs, s.rows);
}

/* A group of copies each time, after the last chunk an empty one. */
GPU_INLINE void stage_fetch(const struct walk *walk, uint32_t chunk, struct shape s)
{
    unsigned char *stage = stage_at(chunk, s);
    if (chunk < walk->end) {
        unsigned char *x = stage + gpu_chunk_bytes(s.type, s.outputs);
        if (gpu_has_levels(s.type)) {
            panels_copy(stage, &walk->panels, chunk, s);
            chunk_copy(x, &walk->x, s.rows, chunk, s);
        } else {
            chunk_fetch(stage, &walk->w, s.outputs, chunk, s);
            chunk_fetch(x, &walk->x, s.rows, chunk, s);
        }
    }
    gpu_copies_close();
}

/* Part 0 or 1 of a chunk. */
GPU_INLINE void part_multiply(struct sums *sums, unsigned char *stage, uint32_t part,
                              struct shape s)
{
    unsigned char *x = stage + gpu_chunk_bytes(s.type, s.outputs);
    struct outputs outputs[M_MAX];
    struct inputs inputs;
    GPU_UNROLL
    for (uint32_t i = 0; i < s.m; i++) {
        outputs_load(&outputs[i], stage, warp_output(s) + i * 16, part, s);
    }
    GPU_UNROLL
    for (uint32_t j = 0; j < s.n; j++) {
        inputs_load(&inputs, x, warp_row(s) + j * 8, part, s);
        GPU_UNROLL
        for (uint32_t i = 0; i < 2 * s.m; i++) {
            fragments_multiply(sums->at[i % s.m][j], outputs[i % s.m].at[i / s.m],
                               inputs.at + i / s.m * 2, s);
        }
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
        part_multiply(&sums, stage_at(walk->chunk, s), 0, s);
        part_multiply(&sums, stage_at(walk->chunk, s), 1, s);
        if (--left == 0 || walk->chunk + 1 == walk->end) {
            segment_end(totals, &sums, s);
            left = walk->segment_chunks;
        }
    }
}

/* ---- a thread block ---- */

GPU_INLINE struct walk walk_of(const struct gpu_product_tiled *p, struct shape s)
{
    uint32_t chunks = gpu_ceil(p->columns, GPU_CHUNK_COLUMNS);
    uint32_t each = gpu_segment_chunks(p->outputs, p->columns), output = blockIdx.y * s.outputs;
    struct walk walk;
    if (gpu_has_levels(s.type)) {
        walk.panels = panels_of(p, output, s);
    } else {
        walk.w = source_of(p->w, p->columns, output, p->outputs, p->columns);
    }
    walk.x = source_of(p->x, p->x_stride, blockIdx.x * s.rows, p->rows, p->columns);
    walk.chunk = blockIdx.z * each;
    walk.end = gridDim.z == 1 ? chunks : gpu_smaller(walk.chunk + each, chunks);
    walk.segment_chunks = each;
    return walk;
}

GPU_INLINE void tile_multiply(const struct gpu_product_tiled *p, struct shape s)
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

/* ---- the shapes ---- */

#define FEW(outputs, rows, m, n, warps, type) \
    {outputs, rows, m, n, warps, 128, GPU_FEW_STAGES, type}

GPU_INLINE void few_multiply(const struct gpu_product_tiled *p, uint32_t type)
{
    const uint32_t outputs = gpu_few_outputs(type, 8), m = outputs / GPU_PRODUCT_OUTPUTS;
    switch (gpu_few_rows(p->rows)) {
    case 8: {
        const struct shape shape = FEW(outputs, 8, m, 1, 4, type);
        tile_multiply(p, shape);
        break;
    }
    case 16: {
        const struct shape shape = FEW(outputs, 16, m, 2, 4, type);
        tile_multiply(p, shape);
        break;
    }
    case 32: {
        const struct shape shape = FEW(outputs, 32, m, 4, 4, type);
        tile_multiply(p, shape);
        break;
    }
    default: {
        const struct shape shape = FEW(GPU_PRODUCT_OUTPUTS, GPU_FEW_ROWS, 2, 4, 2, type);
        tile_multiply(p, shape);
        break;
    }
    }
}

GPU_INLINE void many_multiply(const struct gpu_product_tiled *p, uint32_t type)
{
    const struct shape shape = {GPU_MANY_TILE, GPU_MANY_TILE, 2, 8, 4, 256, GPU_MANY_STAGES, type};
    tile_multiply(p, shape);
}
