/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: patterns of words in memory, for the burn-in, and a read of them all, for benchmarks
 * (kernels.h: how to read this). The value of a
 * word follows from its number, so no copy is needed to compare with.
 */
#include "kernels/cuda/device/record.h"

enum gpu_pattern_kind {
    GPU_PATTERN_ADDRESS,            /* 8 times the word's number */
    GPU_PATTERN_SOLID,
    GPU_PATTERN_CHECKERBOARD,
    GPU_PATTERN_WALKING_BIT,        /* one bit, the next one in the next word; seed: the first */
    GPU_PATTERN_RANDOM,             /* random list number `seed` */
    GPU_PATTERN_KINDS
};

struct gpu_pattern {
    uint64_t seed;
    uint32_t kind, is_inverted;
};

/* The value of word number `at`. */
static inline GPU_BOTH uint64_t gpu_pattern_word(const struct gpu_pattern *pattern, uint64_t at)
{
    uint64_t word = 0;
    switch (pattern->kind) {
    case GPU_PATTERN_ADDRESS:
        word = at * sizeof word;
        break;
    case GPU_PATTERN_CHECKERBOARD:
        word = UINT64_C(0x5555555555555555) << (at & 1);
        break;
    case GPU_PATTERN_WALKING_BIT:
        word = UINT64_C(1) << ((at + pattern->seed) & 63);
        break;
    case GPU_PATTERN_RANDOM:
        word = pattern->seed + (at + 1) * UINT64_C(0x9e3779b97f4a7c15);
        word = (word ^ word >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        word = (word ^ word >> 27) * UINT64_C(0x94d049bb133111eb);
        word ^= word >> 31;
        break;
    default:
        break;
    }
    return pattern->is_inverted ? ~word : word;
}

#define GPU_PATTERN_GRID_MAX    1024u   /* thread blocks */
#define GPU_PATTERN_THREADS     256u
#define GPU_PATTERN_WORDS       16u     /* per CUDA thread, before there are more thread blocks */
/* The thread blocks for `count` words. */
static inline uint32_t gpu_pattern_grid(uint64_t count)
{
    uint64_t each = GPU_PATTERN_THREADS * GPU_PATTERN_WORDS, blocks = (count + each - 1) / each;
    return blocks < GPU_PATTERN_GRID_MAX ? (uint32_t)blocks : GPU_PATTERN_GRID_MAX;
}

/* Word i becomes word number first + i of the pattern. */
struct gpu_pattern_fill {
    struct gpu_pattern pattern;
    uint64_t words;             /* uint64_t (count) */
    uint64_t first, count;
};
static inline struct gpu_launch gpu_pattern_fill_launch(const struct gpu_pattern_fill *args)
{
    return gpu_launch(gpu_pattern_grid(args->count), 1, GPU_PATTERN_THREADS);
}

/* What a thread block has found; zeros: no wrong word. */
struct gpu_pattern_report {
    uint64_t wrong;             /* words */
    uint64_t first, found;      /* of the first wrong word: its i, and its value */
};
/* Compares word i with word number first + i. */
struct gpu_pattern_verify {
    struct gpu_pattern pattern;
    uint64_t words;             /* uint64_t (count) */
    uint64_t first, count;
    uint64_t reports;           /* struct gpu_pattern_report (gpu_pattern_grid(count)) */
};
static inline struct gpu_launch gpu_pattern_verify_launch(const struct gpu_pattern_verify *args)
{
    struct gpu_launch launch = gpu_launch(gpu_pattern_grid(args->count), 1, GPU_PATTERN_THREADS);
    launch.shared_bytes = GPU_PATTERN_THREADS * sizeof(struct gpu_pattern_report);
    return launch;
}
/* Reads words and does as little else as can be: what a device can read in a time. The exclusive or
 * of them all is that of the folds; CUDA thread t of them all writes fold t. */
#define GPU_PATTERN_FOLD_PAIRS 4u       /* that a CUDA thread reads at a time */
struct gpu_pattern_fold {
    uint64_t words;             /* uint64_t (count), aligned to a pair of them */
    uint64_t count;             /* even */
    uint64_t folds;             /* uint64_t (gpu_pattern_grid(count) * GPU_PATTERN_THREADS) */
};
static inline struct gpu_launch gpu_pattern_fold_launch(const struct gpu_pattern_fold *args)
{
    return gpu_launch(gpu_pattern_grid(args->count), 1, GPU_PATTERN_THREADS);
}

/* Adds a report to the sum of all. */
static inline GPU_BOTH void gpu_pattern_report_add(struct gpu_pattern_report *sum,
                                                   const struct gpu_pattern_report *more)
{
    if (more->wrong > 0 && (sum->wrong == 0 || more->first < sum->first)) {
        sum->first = more->first;
        sum->found = more->found;
    }
    sum->wrong += more->wrong;
}
