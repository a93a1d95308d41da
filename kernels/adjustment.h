/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: what a call changes of its logits before its next token is chosen. The order is fixed:
 *
 *   1 counts   a token that the call has generated `count` times loses
 *              count * frequency_penalty + presence_penalty
 *   2 repeats  of each distinct token of the last CALL_REPEAT_TOKENS, prompt included, a positive
 *              logit is divided by repeat_penalty, any other is multiplied by it
 *   3 biases   each bias is added to the logit of its token
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/call.h"

/* What a row gives beside its sampling. `produced` are the tokens of this step, oldest first; the
 * two lists before it end where it begins. */
struct kernels_given {
    const uint32_t *history;            /* the last tokens, of prompt and output */
    uint32_t history_count;
    const uint32_t *generated;          /* of all of the call's life, if a penalty counts them */
    uint32_t generated_count;
    const uint32_t *produced;
    uint32_t produced_count;
    const struct call_bias *biases;     /* [sampling.biases_count] */
};

struct kernels_logits {
    float *logits;                      /* (vocab_tokens) */
    uint32_t vocab_tokens;
    uint32_t *counts;                   /* (vocab_tokens): workspace */
};

/* True when there is something to change. */
bool kernels_adjusts(const struct call_sampling *sampling, const struct kernels_given *given);
/* Changes the logits. O(generated tokens + CALL_REPEAT_TOKENS^2 + biases). */
void kernels_adjust(const struct kernels_logits *logits, const struct call_sampling *sampling,
                    const struct kernels_given *given);
