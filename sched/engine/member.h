/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the part of a program that lies at one engine: its KV, its jobs, the list of its open calls
 * there. Private to sched/. */
#include "sched/call.h"

void sched_member_plan_memory(struct memory_plan *plan, const struct sched_settings *settings);
void sched_member_init(struct sched_engine *engine, struct arena *arena);

static inline struct sched_member *sched_member_at(const struct sched_engine *engine,
                                                   uint32_t program)
{
    ASSERT(program < engine->sched->settings.programs);
    return &engine->members[program];
}

/* The member of the call's program at the call's engine. */
static inline struct sched_member *sched_member_of(const struct sched *sched,
                                                   const struct call *call)
{
    return sched_member_at(sched_engine_of(sched, call), call->program);
}

/* An open call of the program, on any engine; NULL: it has none. O(engines). */
struct call *sched_member_any_call(const struct sched *sched, uint32_t program);
/* True when one of the program's newest `looks` open calls at the engine can run. */
bool sched_member_can_run(const struct sched_engine *engine, uint32_t program, uint32_t looks);
/* The program starts: its member at the engine is empty. */
void sched_member_begin(struct sched_engine *engine, uint32_t program);
/* The call comes to its engine, or leaves it. O(1). */
void sched_member_join(struct sched *sched, struct call *call);
void sched_member_leave(struct sched *sched, struct call *call);
/* Asserts that lists and counts agree. O(programs + calls). */
void sched_member_check(const struct sched_engine *engine);
