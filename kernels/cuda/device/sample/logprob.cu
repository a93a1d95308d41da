/* SPDX-License-Identifier: MIT */
/*
 * What: log probabilities of what the places have sampled (kernels/logprob.h states the rule).
 * There is a thread block for each place.
 *
 * The largest logits come one after the other: each is the first, in the order of the ranking,
 * behind the one before. That reads the logits as often as there are entries, and needs no memory.
 * The sum is of integers, so the order of additions does not matter.
 */
#include "kernels/cuda/device/sample/slice.h"
#include "kernels/draw.h"
#include "kernels/exp.h"

struct logprobs {
    const float *logits;                /* (vocab) */
    uint32_t vocab;
    struct largest *shared;             /* (GPU_WARPS_MAX) */
    uint32_t *low, *high;               /* of the sum of weights; shared */
};

/* The first token behind `before`; the first of all, if that is none. Begins and ends with a
 * barrier. */
GPU_INLINE struct largest logprob_next(const struct logprobs *l, struct largest before)
{
    struct largest own = largest_none();
    for (uint32_t id = threadIdx.x; id < l->vocab; id += blockDim.x) {
        struct largest of = {l->logits[id], id, 0};
        if (before.id == GPU_NONE || of.value < before.value ||
            (of.value == before.value && of.id > before.id)) {
            largest_add(&own, of);
        }
    }
    return largest_of_all(own, l->shared);
}

/* The sum of all weights. Begins and ends with a barrier. */
GPU_INLINE uint64_t logprob_total(const struct logprobs *l, float largest)
{
    uint64_t own = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        *l->low = *l->high = 0;
    }
    __syncthreads();
    for (uint32_t id = threadIdx.x; id < l->vocab; id += blockDim.x) {
        own += kernels_mass(kernels_exp(l->logits[id] - largest));
    }
    wide_add(l->low, l->high, own);
    __syncthreads();
    return wide_of(*l->low, *l->high);
}

GPU_INLINE void logprob_tell(const struct logprobs *l, struct gpu_entry *entries, uint32_t count,
                             uint32_t token)
{
    struct largest first = logprob_next(l, largest_none()), next = first;
    double log_total = kernels_log_total(logprob_total(l, first.value));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t id = i == 0 ? token : next.id;
        if (threadIdx.x == 0) {
            entries[i].token = id;
            entries[i].logprob =
                kernels_logprob(l->logits[id], first.value, log_total, -GPU_LOGPROB_MAX);
        }
        if (i > 0 && i + 1 < count) {
            next = logprob_next(l, next);
        }
    }
}

GPU_KERNEL(logprob)
{
    const struct gpu_place *place = (const struct gpu_place *)args.places + blockIdx.x;
    if (place->slot == GPU_NONE) {
        return;
    }
    const struct gpu_row *row = (const struct gpu_row *)args.rows + place->row;
    const struct gpu_out *out = (const struct gpu_out *)args.outs + place->row;
    if (row->entries == 0 || place->token == GPU_NONE) {
        return;
    }
    struct logprobs l;
    l.logits = (const float *)args.logits + blockIdx.x * args.logits_stride;
    l.vocab = args.vocab_tokens;
    l.shared = (struct largest *)gpu_shared;
    l.low = (uint32_t *)(l.shared + GPU_WARPS_MAX);
    l.high = l.low + 1;
    uint64_t first = (uint64_t)place->row * args.steps_max * GPU_ENTRIES_MAX +
                     (out->produced + place->ahead) * row->entries;
    logprob_tell(&l, (struct gpu_entry *)args.entries + first, row->entries, place->token);
}
