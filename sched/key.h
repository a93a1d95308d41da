/* SPDX-License-Identifier: MIT */
#pragma once
/* What: what the keys of programs are made of: their costs, how much of these they have received,
 * and the ideal system. Where a policy's key needs none of this, these functions do nothing.
 * Private to sched/. */
#include "sched/kept.h"
#include "sched/sched.h"

void sched_key_plan_memory(struct memory_plan *plan, const struct sched_settings *settings);
void sched_key_init(struct sched *sched, struct arena *arena);
/* The call has joined its program. At its first call the program gets its cost, and its tag. */
void sched_key_arrive(struct sched *sched, const struct call *call, uint64_t now_us);
/* A plan admits the call for the first time: its prompt counts as received, unless the call goes on
 * with tokens of an earlier core. */
void sched_key_admit(struct sched *sched, const struct call *call);
/* A row of the step has ended: it fed the positions up to `fed`, then produced so many tokens. */
void sched_key_charge(struct sched *sched, const struct call *call, uint32_t fed,
                      uint32_t produced);
/* The step has ended, and all its rows are charged: the clock moves on. */
void sched_key_advance(const struct sched_engine *engine, uint64_t duration_us, uint32_t rounds);
/* The program will cost this much in all, which may be more than was foreseen. O(its open calls).
 */
void sched_key_foresee(struct sched *sched, uint32_t program, const struct sched_spent *cost,
                       uint64_t now_us);
/* The program of this call has received more service: updates its key. O(log programs). */
void sched_key_settle(struct sched *sched, const struct call *call, uint64_t now_us);
/* No call is open. */
void sched_key_rest(struct sched *sched, uint64_t now_us);
/* Restores the clock as an earlier core has left it: before any program is restored. */
void sched_key_take_up_clock(struct sched *sched);
/* Restores the key of a program that is in the table again, if that core had the same policy. */
void sched_key_take_up(struct sched *sched, uint32_t program,
                       const struct sched_kept_version *kept, uint64_t now_us);
/* The process table forgets the program; the ideal system does not. */
void sched_key_forget(struct sched *sched, const struct program *program);
