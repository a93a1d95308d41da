/* SPDX-License-Identifier: MIT */
#pragma once
/* What: how a plan deals its rows to tenants, and from whom it takes blocks. Private to sched/. */
#include "sched/engine/plan.h"

/* A plan begins: each lane that has jobs gets a hand. O(tenants). */
void sched_deal_begin(struct sched_engine *engine);
/* The lane that has the next call of the plan, or NULL: none has one. O(tenants). */
struct sched_lane *sched_deal_next(const struct sched_walk *walk);
/* A call of the lane has a row that feeds so many tokens. */
void sched_deal_row(const struct sched_engine *engine, struct sched_lane *lane,
                    const struct call *call, uint32_t chunk);
/* From here on the walk visits only calls that have, or have had, blocks: notes whether the lane
 * has another call that can run. O(1). */
void sched_deal_limit(struct sched_engine *engine, struct sched_lane *lane);
/* The batch is chosen: notes which tenants want more. O(tenants). */
void sched_deal_end(struct sched_engine *engine);
/* Begins another search where the walk has ended. O(tenants). */
void sched_deal_again(struct sched_engine *engine);
/* True when the walk has come past all calls, and has kept none out. O(tenants). */
bool sched_deal_is_over(const struct sched_engine *engine);
/* The next resident call that makes room for a call of lane `taker`, or NULL. `takes_own`: it may
 * be a later call of the same lane. O(tenants). */
struct call *sched_deal_victim(const struct sched_walk *walk, const struct sched_lane *taker,
                               bool takes_own);
/* True when the walk has yet to come to a resident call of the lane that can run. O(queues, and
 * resident calls that cannot). */
bool sched_deal_has_later(const struct sched_engine *engine, const struct sched_lane *lane);
/* True when a call of this job that arrives now would have got a row of the last plan, in place of
 * another call. */
bool sched_deal_displaces(const struct sched_engine *engine, const struct sched_job *job);
