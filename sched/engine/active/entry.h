/* SPDX-License-Identifier: MIT */
#pragma once
/* What: which calls that have no blocks may get some. Private to sched/. */
#include "sched/engine/plan.h"

/* Tokens for which room is reserved beside the call's row before another call may enter. O(1). */
uint32_t sched_entry_reserve(const struct sched_engine *engine, const struct call *call,
                             const struct sched_row *row);
/* True when the call may take the blocks of later calls of its tenant. O(1). */
bool sched_entry_takes(const struct sched_walk *walk, const struct call *call);
/* True when the call, for whose row there is room, may expect to keep the blocks that it gets.
 * O(queues). */
bool sched_entry_is_worth_it(const struct sched_walk *walk, const struct call *call,
                             const struct kvmem_answer *answer, const struct sched_row *row);
