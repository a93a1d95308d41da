/* SPDX-License-Identifier: MIT */
/*
 * What: log probabilities (kernels/logprob.h states them).
 *
 * Invariants: the largest logit has weight 1, so the total is at least 2^40 and no log probability
 * is above 0. A pure function of the logits and the token.
 * Bounds: one pass for the exponentials, one for the sum, one for the largest.
 * Why a list and no heap: there are at most CALL_TOP_LOGPROBS_MAX, and most logits are below all.
 */
#include "kernels/logprob.h"

#include <string.h>

#include "kernels/draw.h"

/* Puts the tokens of the largest logits into `entries`, largest first. */
static void find_largest(const float *logits, uint32_t vocab_tokens, struct call_logprob *entries,
                         uint32_t count)
{
    uint32_t found = 0;
    for (uint32_t id = 0; id < vocab_tokens && count > 0; id++) {
        if (found == count && !(logits[id] > logits[entries[count - 1].token])) {
            continue;
        }
        uint32_t at = found < count ? found++ : count - 1;
        for (; at > 0 && logits[id] > logits[entries[at - 1].token]; at--) {
            entries[at].token = entries[at - 1].token;
        }
        entries[at].token = id;
    }
    ASSERT(found == count);
}

static uint64_t total_mass(const struct kernels_sampler *sampler, const float *logits)
{
    uint64_t total = 0;
    memcpy(sampler->weights, logits, sampler->vocab_tokens * sizeof *logits);
    sampler->ops->exponentiate(sampler->weights, sampler->vocab_tokens, 1.0f);
    for (uint32_t id = 0; id < sampler->vocab_tokens; id++) {
        total += kernels_mass(sampler->weights[id]);
    }
    return total;
}

void kernels_logprobs(struct kernels_sampler *sampler, const float *logits, uint32_t token,
                      struct call_logprob *entries, uint32_t count)
{
    ASSERT(token < sampler->vocab_tokens && count > 0);
    double log_total = kernels_log_total(total_mass(sampler, logits));
    float largest = logits[sampler->ops->largest(logits, sampler->vocab_tokens)];
    entries[0].token = token;
    find_largest(logits, sampler->vocab_tokens, entries + 1, count - 1);
    for (uint32_t i = 0; i < count; i++) {
        entries[i].logprob = kernels_logprob(logits[entries[i].token], largest, log_total,
                                             -CALL_LOGPROB_MAX);
    }
}
