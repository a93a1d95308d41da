/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the active set: the programs of an engine whose KV stays. Private to sched/. */
#include "sched/call.h"

void sched_active_plan_memory(struct memory_plan *plan, const struct sched_settings *settings);
void sched_active_init(struct sched_engine *engine, struct arena *arena);

/* True when every program is active, and nothing is counted. */
static inline bool sched_active_is_off(const struct sched *sched)
{
    return sched->settings.active_programs == SCHED_ACTIVE_ALL;
}

/* A call has arrived at the engine, and is not in a queue yet. O(log programs). */
void sched_active_arrive(struct sched_engine *engine, struct call *call,
                         const struct kvmem_answer *answer);
/* The call is in a queue, or held: makes held programs active as far as there is room for them.
 * O(the programs' calls). */
void sched_active_admit(struct sched_engine *engine, const struct call *call, uint64_t now_us);
/* The call is about to end. O(log programs). */
void sched_active_end_call(struct sched_engine *engine, const struct call *call);
/* A call of the program has ended. O(log programs). */
void sched_active_ended(struct sched_engine *engine, uint32_t program, uint64_t now_us);
/* The program is about to be forgotten. O(log programs). */
void sched_active_forget(struct sched *sched, uint32_t program);
/* The engine has no open call, and has lost its KV: no program is active. O(programs). */
void sched_active_clear(struct sched_engine *engine);
/* A plan passes over the call because its client does not read. */
void sched_active_stall(struct sched_engine *engine, const struct call *call, uint64_t now_us);
/* A plan gives the call a row. */
void sched_active_run(struct sched_engine *engine, const struct call *call);
/* Charges the call's program for service. `is_progress`: it computed something new. */
void sched_active_charge(struct sched_engine *engine, const struct call *call,
                         uint64_t duration_us, bool is_progress);
/* The call has more tokens than before. O(1). */
void sched_active_grow(struct sched_engine *engine, struct call *call);
/* Before a plan: decides which programs are active. O(SCHED_ACTIVE_LOOKS * log programs), and
 * O(blocks) for each that is displaced. */
void sched_active_pass(struct sched_engine *engine, uint64_t now_us);
/* No call of an active program can run: the first waiting program that can becomes active, and
 * displaces others if it must. False: there is none. */
bool sched_active_force(struct sched_engine *engine, uint64_t now_us);
/* Asserts what it can count. O(programs). */
void sched_active_check(const struct sched_engine *engine);

#define SCHED_ACTIVE_LOOKS 64
