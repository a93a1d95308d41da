/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: sums, maxima and ballots over the CUDA threads of a warp and of a thread block. Their order
 * depends only on the number of CUDA threads, which a kernel fixes (kernels.h).
 */
#include "kernels/cuda/device/gpu.h"

#define GPU_WARPS_MAX (GPU_THREADS_MAX / GPU_WARP)

/* A tree: lanes 16 apart are added, then 8, 4, 2 and 1. All lanes get the sum. */
GPU_INLINE float gpu_warp_sum(float value)
{
    for (uint32_t apart = GPU_WARP / 2; apart > 0; apart /= 2) {
        value += __shfl_xor_sync(GPU_WARP_ALL, value, apart);
    }
    return value;
}

GPU_INLINE float gpu_warp_largest(float value)
{
    for (uint32_t apart = GPU_WARP / 2; apart > 0; apart /= 2) {
        value = fmaxf(value, __shfl_xor_sync(GPU_WARP_ALL, value, apart));
    }
    return value;
}

/* A bit for each lane: whether it is true there. All lanes get them. */
GPU_INLINE uint32_t gpu_warp_ballot(bool is_true)
{
    uint32_t bits = is_true ? 1u << threadIdx.x % GPU_WARP : 0;
    for (uint32_t apart = GPU_WARP / 2; apart > 0; apart /= 2) {
        bits |= __shfl_xor_sync(GPU_WARP_ALL, bits, apart);
    }
    return bits;
}

/* The sums of the warps, added one after the other. All CUDA threads get the sum. `shared` has room
 * for GPU_WARPS_MAX floats, which must not be used otherwise until the next barrier. */
GPU_INLINE float gpu_thread_block_sum(float value, float *shared)
{
    float sum = gpu_warp_sum(value);
    if (threadIdx.x % GPU_WARP == 0) {
        shared[threadIdx.x / GPU_WARP] = sum;
    }
    __syncthreads();
    sum = 0.0f;
    for (uint32_t warp = 0; warp < blockDim.x / GPU_WARP; warp++) {
        sum += shared[warp];
    }
    return sum;
}
