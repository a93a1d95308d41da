/* SPDX-License-Identifier: MIT */
/*
 * What: log probabilities of what the places have sampled (kernels/logprob.h states the rule).
 * There is a thread block for each place.
 *
 * The largest logits come one after the other: each is the first, in the order of the ranking,
 * behind the one before. That reads the logits as often as there are entries, and needs no memory.
 * The sum is of integers, so the order of additions does not matter.
 */
#include "kernels/cuda/device/number.h"
#include "kernels/draw.h"
#include "kernels/exp.h"

struct logprobs {
    const float *logits;                /* (vocab) */
    uint32_t vocab;
    unsigned long long *total;          /* shared */
    uint32_t *ids;                      /* shared: (CUDA threads) */
};

/* True when token a comes before token b, by logits and then by ids; GPU_NONE comes last. */
GPU_INLINE bool logprob_ranks_before(const float *logits, uint32_t a, uint32_t b)
{
    if (a == GPU_NONE || b == GPU_NONE) {
        return a != GPU_NONE;
    }
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
}

/* The first token behind `before`; of all of them, if that is GPU_NONE. Each CUDA thread finds its
 * own, then half of them compare with the other half. Begins and ends with a barrier. */
GPU_INLINE uint32_t logprob_next(const struct logprobs *l, uint32_t before)
{
    uint32_t best = GPU_NONE;
    for (uint32_t id = threadIdx.x; id < l->vocab; id += blockDim.x) {
        bool is_behind = before == GPU_NONE || logprob_ranks_before(l->logits, before, id);
        best = is_behind && logprob_ranks_before(l->logits, id, best) ? id : best;
    }
    __syncthreads();
    l->ids[threadIdx.x] = best;
    __syncthreads();
    for (uint32_t half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half &&
            logprob_ranks_before(l->logits, l->ids[threadIdx.x + half], l->ids[threadIdx.x])) {
            l->ids[threadIdx.x] = l->ids[threadIdx.x + half];
        }
        __syncthreads();
    }
    return l->ids[0];
}

/* The sum of all weights. Begins and ends with a barrier. */
GPU_INLINE uint64_t logprob_total(const struct logprobs *l, float largest)
{
    unsigned long long own = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        *l->total = 0;
    }
    __syncthreads();
    for (uint32_t id = threadIdx.x; id < l->vocab; id += blockDim.x) {
        own += kernels_mass(kernels_exp(l->logits[id] - largest));
    }
    atomicAdd(l->total, own);
    __syncthreads();
    return *l->total;
}

GPU_INLINE void logprob_tell(const struct logprobs *l, struct gpu_entry *entries, uint32_t count,
                             uint32_t token)
{
    uint32_t first = logprob_next(l, GPU_NONE), next = first;
    float largest = l->logits[first];
    double log_total = kernels_log_total(logprob_total(l, largest));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t id = i == 0 ? token : next;
        if (threadIdx.x == 0) {
            entries[i].token = id;
            entries[i].logprob =
                kernels_logprob(l->logits[id], largest, log_total, -GPU_LOGPROB_MAX);
        }
        if (i > 0 && i + 1 < count) {
            next = logprob_next(l, id);
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
    if (row->entries == 0 || out->result != GPU_ROW_OK) {
        return;
    }
    struct logprobs l;
    l.logits = (const float *)args.logits + blockIdx.x * args.logits_stride;
    l.vocab = args.vocab_tokens;
    l.total = (unsigned long long *)gpu_shared;
    l.ids = (uint32_t *)(l.total + 1);
    uint64_t first = (uint64_t)place->row * args.steps_max * GPU_ENTRIES_MAX +
                     (out->produced - 1) * row->entries;
    uint32_t token = ((const uint32_t *)args.out_tokens)[(uint64_t)place->row * args.steps_max +
                                                         out->produced - 1];
    logprob_tell(&l, (struct gpu_entry *)args.entries + first, row->entries, token);
}
