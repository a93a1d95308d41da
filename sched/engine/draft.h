/* SPDX-License-Identifier: MIT */
#pragma once
/* What: which rows of a step may have drafts, of how many tokens, and guessed from what. Private to
 * sched/. */
#include "sched/call.h"

/* The rows of the plan are there: those that decode get what room the batch has left, a token at a
 * time, while one more is worth it. O(rows * sched.speculate). */
void sched_draft_plan(struct sched_engine *engine);
/* True when an engine that works can have said this of the row's drafts. */
bool sched_draft_is_possible(const struct sched_engine *engine, uint32_t row);
/* The row counts: its program's share of tokens that agree, and statistics. */
void sched_draft_settle(struct sched_engine *engine, uint32_t row, uint64_t now_us);
/* A step without prompts took so long: what a token slot adds to a round. O(rows). */
void sched_draft_learn(struct sched_engine *engine, uint64_t duration_us, uint32_t rounds);
