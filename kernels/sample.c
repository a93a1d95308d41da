/* SPDX-License-Identifier: MIT
 *
 * What: sampling (kernels/sample.h states the order).
 *
 * Invariants: the result is a pure function of logits, sampling, what is given and position. Sums
 * are of integers (kernels/draw.h). Logits are finite, so weights lie in (0, 1] and the heaviest is
 * 1. Only an adjustment of logits near the largest float could break that, and then the walk
 * still ends.
 *
 * Bounds: a heap of ids in the caller's memory; no sort of the whole vocabulary unless top_p needs
 * nearly all of it.
 *
 * Why a heap and not a partial sort by pivots: its worst case equals its average, and the
 * comparison decides the order among equals, not the algorithm.
 */
#include "kernels/sample.h"

#include <string.h>

#include "kernels/draw.h"

/* ---- ranking: heaviest first, the lower id of equals ---- */

static bool ranks_before(const float *weights, uint32_t a, uint32_t b)
{
    return weights[a] > weights[b] || (weights[a] == weights[b] && a < b);
}

static void heap_sink(uint32_t *heap, uint32_t count, uint32_t at, const float *weights)
{
    uint32_t id = heap[at];
    for (uint32_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && ranks_before(weights, heap[child + 1], heap[child])) {
            child++;
        }
        if (!ranks_before(weights, heap[child], id)) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = id;
}

/* The candidates: a heap at the front of `ids`; at the end those already ranked, heaviest last. */
struct ranking {
    uint32_t *ids;
    uint32_t vocab_tokens;
    uint32_t ranked;
    const float *weights;
};

static void ranking_init(struct ranking *ranking, const struct kernels_sampler *sampler)
{
    uint32_t vocab_tokens = sampler->vocab_tokens;
    *ranking = (struct ranking){
        .ids = sampler->ranking,
        .vocab_tokens = vocab_tokens,
        .weights = sampler->weights,
    };
    for (uint32_t i = 0; i < vocab_tokens; i++) {
        ranking->ids[i] = i;
    }
    for (uint32_t i = vocab_tokens / 2; i-- > 0;) {
        heap_sink(ranking->ids, vocab_tokens, i, sampler->weights);
    }
}

/* The id of rank `rank`. The first request for each rank comes in order. */
static uint32_t ranking_id(struct ranking *ranking, uint32_t rank)
{
    ASSERT(rank <= ranking->ranked && rank < ranking->vocab_tokens);
    uint32_t cell = ranking->vocab_tokens - 1 - rank;
    if (rank == ranking->ranked) {
        uint32_t first = ranking->ids[0];
        ranking->ids[0] = ranking->ids[cell];
        heap_sink(ranking->ids, cell, 0, ranking->weights);
        ranking->ids[cell] = first;
        ranking->ranked++;
    }
    return ranking->ids[cell];
}

/* The number of heaviest candidates that top_k, top_p and min_p keep; at least one. */
static uint32_t survivors(struct ranking *ranking, const struct call_sampling *sampling)
{
    const float *weights = ranking->weights;
    uint32_t limit = ranking->vocab_tokens;
    uint64_t total = 0;
    if (sampling->top_k > 0 && sampling->top_k < limit) {
        limit = sampling->top_k;
        for (uint32_t rank = 0; rank < limit; rank++) {
            total += kernels_mass(weights[ranking_id(ranking, rank)]);
        }
    } else {
        for (uint32_t id = 0; id < limit; id++) {
            total += kernels_mass(weights[id]);
        }
    }
    double enough = (sampling->top_p < 1 ? (double)sampling->top_p : 2.0) * (double)total;
    float least = sampling->min_p * weights[ranking_id(ranking, 0)];
    uint64_t sum = 0;
    uint32_t count = 0;
    while (count < limit && (count == 0 || (double)sum < enough)) {
        float weight = weights[ranking_id(ranking, count)];
        if (count > 0 && weight < least) {
            break;
        }
        sum += kernels_mass(weight);
        count++;
    }
    return count;
}

static uint32_t draw_ranked(struct ranking *ranking, uint32_t count, double u)
{
    uint64_t total = 0;
    for (uint32_t rank = 0; rank < count; rank++) {
        total += kernels_mass(ranking->weights[ranking_id(ranking, rank)]);
    }
    uint64_t sum = 0;
    for (uint32_t rank = 0; rank + 1 < count; rank++) {
        sum += kernels_mass(ranking->weights[ranking_id(ranking, rank)]);
        if ((double)sum > u * (double)total) {
            return ranking_id(ranking, rank);
        }
    }
    return ranking_id(ranking, count - 1);
}

static uint32_t draw_all(const float *weights, uint32_t vocab_tokens, double u)
{
    uint64_t total = 0;
    for (uint32_t id = 0; id < vocab_tokens; id++) {
        total += kernels_mass(weights[id]);
    }
    uint64_t sum = 0;
    for (uint32_t id = 0; id + 1 < vocab_tokens; id++) {
        sum += kernels_mass(weights[id]);
        if ((double)sum > u * (double)total) {
            return id;
        }
    }
    return vocab_tokens - 1;
}

uint32_t kernels_sample(struct kernels_sampler *sampler, const float *logits,
                        const struct call_sampling *sampling, const struct kernels_given *given,
                        uint32_t position)
{
    uint32_t vocab_tokens = sampler->vocab_tokens;
    ASSERT(vocab_tokens > 0);
    bool adjust = kernels_adjusts(sampling, given);
    bool greedy = sampling->temperature <= 0;
    if (greedy && !adjust) {
        return sampler->ops->largest(logits, vocab_tokens);
    }
    float *weights = sampler->weights;
    memcpy(weights, logits, vocab_tokens * sizeof *weights);
    if (adjust) {
        const struct kernels_logits all = {weights, vocab_tokens, sampler->ranking};
        kernels_adjust(&all, sampling, given);
    }
    if (greedy) {
        return sampler->ops->largest(weights, vocab_tokens);
    }
    sampler->ops->exponentiate(weights, vocab_tokens, 1.0f / sampling->temperature);
    double u = kernels_uniform(sampling->seed, position);
    if (sampling->top_k == 0 && sampling->top_p >= 1 && sampling->min_p <= 0) {
        return draw_all(weights, vocab_tokens, u);
    }
    struct ranking ranking;
    ranking_init(&ranking, sampler);
    return draw_ranked(&ranking, survivors(&ranking, sampling), u);
}
