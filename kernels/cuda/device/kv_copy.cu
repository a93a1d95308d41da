/* SPDX-License-Identifier: MIT */
/*
 * What: KV blocks gathered into one piece and scattered from it, for swaps in bulk. A block of
 * threads has GPU_COPY_LINES lines of one KV block.
 */
#include "kernels/cuda/device/gpu.h"
#include "kernels/cuda/device/kernels.h"

struct line {                           /* what a thread copies at a time */
    uint64_t words[2];
} __attribute__((aligned(16)));

GPU_INLINE void lines_copy(uint64_t to, uint64_t from, uint64_t block_bytes)
{
    uint64_t lines = block_bytes / sizeof(struct line);
    uint64_t first = (uint64_t)blockIdx.y * GPU_COPY_LINES;
    uint64_t end = lines - first < GPU_COPY_LINES ? lines : first + GPU_COPY_LINES;
    for (uint64_t i = first + threadIdx.x; i < end; i += blockDim.x) {
        ((struct line *)to)[i] = ((const struct line *)from)[i];
    }
}

GPU_KERNEL(kv_gather)
{
    uint64_t block = ((const uint32_t *)args.list)[blockIdx.x];
    lines_copy(args.staging + blockIdx.x * args.block_bytes, args.blocks + block * args.block_bytes,
               args.block_bytes);
}

GPU_KERNEL(kv_scatter)
{
    uint64_t block = ((const uint32_t *)args.list)[blockIdx.x];
    lines_copy(args.blocks + block * args.block_bytes, args.staging + blockIdx.x * args.block_bytes,
               args.block_bytes);
}
