/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the tile of outputs and rows that a thread block computes, and each warp's part of it. */
#include "kernels/cuda/device/gpu.h"
#include "kernels/cuda/device/product.h"

#define M_MAX        2u
#define N_MAX        8u

/* The tile of a thread block; constants once a kernel is compiled. A warp has m times 16 outputs
 * and n times 8 rows. */
struct shape {
    uint32_t outputs, rows;
    uint32_t m, n, warps_outputs, threads, stages;
    uint32_t type;              /* of the weights, enum gpu_type */
};

/* Where the part of a warp begins in the tile. */
GPU_INLINE uint32_t warp_output(struct shape s)
{
    return threadIdx.x / GPU_WARP % s.warps_outputs * s.m * 16;
}

GPU_INLINE uint32_t warp_row(struct shape s)
{
    return threadIdx.x / GPU_WARP / s.warps_outputs * s.n * 8;
}
