/* SPDX-License-Identifier: MIT */
#pragma once
/* What: copies of KV blocks between the tiers (kernels.h: how to read this). */
#include "kernels/cuda/device/record.h"

/* Gathers KV blocks into one piece, for one copy to the host. */
struct gpu_kv_gather {
    uint64_t blocks;            /* (device blocks, block_bytes) */
    uint64_t list;              /* uint32_t (count): KV blocks; none twice */
    uint64_t staging;           /* (count, block_bytes); both begin at a multiple of 16 */
    uint64_t block_bytes;       /* a multiple of 16 */
    uint32_t count;
};
/* The reverse: scatters one piece into KV blocks. */
struct gpu_kv_scatter {
    uint64_t blocks, list, staging, block_bytes;
    uint32_t count;
};
#define GPU_COPY_LINES 2048u            /* of 16 bytes, copied by one thread block */
static inline struct gpu_launch gpu_copy_launch(uint64_t block_bytes, uint32_t count)
{
    return gpu_launch(count, (uint32_t)((block_bytes / 16 + GPU_COPY_LINES - 1) / GPU_COPY_LINES),
                      256);
}
static inline struct gpu_launch gpu_kv_gather_launch(const struct gpu_kv_gather *args)
{
    return gpu_copy_launch(args->block_bytes, args->count);
}
static inline struct gpu_launch gpu_kv_scatter_launch(const struct gpu_kv_scatter *args)
{
    return gpu_copy_launch(args->block_bytes, args->count);
}
