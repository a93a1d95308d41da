/* SPDX-License-Identifier: MIT */
#pragma once
/* What: how a call gets its KV blocks, and how it loses them. Private to sched/. */
#include "sched/call.h"

/* Asks which KV there is for the call: the blocks that it owns, which hold kv_tokens positions; or
 * what is cached of its known tokens. `whole`: anything less than all but the last token is of no
 * use. Changes nothing. A commit or a touch has to follow in the same plan. */
struct kvmem_answer sched_residency_ask(const struct sched_engine *engine, const struct call *call,
                                        bool whole);
/* Gives the call what the answer found, and room for `positions`, which fit (kvmem_fits). */
void sched_residency_commit(struct sched_engine *engine, struct call *call,
                            const struct kvmem_answer *answer, uint32_t positions,
                            uint64_t now_us);
/* The call gets nothing in this plan, and will ask again: what was found stays in demand. */
void sched_residency_touch(struct sched_engine *engine, const struct call *call,
                           const struct kvmem_answer *answer, uint64_t now_us);
/* The same question for a call that arrives. A touch has to follow: what is cached for the call is
 * then needed as much as its program's KV. */
struct kvmem_answer sched_residency_look(const struct sched_engine *engine,
                                         const struct call *call);
/* The call makes room for another one and will be back: what it has computed stays cached. */
void sched_residency_preempt(struct sched_engine *engine, struct call *call, uint64_t now_us);
/* The call ends: what it has computed stays cached for calls with the same beginning or, when it
 * may be `wrong`, is forgotten. */
void sched_residency_end(struct sched_engine *engine, struct call *call, bool wrong,
                         uint64_t now_us);
/* The call loses its blocks and their contents, and will be recomputed from its tokens. */
void sched_residency_drop(struct sched_engine *engine, struct call *call);
