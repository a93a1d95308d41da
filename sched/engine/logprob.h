/* SPDX-License-Identifier: MIT */
#pragma once
/* What: log probabilities out of the record of a step, into the ring of their call. */
#include "sched/engine/engine.h"

/* Copies those of output tokens first .. end - 1, which the row has sampled for its call. False
 * when no engine that works says this of the `tokens`, which are the output from `first` on: then
 * none of them may be published. True at once where the call did not ask. */
bool sched_logprob_take(const struct sched_engine *engine, uint32_t index, uint32_t first,
                        uint32_t end, const uint32_t *tokens);
