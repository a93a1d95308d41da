/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: log probabilities of tokens by the model's own distribution: the softmax of the logits as
 * the forward pass gave them, before penalties, biases, temperature and cuts.
 *
 *   total        the sum of exp(logit - largest) over the vocabulary, in integers (draw.h)
 *   logprob(t)   ((logit(t) - largest) - ln total), in doubles, rounded to a float; at least
 *                -CALL_LOGPROB_MAX
 *
 * A weight below 2^-40 counts as zero in the total, so a logprob is too high by at most
 * vocab_tokens * 2^-40. Twins agree bit for bit.
 */
#include "config/base/call.h"
#include "kernels/sample.h"

/* The entries of `token`: its own, then the count - 1 tokens with the largest logits, of equal ones
 * the lower ids first; count - 1 <= vocab_tokens. `logits` are finite and stay as they are. Uses
 * the sampler's memory. O(vocab * count) at worst, and O(vocab) where logits are in no order. */
void kernels_logprobs(struct kernels_sampler *sampler, const float *logits, uint32_t token,
                      struct call_logprob *entries, uint32_t count);
