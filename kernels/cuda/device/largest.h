/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the largest of many numbers, of equal ones that of the lowest id. */
#include "kernels/cuda/device/kernels.h"
#include "kernels/cuda/device/reduce.h"

struct largest {
    float value;
    uint32_t id;
    uint32_t bad;                       /* not 0: a logit is not finite */
};

GPU_INLINE struct largest largest_none(void)
{
    struct largest none = {-INFINITY, GPU_NONE, 0};
    return none;
}

GPU_INLINE void largest_add(struct largest *to, struct largest from)
{
    if (from.value > to->value || (from.value == to->value && from.id < to->id)) {
        to->value = from.value;
        to->id = from.id;
    }
    to->bad |= from.bad;
}

/* Of all CUDA threads of the thread block, for all of them. `shared` has room for GPU_WARPS_MAX.
 * Begins and ends with a barrier. */
GPU_INLINE struct largest largest_of_all(struct largest own, struct largest *shared)
{
    for (uint32_t apart = GPU_WARP / 2; apart > 0; apart /= 2) {
        struct largest other;
        other.value = __shfl_xor_sync(GPU_WARP_ALL, own.value, apart);
        other.id = __shfl_xor_sync(GPU_WARP_ALL, own.id, apart);
        other.bad = __shfl_xor_sync(GPU_WARP_ALL, own.bad, apart);
        largest_add(&own, other);
    }
    __syncthreads();
    if (threadIdx.x % GPU_WARP == 0) {
        shared[threadIdx.x / GPU_WARP] = own;
    }
    __syncthreads();
    struct largest all = shared[0];
    for (uint32_t warp = 1; warp < blockDim.x / GPU_WARP; warp++) {
        largest_add(&all, shared[warp]);
    }
    __syncthreads();
    return all;
}
