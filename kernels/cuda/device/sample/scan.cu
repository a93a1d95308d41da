/* SPDX-License-Identifier: MIT */
/*
 * What: the passes over the vocabulary by which a token is sampled (kernels/sample.h states the
 * rule; draw.cu ends it). A thread block has one slice of one place, so a single row uses the
 * whole chip; each pass reads a row's numbers once.
 *
 *   scan     logits are adjusted; the largest of the slice
 *   weigh    they become weights; the sum of the slice; and, for a ranked draw, sums and counts by
 *            bucket: a weight's leading bits, so that buckets have the order of weights
 *   gather   a ranked draw: the candidates of the buckets down to the lowest that counts are put on
 *            a list, in no order. If there are more than the list holds, there is no list
 *
 * Sums are of integers (kernels/draw.h), so the order of additions does not matter.
 */
#include "kernels/cuda/device/sample/adjustment.h"
#include "kernels/cuda/device/sample/bucket.h"
#include "kernels/draw.h"
#include "kernels/exp.h"

/* What a thread block works on. */
struct part {
    const struct gpu_row *row;
    uint32_t row_index, place, ahead;
    struct slice slice;
    float *weights;                     /* (slice), in global memory */
    struct largest *shared;             /* (GPU_WARPS_MAX) */
    uint32_t *words;                    /* shared: what the kernel needs */
};

/* False: the place does not sample. */
GPU_INLINE bool part_init(struct part *p, const struct gpu_sample *args)
{
    const struct gpu_place *place = (const struct gpu_place *)args->places + blockIdx.y;
    if (place->slot == GPU_NONE) {
        return false;
    }
    p->place = blockIdx.y;
    p->row_index = place->row;
    p->ahead = place->ahead;
    p->row = (const struct gpu_row *)args->rows + place->row;
    p->slice = slice_of(blockIdx.x, args->vocab_tokens);
    p->weights = (float *)args->weights + p->place * args->weights_stride + p->slice.first;
    p->shared = (struct largest *)gpu_shared;
    p->words = (uint32_t *)(p->shared + GPU_WARPS_MAX);
    return true;
}

GPU_INLINE struct gpu_sample_slice *part_slice(const struct part *p, const struct gpu_sample *args)
{
    return slices_of(args, p->place) + blockIdx.x;
}

/* ---- scan ------------------------------------------------------------------------------------ */

/* For the passes that follow, by the first slice's thread block. */
GPU_INLINE void memory_clear(struct gpu_sample_memory *memory)
{
    for (uint32_t i = threadIdx.x; i < GPU_BUCKETS; i += blockDim.x) {
        memory->low[i] = memory->high[i] = memory->counts[i] = 0;
    }
    if (threadIdx.x == 0) {
        memory->listed = 0;
    }
}

GPU_INLINE struct adjustment part_adjustment(const struct part *p, const struct gpu_sample *args)
{
    struct adjustment a;
    a.row = p->row;
    a.slice = p->slice;
    a.logits = (float *)p->words;
    a.counts = p->words + GPU_SLICE_TOKENS;
    a.generated = (const uint32_t *)args->past + p->row_index * args->past_max +
                  p->row->past_count - p->row->generated_count;
    a.produced = (const uint32_t *)args->out_tokens + (uint64_t)p->row_index * args->steps_max;
    a.produced_count = ((const struct gpu_out *)args->outs)[p->row_index].produced + p->ahead;
    a.biases = (const struct gpu_bias *)args->biases + (uint64_t)p->row_index * GPU_BIASES_MAX;
    return a;
}

GPU_INLINE void own_adjust(const struct part *p, const struct gpu_sample *args,
                           float own[GPU_SLICE_EACH])
{
    const struct adjustment a = part_adjustment(p, args);
    if (adjustment_is_none(&a)) {
        return;
    }
    for (uint32_t i = 0; i < GPU_SLICE_EACH; i++) {
        a.logits[slice_index(i)] = own[i];
    }
    adjust(&a);
    for (uint32_t i = 0; i < GPU_SLICE_EACH; i++) {
        own[i] = a.logits[slice_index(i)];
    }
}

GPU_INLINE uint32_t is_not_finite(float logit)
{
    return (gpu_bits_of(logit) & 0x7fffffffu) >= 0x7f800000u ? 1 : 0;
}

GPU_KERNEL(sample_scan)
{
    const struct gpu_sample *s = &args.sample;
    struct largest own = largest_none();
    float logits[GPU_SLICE_EACH];
    struct part p;
    if (!part_init(&p, s)) {
        return;
    }
    if (blockIdx.x == 0) {
        memory_clear(memory_of(s, p.place));
    }
    slice_load(&p.slice, (const float *)s->logits + p.place * s->logits_stride + p.slice.first,
               logits);
    own_adjust(&p, s, logits);
    for (uint32_t i = 0; i < GPU_SLICE_EACH; i++) {
        /* As it was, for no adjustment makes it finite, or by a penalty: then no weight would be
         * sure to be 0 .. 1. */
        struct largest of = {logits[i], p.slice.first + slice_index(i), is_not_finite(logits[i])};
        if (slice_index(i) < p.slice.count) {
            largest_add(&own, of);
        }
    }
    if (p.row->temperature > 0) {
        slice_store(&p.slice, p.weights, logits);
    }
    struct largest all = largest_of_all(own, p.shared);
    if (threadIdx.x == 0) {
        struct gpu_sample_slice result = {0, all.value, all.id, all.bad, 0};
        *part_slice(&p, s) = result;
    }
}

/* ---- weigh ----------------------------------------------------------------------------------- */

GPU_INLINE void buckets_clear(uint32_t *words)
{
    for (uint32_t i = threadIdx.x; i < 3 * GPU_BUCKETS; i += blockDim.x) {
        words[i] = 0;
    }
    __syncthreads();
}

/* To the place's, from this slice's. */
GPU_INLINE void buckets_add(struct gpu_sample_memory *to, const uint32_t *words)
{
    for (uint32_t i = threadIdx.x; i < GPU_BUCKETS; i += blockDim.x) {
        uint32_t count = words[2 * GPU_BUCKETS + i];
        if (count > 0) {
            wide_add(&to->low[i], &to->high[i], wide_of(words[i], words[GPU_BUCKETS + i]));
            atomicAdd(&to->counts[i], count);
        }
    }
}

GPU_INLINE void part_weigh(const struct part *p, float largest, bool ranked, uint64_t *mass)
{
    float own[GPU_SLICE_EACH], scale = 1.0f / p->row->temperature;
    slice_load(&p->slice, p->weights, own);
    for (uint32_t i = 0; i < GPU_SLICE_EACH; i++) {
        own[i] = kernels_exp((own[i] - largest) * scale);
        if (slice_index(i) < p->slice.count) {
            uint64_t of = kernels_mass(own[i]);
            uint32_t bucket = bucket_of(own[i]);
            *mass += of;
            if (ranked) {
                wide_add(&p->words[bucket], &p->words[GPU_BUCKETS + bucket], of);
                atomicAdd(&p->words[2 * GPU_BUCKETS + bucket], 1u);
            }
        }
    }
    slice_store(&p->slice, p->weights, own);
}

GPU_KERNEL(sample_weigh)
{
    const struct gpu_sample *s = &args.sample;
    uint64_t mass = 0;
    struct part p;
    if (!part_init(&p, s) || p.row->temperature <= 0) {
        return;
    }
    struct largest largest = largest_of_slices(s, p.place, p.shared);
    bool ranked = gpu_row_is_ranked(p.row);
    if (largest.bad != 0) {
        return;
    }
    buckets_clear(p.words);
    part_weigh(&p, largest.value, ranked, &mass);
    __syncthreads();
    if (ranked) {
        buckets_add(memory_of(s, p.place), p.words);
        return;                         /* the buckets have the sums */
    }
    wide_add(&p.words[0], &p.words[1], mass);
    __syncthreads();
    if (threadIdx.x == 0) {
        part_slice(&p, s)->mass = wide_of(p.words[0], p.words[1]);
    }
}

/* ---- gather ---------------------------------------------------------------------------------- */

GPU_KERNEL(sample_gather)
{
    const struct gpu_sample *s = &args.sample;
    float own[GPU_SLICE_EACH];
    struct part p;
    if (!part_init(&p, s) || !gpu_row_is_ranked(p.row) ||
        largest_of_slices(s, p.place, p.shared).bad != 0) {
        return;
    }
    struct gpu_sample_memory *memory = memory_of(s, p.place);
    const struct leading leading = leading_of(memory, p.row, s->vocab_tokens, p.words);
    if (leading.count > GPU_LISTED_MAX) {
        return;
    }
    slice_load(&p.slice, p.weights, own);
    for (uint32_t i = 0; i < GPU_SLICE_EACH; i++) {
        uint32_t index = slice_index(i);
        if (index < p.slice.count && bucket_of(own[i]) >= leading.bucket) {
            uint32_t at = atomicAdd(&memory->listed, 1u);
            memory->list[at] = key_of(own[i], p.slice.first + index);
        }
    }
}
