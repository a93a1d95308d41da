/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the buckets of a place: sums and counts of its weights by their leading bits. They say how
 * far down the candidates of a ranked draw reach, without a rank.
 */
#include "kernels/cuda/device/sample/slice.h"

#define BUCKET_GROUPS 32u               /* that are added up beside each other */
#define GROUP_BUCKETS (GPU_BUCKETS / BUCKET_GROUPS)

GPU_INLINE uint32_t bucket_of(float weight)
{
    return gpu_bits_of(weight) >> GPU_BUCKET_SHIFT;
}

/* The candidates of the buckets from the highest to `bucket`. */
struct leading {
    uint32_t bucket, count;
    uint64_t mass;
};

/* All candidates have different keys, and the descending order of keys is the rank. */
GPU_INLINE uint64_t key_of(float weight, uint32_t id)
{
    return (uint64_t)gpu_bits_of(weight) << 32 | (UINT32_MAX - id);
}

/* When there are enough leading candidates. */
struct enough {
    uint32_t count;                     /* so many; 0: the sum decides */
    double mass;                        /* this sum is reached */
};

GPU_INLINE bool is_enough(const struct enough *e, uint32_t count, uint64_t mass)
{
    return e->count > 0 ? count >= e->count : (double)mass >= e->mass;
}

/* Adds the bucket, or the group, to what leads it. */
GPU_INLINE void leading_add(struct leading *to, uint32_t bucket, const uint32_t *low,
                            const uint32_t *high, const uint32_t *counts)
{
    to->bucket = bucket;
    to->count += counts[bucket];
    to->mass += wide_of(low[bucket], high[bucket]);
}

/* Sums of groups of buckets, and of all of them; in shared memory. */
struct bucket_groups {
    uint32_t low[BUCKET_GROUPS], high[BUCKET_GROUPS], counts[BUCKET_GROUPS];
};

/* Begins and ends with a barrier. */
GPU_INLINE void groups_add_up(const struct gpu_sample_memory *memory, struct bucket_groups *groups)
{
    __syncthreads();
    for (uint32_t group = threadIdx.x; group < BUCKET_GROUPS; group += blockDim.x) {
        struct leading sum = {0, 0, 0};
        for (uint32_t i = 0; i < GROUP_BUCKETS; i++) {
            leading_add(&sum, group * GROUP_BUCKETS + i, memory->low, memory->high,
                        memory->counts);
        }
        groups->low[group] = (uint32_t)sum.mass;
        groups->high[group] = (uint32_t)(sum.mass >> 32);
        groups->counts[group] = sum.count;
    }
    __syncthreads();
}

/* The fewest buckets, from the highest on, that have enough; if they have not, all of them. By each
 * CUDA thread that calls it. */
GPU_INLINE struct leading leading_find(const struct gpu_sample_memory *memory,
                                       const struct bucket_groups *groups,
                                       const struct enough *enough)
{
    struct leading found = {GPU_BUCKETS, 0, 0};
    uint32_t group = BUCKET_GROUPS;
    while (group-- > 0) {
        struct leading next = found;
        leading_add(&next, group, groups->low, groups->high, groups->counts);
        if (is_enough(enough, next.count, next.mass)) {
            break;
        }
        found.count = next.count;
        found.mass = next.mass;
        found.bucket = group * GROUP_BUCKETS;
    }
    while (found.bucket > 0 && !is_enough(enough, found.count, found.mass)) {
        leading_add(&found, found.bucket - 1, memory->low, memory->high, memory->counts);
    }
    return found;
}

/* The buckets of all candidates that a draw of the row needs, for all CUDA threads. `words` is
 * shared memory for a bucket_groups and a leading. Begins and ends with a barrier. */
GPU_INLINE struct leading leading_of(const struct gpu_sample_memory *memory,
                                     const struct gpu_row *row, uint32_t vocab, uint32_t *words)
{
    struct leading *shared = (struct leading *)words;
    struct bucket_groups *groups = (struct bucket_groups *)(shared + 1);
    groups_add_up(memory, groups);
    if (threadIdx.x == 0) {
        const struct enough all = {UINT32_MAX, 0};
        struct leading found = leading_find(memory, groups, &all);
        if (row->top_k > 0 && row->top_k < vocab) {
            const struct enough most = {row->top_k, 0};
            found = leading_find(memory, groups, &most);
        } else {
            /* Weights of one bucket may lie on both sides of a bound. */
            const struct enough least = {0, (double)row->top_p * (double)found.mass};
            struct leading heaviest = leading_find(memory, groups, &least);
            uint32_t light = bucket_of(row->min_p > 0 ? row->min_p : 0.0f);
            found = row->top_p < 1 ? heaviest : found;
            while (found.bucket < light) {
                found.count -= memory->counts[found.bucket];
                found.mass -= wide_of(memory->low[found.bucket], memory->high[found.bucket]);
                found.bucket++;
            }
        }
        *shared = found;
    }
    __syncthreads();
    struct leading found = *shared;
    __syncthreads();
    return found;
}
