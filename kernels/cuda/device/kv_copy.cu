/* SPDX-License-Identifier: MIT */
/*
 * What: gathers KV blocks into one piece and scatters them from it, for swaps in bulk. A thread
 * block copies GPU_COPY_LINES lines of one KV block.
 */
#include "kernels/cuda/device/gpu.h"
#include "kernels/cuda/device/kernels.h"

struct line {                           /* a CUDA thread copies one at a time */
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
