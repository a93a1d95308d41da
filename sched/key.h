/* SPDX-License-Identifier: MIT */
#pragma once
/* What: what the keys of programs are made of: their costs, what they have had, the ideal system.
 * All this costs nothing where the policy's key is made of something else. Private to sched/. */
#include "sched/kept.h"
#include "sched/sched.h"

void sched_key_plan_memory(struct memory_plan *plan, const struct sched_settings *settings);
void sched_key_init(struct sched *sched, struct arena *arena);
/* The call has joined its program. At its first call the program gets its cost, and its tag. */
void sched_key_arrive(struct sched *sched, const struct call *call, uint64_t now_us);
/* A plan admits the call, which has never had a row here: its prompt counts, unless it goes on with
 * tokens that a core had left. */
void sched_key_admit(struct sched *sched, const struct call *call);
/* A row of the step has ended: it fed the positions up to `fed`, and then produced so many. */
void sched_key_charge(struct sched *sched, const struct call *call, uint32_t fed,
                      uint32_t produced);
/* The step has ended, and all its rows are charged: the clock moves on. */
void sched_key_advance(const struct sched_engine *engine, uint64_t duration_us, uint32_t rounds);
/* The program is to cost this much in all, which is more than was foreseen. O(its open calls). */
void sched_key_foresee(struct sched *sched, uint32_t program, const struct sched_spent *cost,
                       uint64_t now_us);
/* What the program of this call has had has grown: its key follows. O(log programs). */
void sched_key_settle(struct sched *sched, const struct call *call, uint64_t now_us);
/* No call is open. */
void sched_key_rest(struct sched *sched, uint64_t now_us);
/* What another core has left of the clock, before the first program, and of a program that is in
 * the table again. Of no use to another policy than that core's. */
void sched_key_take_up_clock(struct sched *sched);
void sched_key_take_up(struct sched *sched, uint32_t program,
                       const struct sched_kept_version *kept, uint64_t now_us);
/* The process table forgets the program; the ideal system does not. */
void sched_key_forget(struct sched *sched, const struct program *program);
