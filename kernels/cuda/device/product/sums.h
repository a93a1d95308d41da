/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the sums of a tile: in registers, as the sums of a segment that another thread block adds,
 * and as numbers of the result.
 */
#include "kernels/cuda/device/product/shape.h"
#include "kernels/cuda/device/wide.h"

struct sums {
    float at[M_MAX][N_MAX][4];
};

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

/* ---- from segments to numbers ---- */

/* Where this CUDA thread keeps its fragments of one segment, each moved as a whole. */
GPU_INLINE float *partial_at(const struct gpu_product_tiled *p, uint32_t segment, struct shape s)
{
    uint64_t tile = (uint64_t)blockIdx.y * gridDim.x + blockIdx.x;
    uint64_t fragments = (tile * gridDim.z + segment) * s.m * s.n;
    return (float *)p->partials + (fragments * s.threads + threadIdx.x) * GPU_FOUR;
}

GPU_INLINE void partial_write(const struct gpu_product_tiled *p, const struct sums *sums,
                              struct shape s)
{
    float *to = partial_at(p, blockIdx.z, s);
    GPU_UNROLL
    for (uint32_t i = 0; i < s.m * s.n; i++) {
        gpu_four_store(to + i * s.threads * GPU_FOUR, sums->at[i / s.n][i % s.n]);
    }
}

GPU_INLINE void partials_add(const struct gpu_product_tiled *p, struct sums *totals,
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
GPU_INLINE bool is_last_of_tile(const struct gpu_product_tiled *p)
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

GPU_INLINE void totals_store(const struct gpu_product_tiled *p, const struct sums *totals,
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
