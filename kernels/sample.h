/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the next token of one call from its logits. The order is fixed:
 *
 *   1 adjustment   penalties and biases change logits (kernels/adjustment.h)
 *   2 greedy       temperature 0: the largest logit, of equal ones the lowest id; done
 *   3 temperature  weight = exp((logit - largest) / temperature)
 *   4 top_k        keeps the k heaviest, of equal ones the lower ids
 *   5 top_p        of these, keeps the heaviest whose sum first reaches top_p of their total
 *   6 min_p        of these, keeps those of at least min_p times the heaviest
 *   7 draw         walks the candidates until the sum of weights exceeds u times their total; u is
 *                  a hash of (seed, position). Heaviest first if 4, 5 or 6 is on, else by id.
 *
 * In sums a weight is an integer (kernels/draw.h), so that the GPU may add in another order.
 */
#include "kernels/adjustment.h"
#include "kernels/ops.h"

/* One thread's memory: weights and ranking of a whole vocabulary. */
struct kernels_sampler {
    const struct kernels_ops *ops;
    uint32_t vocab_tokens;
    float *weights;             /* (vocab_tokens, padded) */
    uint32_t *ranking;          /* (vocab_tokens) */
};

/* The token for `position`. `logits` (vocab_tokens) are finite and stay as they are. Cost:
 * O(vocab), with top_p and a flat distribution O(vocab log vocab). */
uint32_t kernels_sample(struct kernels_sampler *sampler, const float *logits,
                        const struct call_sampling *sampling, const struct kernels_given *given,
                        uint32_t position);
