/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: what a program will cost, foreseen from its first prompt by what tools/predict has learnt
 * of its class (config/model/predictor.h).
 */
#include <stdint.h>

#include "config/model/predictor.h"

/* NULL: there is no predictor, or it has no class of this name. O(log classes). */
const struct predictor_class *sched_predictor_find(const struct predictor *predictor,
                                                   const char *name, uint32_t bytes);
/* In KV token-rounds, 1 or more, within the range of the class's samples. Of the prompt's `count`
 * tokens the first PREDICTOR_TOKENS are read. The same bits on every machine. */
uint64_t sched_predictor_cost(const struct predictor_class *class, const uint32_t *tokens,
                              uint32_t count);
