/* SPDX-License-Identifier: MIT */
/* What: writes and compares patterns of the burn-in, and reads. A CUDA thread has every n-th word,
 * or pair of words, n being the number of CUDA threads. */
#include "kernels/cuda/device/gpu.h"
#include "kernels/cuda/device/kernels.h"

GPU_KERNEL(pattern_fill)
{
    uint64_t *words = (uint64_t *)args.words;
    uint64_t stride = (uint64_t)gridDim.x * blockDim.x;
    uint64_t own = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    for (uint64_t i = own; i < args.count; i += stride) {
        words[i] = gpu_pattern_word(&args.pattern, args.first + i);
    }
}

GPU_KERNEL(pattern_verify)
{
    struct gpu_pattern_report *each = (struct gpu_pattern_report *)gpu_shared;
    const uint64_t *words = (const uint64_t *)args.words;
    uint64_t stride = (uint64_t)gridDim.x * blockDim.x;
    uint64_t own = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    struct gpu_pattern_report report = {0, 0, 0};
    for (uint64_t i = own; i < args.count; i += stride) {
        const struct gpu_pattern_report one = {1, i, words[i]};
        if (one.found != gpu_pattern_word(&args.pattern, args.first + i)) {
            gpu_pattern_report_add(&report, &one);
        }
    }
    each[threadIdx.x] = report;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (uint32_t i = 1; i < blockDim.x; i++) {
            gpu_pattern_report_add(&report, &each[i]);
        }
        ((struct gpu_pattern_report *)args.reports)[blockIdx.x] = report;
    }
}

struct GPU_ALIGNED(16) word_pair {
    uint64_t low, high;
};

/* Several reads of a CUDA thread are under way at a time: one would leave memory idle. */
GPU_KERNEL(pattern_fold)
{
    const struct word_pair *pairs = (const struct word_pair *)args.words;
    uint64_t count = args.count / 2, stride = (uint64_t)gridDim.x * blockDim.x;
    uint64_t own = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x, i = own, fold = 0;
    uint64_t ahead = (GPU_PATTERN_FOLD_PAIRS - 1) * stride;
    for (; i + ahead < count; i += ahead + stride) {
        struct word_pair read[GPU_PATTERN_FOLD_PAIRS];
        GPU_UNROLL
        for (uint32_t k = 0; k < GPU_PATTERN_FOLD_PAIRS; k++) {
            read[k] = pairs[i + k * stride];
        }
        GPU_UNROLL
        for (uint32_t k = 0; k < GPU_PATTERN_FOLD_PAIRS; k++) {
            fold ^= read[k].low ^ read[k].high;
        }
    }
    for (; i < count; i += stride) {
        fold ^= pairs[i].low ^ pairs[i].high;
    }
    ((uint64_t *)args.folds)[own] = fold;
}
