/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a ranked draw among any number of candidates, by one thread block. It reads all weights for
 * each digit of each search, so it is for what scan.cu has no list of: flat distributions.
 *
 * "The first candidate at which the sum of weights reaches a goal" is a radix search: from the
 * highest digit of the key down, the weights of the candidates of each digit are added up, in
 * integers, so that the order of additions does not matter (kernels/draw.h); the first digit at
 * which the sum reaches the goal is the key's. top_k, top_p and the draw are such searches.
 */
#include "kernels/cuda/device/sample/bucket.h"
#include "kernels/draw.h"

#define DIGIT_BITS 8u
#define DIGITS     256u

struct radix_digits {                   /* shared */
    uint32_t low[DIGITS], high[DIGITS], counts[DIGITS];
};

struct radix_found {                    /* the candidates from the first to that of the key */
    uint64_t key;
    uint64_t sum;                       /* of their weights */
    uint64_t count;
};

struct radix {
    const struct gpu_row *row;
    const float *weights;               /* (vocab) */
    uint32_t vocab;
    struct radix_digits *digits;
    struct radix_found *found;          /* shared */
};

/* When there are enough leading candidates. */
struct radix_goal {
    uint64_t floor;                     /* candidates have at least this key */
    uint64_t count;                     /* so many candidates; 0: the sum decides */
    double sum;
    bool beyond;                        /* the sum must be exceeded, not only reached */
};

GPU_INLINE bool radix_is_reached(const struct radix_goal *goal, uint64_t count, uint64_t sum)
{
    return goal->count > 0 ? count >= goal->count
           : goal->beyond  ? (double)sum > goal->sum
                           : (double)sum >= goal->sum;
}

/* Ends with a barrier. */
GPU_INLINE void radix_clear(const struct radix *r)
{
    for (uint32_t digit = threadIdx.x; digit < DIGITS; digit += blockDim.x) {
        r->digits->low[digit] = r->digits->high[digit] = r->digits->counts[digit] = 0;
    }
    __syncthreads();
}

/* Adds up, for each digit at `shift`, the candidates whose higher digits are those of `key`. Ends
 * with a barrier. */
GPU_INLINE void radix_count(const struct radix *r, uint64_t floor, uint64_t key, uint32_t shift)
{
    radix_clear(r);
    for (uint32_t id = threadIdx.x; id < r->vocab; id += blockDim.x) {
        uint64_t own = key_of(r->weights[id], id);
        if (own >= floor && own >> shift >> DIGIT_BITS == key >> shift >> DIGIT_BITS) {
            uint32_t digit = (uint32_t)(own >> shift) % DIGITS;
            wide_add(&r->digits->low[digit], &r->digits->high[digit],
                     kernels_mass(r->weights[id]));
            atomicAdd(&r->digits->counts[digit], 1u);
        }
    }
    __syncthreads();
}

/* One CUDA thread: chooses the digit at `shift` of the key; the last one with candidates if none
 * reaches the goal. */
GPU_INLINE void radix_choose(const struct radix *r, const struct radix_goal *goal, uint32_t shift)
{
    struct radix_found before = *r->found, last = before;
    uint64_t digit_last = 0;
    for (uint32_t digit = DIGITS; digit-- > 0;) {
        if (r->digits->counts[digit] > 0) {
            digit_last = digit;
            last = before;
            before.sum += wide_of(r->digits->low[digit], r->digits->high[digit]);
            before.count += r->digits->counts[digit];
            if (radix_is_reached(goal, before.count, before.sum)) {
                break;
            }
        }
    }
    last.key |= digit_last << shift;
    if (shift == 0) {                   /* the candidate itself is one of the leading ones */
        last.sum = before.sum;
        last.count = before.count;
    }
    *r->found = last;
}

/* The fewest leading candidates that reach the goal; if they do not, all candidates, of which there
 * is at least one. Begins and ends with a barrier. */
GPU_INLINE struct radix_found radix_find(const struct radix *r, struct radix_goal goal)
{
    struct radix_found none = {0, 0, 0};
    __syncthreads();
    if (threadIdx.x == 0) {
        *r->found = none;
    }
    __syncthreads();
    for (uint32_t shift = 64; shift > 0;) {
        shift -= DIGIT_BITS;
        radix_count(r, goal.floor, r->found->key, shift);
        if (threadIdx.x == 0) {
            radix_choose(r, &goal, shift);
        }
        __syncthreads();
    }
    return *r->found;
}

/* The sum of the weights of all candidates. Begins and ends with a barrier. */
GPU_INLINE uint64_t radix_total(const struct radix *r, uint64_t floor)
{
    uint64_t own = 0;
    __syncthreads();
    radix_clear(r);
    for (uint32_t id = threadIdx.x; id < r->vocab; id += blockDim.x) {
        own += key_of(r->weights[id], id) >= floor ? kernels_mass(r->weights[id]) : 0;
    }
    wide_add(&r->digits->low[0], &r->digits->high[0], own);
    __syncthreads();
    return wide_of(r->digits->low[0], r->digits->high[0]);
}

/* The smallest key that top_k, top_p and min_p keep. */
GPU_INLINE uint64_t radix_survivors(const struct radix *r)
{
    const struct gpu_row *row = r->row;
    struct radix_goal goal = {0, 0, 0, false};
    uint64_t total = 0;
    if (row->top_k > 0 && row->top_k < r->vocab) {
        goal.count = row->top_k;
        struct radix_found heaviest = radix_find(r, goal);
        goal.floor = heaviest.key;
        goal.count = 0;
        total = heaviest.sum;
    } else {
        total = radix_total(r, 0);
    }
    if (row->top_p < 1) {
        goal.sum = (double)row->top_p * (double)total;
        goal.floor = radix_find(r, goal).key;
    }
    /* min_p times the heaviest weight, which is 1. */
    uint64_t least = (uint64_t)gpu_bits_of(row->min_p > 0 ? row->min_p : 0.0f) << 32;
    return goal.floor > least ? goal.floor : least;
}

/* The token, for all CUDA threads. */
GPU_INLINE uint32_t radix_draw(const struct radix *r, uint32_t position)
{
    struct radix_goal goal = {0, 0, 0, true};
    goal.floor = radix_survivors(r);
    goal.sum = kernels_uniform(r->row->seed, position) * (double)radix_total(r, goal.floor);
    return UINT32_MAX - (uint32_t)radix_find(r, goal).key;
}
