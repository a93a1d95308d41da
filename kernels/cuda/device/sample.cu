/* SPDX-License-Identifier: MIT */
/*
 * What: the next token of each place that samples (kernels/sample.h states the rule). There is a
 * thread block for each place.
 *
 * Ranking without a sort: every candidate has a different key, and the descending order of keys is
 * the rank (or the order of ids, if all tokens are kept). "The first candidate at which the sum of
 * weights reaches a goal" is a radix search: from the highest digit of the key down, the weights of
 * the candidates of each digit are added up, in integers, so that the order of additions does not
 * matter (kernels/draw.h); the first digit at which the sum reaches the goal is the key's. top_k,
 * top_p and the draw are such searches.
 */
#include "kernels/cuda/device/adjustment.h"
#include "kernels/cuda/device/number.h"
#include "kernels/draw.h"
#include "kernels/exp.h"

#define DIGIT_BITS  8u
#define DIGITS      256u
#define FNV_START   UINT64_C(0xcbf29ce484222325)    /* config/base/fnv.h */
#define FNV_PRIME   UINT64_C(0x100000001b3)

struct leading {                        /* the candidates from the first to that of the key */
    uint64_t key;
    uint64_t sum;                       /* of their weights */
    uint64_t count;
};

struct draw {
    const struct gpu_row *row;
    float *weights;                     /* (vocab) */
    uint32_t vocab;
    bool is_ranked;
    unsigned long long *sums;           /* shared: (DIGITS) */
    uint32_t *counts;                   /* shared: (DIGITS) */
    struct leading *found;              /* shared */
};

/* When there are enough leading candidates. */
struct goal {
    uint64_t floor;                     /* candidates have at least this key */
    uint64_t count;                     /* so many candidates; 0: the sum decides */
    double sum;
    bool beyond;                        /* the sum must be exceeded, not only reached */
};

GPU_INLINE bool is_reached(const struct goal *goal, uint64_t count, uint64_t sum)
{
    return goal->count > 0 ? count >= goal->count
           : goal->beyond  ? (double)sum > goal->sum
                           : (double)sum >= goal->sum;
}

GPU_INLINE uint64_t key_of(const struct draw *d, uint32_t id)
{
    uint64_t weight = d->is_ranked ? gpu_bits_of(d->weights[id]) : 0;
    return weight << 32 | (UINT32_MAX - id);
}

/* Ends with a barrier. */
GPU_INLINE void digits_clear(const struct draw *d)
{
    d->sums[threadIdx.x] = 0;
    d->counts[threadIdx.x] = 0;
    __syncthreads();
}

/* Adds up, for each digit at `shift`, the candidates whose higher digits are those of `key`. Ends
 * with a barrier. */
GPU_INLINE void digits_count(const struct draw *d, uint64_t floor, uint64_t key, uint32_t shift)
{
    digits_clear(d);
    for (uint32_t id = threadIdx.x; id < d->vocab; id += blockDim.x) {
        uint64_t own = key_of(d, id);
        if (own >= floor && own >> shift >> DIGIT_BITS == key >> shift >> DIGIT_BITS) {
            uint32_t digit = (uint32_t)(own >> shift) % DIGITS;
            atomicAdd(&d->sums[digit], (unsigned long long)kernels_mass(d->weights[id]));
            atomicAdd(&d->counts[digit], 1u);
        }
    }
    __syncthreads();
}

/* One CUDA thread: chooses the digit at `shift` of the key; the last one with candidates if none
 * reaches the goal. */
GPU_INLINE void digit_choose(const struct draw *d, const struct goal *goal, uint32_t shift)
{
    struct leading before = *d->found, last = before;
    uint64_t digit_last = 0;
    for (uint32_t digit = DIGITS; digit-- > 0;) {
        if (d->counts[digit] > 0) {
            digit_last = digit;
            last = before;
            before.sum += d->sums[digit];
            before.count += d->counts[digit];
            if (is_reached(goal, before.count, before.sum)) {
                break;
            }
        }
    }
    last.key |= digit_last << shift;
    if (shift == 0) {                   /* the candidate itself is one of the leading ones */
        last.sum = before.sum;
        last.count = before.count;
    }
    *d->found = last;
}

/* The fewest leading candidates that reach the goal; if they do not, all candidates, of which there
 * is at least one. Begins and ends with a barrier. */
GPU_INLINE struct leading leading_find(const struct draw *d, struct goal goal)
{
    struct leading none = {0, 0, 0};
    uint32_t digits = d->is_ranked ? 8 : 4;
    __syncthreads();
    if (threadIdx.x == 0) {
        *d->found = none;
    }
    __syncthreads();
    for (uint32_t shift = digits * DIGIT_BITS; shift > 0;) {
        shift -= DIGIT_BITS;
        digits_count(d, goal.floor, d->found->key, shift);
        if (threadIdx.x == 0) {
            digit_choose(d, &goal, shift);
        }
        __syncthreads();
    }
    return *d->found;
}

/* The sum of the weights of all candidates. Begins and ends with a barrier. */
GPU_INLINE uint64_t mass_total(const struct draw *d, uint64_t floor)
{
    unsigned long long own = 0;
    __syncthreads();
    digits_clear(d);
    for (uint32_t id = threadIdx.x; id < d->vocab; id += blockDim.x) {
        own += key_of(d, id) >= floor ? kernels_mass(d->weights[id]) : 0;
    }
    atomicAdd(&d->sums[0], own);
    __syncthreads();
    return d->sums[0];
}

/* The smallest key that top_k, top_p and min_p keep. */
GPU_INLINE uint64_t survivors(const struct draw *d)
{
    const struct gpu_row *row = d->row;
    struct goal goal = {0, 0, 0, false};
    uint64_t total = 0;
    if (row->top_k > 0 && row->top_k < d->vocab) {
        goal.count = row->top_k;
        struct leading heaviest = leading_find(d, goal);
        goal.floor = heaviest.key;
        goal.count = 0;
        total = heaviest.sum;
    } else {
        total = mass_total(d, 0);
    }
    if (row->top_p < 1) {
        goal.sum = (double)row->top_p * (double)total;
        goal.floor = leading_find(d, goal).key;
    }
    /* min_p times the heaviest weight, which is 1. */
    uint64_t least = (uint64_t)gpu_bits_of(row->min_p > 0 ? row->min_p : 0.0f) << 32;
    return goal.floor > least ? goal.floor : least;
}

GPU_INLINE uint32_t token_draw(struct draw *d, uint32_t position)
{
    const struct gpu_row *row = d->row;
    d->is_ranked = row->top_k > 0 || row->top_p < 1 || row->min_p > 0;
    struct goal goal = {0, 0, 0, true};
    goal.floor = d->is_ranked ? survivors(d) : 0;
    goal.sum = kernels_uniform(row->seed, position) * (double)mass_total(d, goal.floor);
    return UINT32_MAX - (uint32_t)leading_find(d, goal).key;
}

/* ---- the largest ---- */

/* The first of the largest weights: each CUDA thread finds its own, then half of them compare with
 * the other half. Uses the memory of the digits. Begins and ends with a barrier. */
GPU_INLINE uint32_t largest_find(const struct draw *d)
{
    uint32_t *ids = d->counts, best = threadIdx.x < d->vocab ? threadIdx.x : 0;
    for (uint32_t id = best; id < d->vocab; id += blockDim.x) {
        best = d->weights[id] > d->weights[best] ? id : best;
    }
    __syncthreads();
    ids[threadIdx.x] = best;
    __syncthreads();
    for (uint32_t half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            uint32_t other = ids[threadIdx.x + half];
            float a = d->weights[ids[threadIdx.x]], b = d->weights[other];
            if (b > a || (b == a && other < ids[threadIdx.x])) {
                ids[threadIdx.x] = other;
            }
        }
        __syncthreads();
    }
    return ids[0];
}

/* Logits become weights. Ends with a barrier. */
GPU_INLINE void weights_make(const struct draw *d)
{
    float largest = d->weights[largest_find(d)], scale = 1.0f / d->row->temperature;
    __syncthreads();
    for (uint32_t id = threadIdx.x; id < d->vocab; id += blockDim.x) {
        d->weights[id] = kernels_exp((d->weights[id] - largest) * scale);
    }
    __syncthreads();
}

/* Copies the logits to where they become weights, and adjusts them. True when all are finite. Ends
 * with a barrier. */
GPU_INLINE bool logits_take(const struct draw *d, const struct adjustment *a, const float *logits)
{
    adjustment_count(a);
    digits_clear(d);
    for (uint32_t id = threadIdx.x; id < d->vocab; id += blockDim.x) {
        d->weights[id] = adjustment_take(a, id, logits[id]);
        if ((gpu_bits_of(logits[id]) & 0x7fffffffu) >= 0x7f800000u) {
            atomicAdd(&d->counts[0], 1u);
        }
    }
    __syncthreads();
    adjustment_repeat(a);
    adjustment_bias(a);
    return d->counts[0] == 0;
}

/* One CUDA thread, byte by byte: only the canary's row needs it. */
GPU_INLINE uint64_t digest_add(uint64_t digest, const float *logits, uint32_t count)
{
    for (uint64_t i = 0; i < count * sizeof *logits; i++) {
        digest = (digest ^ ((const uint8_t *)logits)[i]) * FNV_PRIME;
    }
    return digest;
}

/* The draw of a place, with its shared memory. */
GPU_INLINE struct draw draw_init(const struct gpu_sample *args, uint32_t place, uint32_t row)
{
    struct draw d;
    d.row = (const struct gpu_row *)args->rows + row;
    d.weights = (float *)args->weights + place * args->weights_stride;
    d.vocab = args->vocab_tokens;
    d.is_ranked = false;
    d.sums = (unsigned long long *)gpu_shared;
    d.found = (struct leading *)(d.sums + DIGITS);
    d.counts = (uint32_t *)(d.found + 1);
    return d;
}

GPU_INLINE struct adjustment adjustment_init(const struct gpu_sample *args, const struct draw *d,
                                             uint32_t row, uint32_t produced)
{
    struct adjustment a;
    a.row = d->row;
    a.weights = d->weights;
    a.vocab = d->vocab;
    a.generated = (const uint32_t *)args->generated + row * args->generated_max;
    a.produced = (const uint32_t *)args->out_tokens + (uint64_t)row * args->steps_max;
    a.produced_count = produced;
    a.biases = (const struct gpu_bias *)args->biases + (uint64_t)row * GPU_BIASES_MAX;
    return a;
}

GPU_KERNEL_OF_FEW(sample)
{
    const struct gpu_place *place = (const struct gpu_place *)args.places + blockIdx.x;
    if (place->slot == GPU_NONE) {
        return;
    }
    struct draw d = draw_init(&args, blockIdx.x, place->row);
    const float *logits = (const float *)args.logits + blockIdx.x * args.logits_stride;
    struct gpu_out *out = (struct gpu_out *)args.outs + place->row, before = *out;
    uint32_t *tokens = (uint32_t *)args.out_tokens + (uint64_t)place->row * args.steps_max;
    struct gpu_out after = {GPU_ROW_NOT_FINITE, 0, 0};
    const struct adjustment adjustment = adjustment_init(&args, &d, place->row, before.produced);
    if (logits_take(&d, &adjustment, logits)) {
        uint32_t token = 0;
        if (d.row->temperature <= 0) {
            token = largest_find(&d);
        } else {
            uint32_t position = d.row->first_position + d.row->tokens_count + before.produced;
            weights_make(&d);
            token = token_draw(&d, position);
        }
        after.result = GPU_ROW_OK;
        after.produced = before.produced + 1;
        if (threadIdx.x == 0) {
            tokens[before.produced] = token;
            after.digest = d.row->wants_digest == 0 ? before.digest
                           : digest_add(before.produced == 0 ? FNV_START : before.digest, logits,
                                        d.vocab);
        }
    }
    if (threadIdx.x == 0) {
        *out = after;
    }
}
