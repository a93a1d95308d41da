/* SPDX-License-Identifier: MIT */
#pragma once
/* What: how a call comes to its KV blocks and how it loses them. Private to sched/. */
#include "sched/call.h"

/* Of a call without blocks. True when it would find all of its known tokens but the last one. O(1);
 * it may be wrong. */
bool sched_residency_is_kept(const struct sched_engine *engine, const struct call *call);
/* A call without blocks takes what is cached of its tokens; kv_tokens says how much that is. Then
 * either take or give_back, in the same plan. */
void sched_residency_claim(struct sched_engine *engine, struct call *call);
void sched_residency_give_back(struct sched_engine *engine, struct call *call, uint64_t now_us);
/* Room for `positions`, on the device; kvmem_missing() <= kvmem_available(). `claimed`: since the
 * claim. */
void sched_residency_take(struct sched_engine *engine, struct call *call, uint32_t positions,
                          bool claimed, uint64_t now_us);
/* It has to make room for another call and will be back: what it has computed is kept cached. */
void sched_residency_preempt(struct sched_engine *engine, struct call *call, uint64_t now_us);
/* The call ends: what it has computed is kept for calls with the same beginning; or, when it may
 * be `wrong`, forgotten. */
void sched_residency_end(struct sched_engine *engine, struct call *call, bool wrong,
                         uint64_t now_us);
/* Its blocks and what they hold are forgotten; it will be recomputed from its tokens. */
void sched_residency_drop(struct sched_engine *engine, struct call *call);
