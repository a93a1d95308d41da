/* SPDX-License-Identifier: MIT */
/*
 * What: the end of sampling: the next token of each place, from what scan.cu has made of its
 * logits. There is a thread block for each place.
 *
 *   greedy    the largest logit of all slices
 *   by id     the slice in which the sum of weights passes the goal, and the token in it
 *   ranked    the gathered candidates are sorted; top_k, top_p, min_p and the draw each are the
 *             first candidate at which a sum reaches a goal. If they were too many: radix.h
 *
 * Sums are of integers, so the order of additions does not matter.
 */
#include "kernels/cuda/device/sample/radix.h"

struct draw {
    const struct gpu_sample *args;
    const struct gpu_row *row;
    const float *weights;               /* (vocab) */
    uint32_t place, position;
    bool is_ranked;
    /* Shared. */
    uint64_t *items;                    /* (GPU_LISTED_MAX): ranked: keys, else masses */
    uint64_t *sums;                     /* (GPU_SAMPLE_THREADS): of the items up to a CUDA thread's
                                           last one */
    struct largest *largest;            /* (GPU_WARPS_MAX) */
    uint32_t *token;
    /* Set with the items. */
    uint32_t count, each;               /* items in use; items of a CUDA thread */
};

GPU_INLINE struct draw draw_init(const struct gpu_sample *args, uint32_t index,
                                 const struct gpu_place *place)
{
    struct draw d;
    d.args = args;
    d.row = (const struct gpu_row *)args->rows + place->row;
    d.weights = (const float *)args->weights + index * args->weights_stride;
    d.place = index;
    d.position = d.row->first_position + d.row->tokens_count +
                 ((const struct gpu_out *)args->outs)[place->row].produced + place->ahead;
    d.is_ranked = gpu_row_is_ranked(d.row);
    d.items = (uint64_t *)gpu_shared;
    d.sums = d.items + GPU_LISTED_MAX;
    d.largest = (struct largest *)(d.sums + GPU_SAMPLE_THREADS);
    d.token = (uint32_t *)(d.largest + GPU_WARPS_MAX);
    d.count = d.each = 0;
    return d;
}

/* ---- items and their sums -------------------------------------------------------------------- */

GPU_INLINE uint64_t mass_at(const struct draw *d, uint32_t i)
{
    return d->is_ranked ? kernels_mass(gpu_float_of((uint32_t)(d->items[i] >> 32))) : d->items[i];
}

/* `sums` of `count` items. Begins and ends with a barrier. */
GPU_INLINE void sums_make(struct draw *d, uint32_t count)
{
    uint64_t own = 0;
    d->count = count;
    d->each = gpu_ceil(count, blockDim.x);
    __syncthreads();
    for (uint32_t i = threadIdx.x * d->each; i < gpu_smaller((threadIdx.x + 1) * d->each, count);
         i++) {
        own += mass_at(d, i);
    }
    d->sums[threadIdx.x] = own;
    __syncthreads();
    for (uint32_t apart = 1; apart < blockDim.x; apart *= 2) {
        uint64_t before = threadIdx.x >= apart ? d->sums[threadIdx.x - apart] : 0;
        __syncthreads();
        d->sums[threadIdx.x] += before;
        __syncthreads();
    }
}

/* The sum of the items before item `end`. One CUDA thread. */
GPU_INLINE uint64_t sum_before(const struct draw *d, uint32_t end)
{
    uint32_t thread = end / d->each;
    uint64_t sum = thread > 0 ? d->sums[thread - 1] : 0;
    for (uint32_t i = thread * d->each; i < end; i++) {
        sum += mass_at(d, i);
    }
    return sum;
}

GPU_INLINE bool is_reached(uint64_t sum, double goal, bool beyond)
{
    return beyond ? (double)sum > goal : (double)sum >= goal;
}

/* The first item of the first `end` at which the sum, which begins with `base`, reaches the goal,
 * or is beyond it; `end`: none. One CUDA thread. */
GPU_INLINE uint32_t find_reached(const struct draw *d, uint32_t end, uint64_t base, double goal,
                                 bool beyond)
{
    uint32_t low = 0, high = blockDim.x;    /* the first CUDA thread whose sum reaches it */
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (is_reached(base + d->sums[middle], goal, beyond)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    uint64_t sum = base + (low > 0 ? d->sums[low - 1] : 0);
    for (uint32_t i = low * d->each; i < end; i++) {
        sum += mass_at(d, i);
        if (is_reached(sum, goal, beyond)) {
            return i;
        }
    }
    return end;
}

/* ---- by id ----------------------------------------------------------------------------------- */

/* The slice in which the sum of weights passes the goal; before it is `*base`. The last one, if it
 * never does: then the draw is its last token. One CUDA thread. */
GPU_INLINE uint32_t slice_find(const struct draw *d, uint32_t slices, uint64_t *base, double *goal)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < slices; i++) {
        total += d->items[i];
    }
    *goal = kernels_uniform(d->row->seed, d->position) * (double)total;
    *base = 0;
    for (uint32_t i = 0; i < slices - 1; i++) {
        if (is_reached(*base + d->items[i], *goal, true)) {
            return i;
        }
        *base += d->items[i];
    }
    return slices - 1;
}

/* Ends with a barrier. */
GPU_INLINE void draw_by_id(struct draw *d)
{
    const struct gpu_sample_slice *slices = slices_of(d->args, d->place);
    uint32_t count = gpu_slices(d->args->vocab_tokens);
    uint64_t base = 0;
    double goal = 0;
    for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) {
        d->items[i] = slices[i].mass;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        *d->token = slice_find(d, count, &base, &goal);
    }
    __syncthreads();
    const struct slice slice = slice_of(*d->token, d->args->vocab_tokens);
    for (uint32_t i = threadIdx.x; i < slice.count; i += blockDim.x) {
        d->items[i] = kernels_mass(d->weights[slice.first + i]);
    }
    sums_make(d, slice.count);
    if (threadIdx.x == 0) {
        uint32_t found = find_reached(d, slice.count, base, goal, true);
        *d->token = slice.first + gpu_smaller(found, slice.count - 1);
    }
    __syncthreads();
}

/* ---- ranked ---------------------------------------------------------------------------------- */

GPU_INLINE void order(uint64_t *a, uint64_t *b, bool descending)
{
    if (*a < *b ? descending : *a > *b && !descending) {
        uint64_t of = *a;
        *a = *b;
        *b = of;
    }
}

/* Bitonic, in descending order; keys that are 0 fill it up to a power of two. Ends with a
 * barrier. */
GPU_INLINE void list_sort(uint64_t *keys, const uint64_t *list, uint32_t count)
{
    uint32_t size = 2;
    while (size < count) {
        size *= 2;
    }
    for (uint32_t i = threadIdx.x; i < size; i += blockDim.x) {
        keys[i] = i < count ? list[i] : 0;
    }
    __syncthreads();
    for (uint32_t run = 2; run <= size; run *= 2) {
        for (uint32_t apart = run / 2; apart > 0; apart /= 2) {
            for (uint32_t i = threadIdx.x; i < size / 2; i += blockDim.x) {
                uint32_t a = i / apart * 2 * apart + i % apart;
                order(&keys[a], &keys[a + apart], (a & run) == 0 || run == size);
            }
            __syncthreads();
        }
    }
}

/* How many of the sorted candidates have at least this key. One CUDA thread. */
GPU_INLINE uint32_t count_least(const struct draw *d, uint32_t count, uint64_t key)
{
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (d->items[middle] >= key) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The candidates that top_k, top_p and min_p keep; `total` is of all that top_k keeps. One CUDA
 * thread. */
GPU_INLINE uint32_t count_kept(const struct draw *d, uint64_t total)
{
    const struct gpu_row *row = d->row;
    uint32_t kept = d->count;
    if (row->top_k > 0 && row->top_k < d->args->vocab_tokens) {
        kept = row->top_k;
        total = sum_before(d, kept);
    }
    if (row->top_p < 1) {
        double goal = (double)row->top_p * (double)total;
        kept = gpu_smaller(find_reached(d, kept, 0, goal, false) + 1, kept);
    }
    /* min_p times the heaviest weight, which is 1. */
    uint64_t least = (uint64_t)gpu_bits_of(row->min_p > 0 ? row->min_p : 0.0f) << 32;
    return count_least(d, kept, least);
}

/* The sum of all weights. Each CUDA thread adds up all of the groups. */
GPU_INLINE uint64_t groups_total(const struct bucket_groups *groups)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < BUCKET_GROUPS; i++) {
        total += wide_of(groups->low[i], groups->high[i]);
    }
    return total;
}

GPU_INLINE void draw_listed(struct draw *d, const struct leading *leading, uint64_t total)
{
    list_sort(d->items, memory_of(d->args, d->place)->list, leading->count);
    sums_make(d, leading->count);
    if (threadIdx.x == 0) {
        uint32_t kept = count_kept(d, total);
        double goal = kernels_uniform(d->row->seed, d->position) * (double)sum_before(d, kept);
        uint32_t drawn = gpu_smaller(find_reached(d, kept, 0, goal, true), kept - 1);
        *d->token = UINT32_MAX - (uint32_t)d->items[drawn];
    }
    __syncthreads();
}

GPU_INLINE void draw_any(struct draw *d)
{
    struct radix radix;
    radix.row = d->row;
    radix.weights = d->weights;
    radix.vocab = d->args->vocab_tokens;
    radix.digits = (struct radix_digits *)d->items;
    radix.found = (struct radix_found *)d->sums;
    uint32_t token = radix_draw(&radix, d->position);
    if (threadIdx.x == 0) {
        *d->token = token;
    }
    __syncthreads();
}

/* Ends with a barrier. */
GPU_INLINE void draw_ranked(struct draw *d)
{
    uint32_t *words = (uint32_t *)d->items;
    const struct leading leading =
        leading_of(memory_of(d->args, d->place), d->row, d->args->vocab_tokens, words);
    uint64_t total = groups_total((const struct bucket_groups *)((struct leading *)words + 1));
    __syncthreads();
    if (leading.count > GPU_LISTED_MAX) {
        draw_any(d);
    } else {
        draw_listed(d, &leading, total);
    }
}

/* ---- the kernel ------------------------------------------------------------------------------ */

GPU_KERNEL_OF_FEW(sample)
{
    struct gpu_place *place = (struct gpu_place *)args.places + blockIdx.x;
    if (place->slot == GPU_NONE) {
        return;
    }
    struct draw d = draw_init(&args, blockIdx.x, place);
    const struct largest largest = largest_of_slices(&args, d.place, d.largest);
    if (largest.bad == 0 && d.row->temperature > 0) {
        if (d.is_ranked) {
            draw_ranked(&d);
        } else {
            draw_by_id(&d);
        }
    } else if (threadIdx.x == 0) {
        *d.token = largest.id;
    }
    if (threadIdx.x == 0) {
        place->token = largest.bad == 0 ? *d.token : GPU_NONE;
    }
}
