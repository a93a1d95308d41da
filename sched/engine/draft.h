/* SPDX-License-Identifier: MIT */
#pragma once
/* What: which rows of a step may have drafts, of how many tokens, and guessed from what. Private to
 * sched/. */
#include "sched/call.h"

/* After the rows are planned: divides the room that the batch has left among the rows that decode,
 * a token at a time, as long as one more is worth it. O(rows * sched.speculate). */
void sched_draft_plan(struct sched_engine *engine);
/* True when a working engine can have reported this of the row's drafts. */
bool sched_draft_is_possible(const struct sched_engine *engine, uint32_t row);
/* The row is settled: updates its program's share of tokens that agree, and statistics. */
void sched_draft_settle(struct sched_engine *engine, uint32_t row, uint64_t now_us);
/* Learns what a token slot adds to a round, from a step without prompts. O(rows). */
void sched_draft_learn(struct sched_engine *engine, uint64_t duration_us, uint32_t rounds);
