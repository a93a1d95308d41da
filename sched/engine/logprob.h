/* SPDX-License-Identifier: MIT */
#pragma once
/* What: log probabilities, from the record of a step into the ring of their call. */
#include "sched/engine/engine.h"

/* Copies those of output tokens first .. end - 1, which are `tokens` and which the row has sampled.
 * False when no working engine can have reported this: none of the tokens may be published then.
 * True at once where the call did not ask. */
bool sched_logprob_take(const struct sched_engine *engine, uint32_t index, uint32_t first,
                        uint32_t end, const uint32_t *tokens);
