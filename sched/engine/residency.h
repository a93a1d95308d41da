/* SPDX-License-Identifier: MIT */
#pragma once
/* What: how a call comes to its KV blocks and how it loses them. Private to sched/. */
#include "sched/call.h"

/* What is there for the call: the blocks that it owns, which hold kv_tokens positions; or what is
 * cached of its known tokens. `whole`: less than all of these but the last is of no use. Changes
 * nothing. Then commit or touch, in the same plan. */
struct kvmem_answer sched_residency_ask(const struct sched_engine *engine, const struct call *call,
                                        bool whole);
/* The call gets what the answer names, and room for `positions`, which fit (kvmem_fits). */
void sched_residency_commit(struct sched_engine *engine, struct call *call,
                            const struct kvmem_answer *answer, uint32_t positions,
                            uint64_t now_us);
/* The call cannot have it in this plan, and will ask again. */
void sched_residency_touch(struct sched_engine *engine, const struct call *call,
                           const struct kvmem_answer *answer, uint64_t now_us);
/* What is there for a call that arrives. Then touch: what is cached for it is needed as much as its
 * program is. */
struct kvmem_answer sched_residency_look(const struct sched_engine *engine,
                                         const struct call *call);
/* It has to make room for another call and will be back: what it has computed is kept cached. */
void sched_residency_preempt(struct sched_engine *engine, struct call *call, uint64_t now_us);
/* The call ends: what it has computed is kept for calls with the same beginning; or, when it may
 * be `wrong`, forgotten. */
void sched_residency_end(struct sched_engine *engine, struct call *call, bool wrong,
                         uint64_t now_us);
/* Its blocks and what they hold are forgotten; it will be recomputed from its tokens. */
void sched_residency_drop(struct sched_engine *engine, struct call *call);
