/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the order in which programs become active, and make room. Private to sched/. */
#include "sched/engine/job.h"

/* Why a program has to leave: as config/base/events.def says. */
enum sched_why { SCHED_WHY_IDLE, SCHED_WHY_ORDER, SCHED_WHY_OVERFLOW, SCHED_WHY_FORCE };

/* True when the held job goes first, whatever its promise. */
bool sched_rank_is_starved(const struct sched_engine *engine, const struct sched_job *job,
                           uint64_t now_us);
/* The held job whose program becomes active next, or NULL. */
struct sched_job *sched_rank_next(const struct sched_engine *engine, uint64_t now_us);
/* The first held job that can run, or NULL. */
const struct sched_job *sched_rank_next_that_can_run(const struct sched_engine *engine);
/* Moves held jobs of which no call can run behind the others of their level. */
void sched_rank_pass_over(struct sched_engine *engine);
/* The program that yields to this job, and why; SCHED_PROGRAM_NONE: none does. `has_begun`: another
 * one has yielded to it in this pass already. */
uint32_t sched_rank_yielding(const struct sched_engine *engine, const struct sched_job *job,
                             bool has_begun, uint64_t now_us, enum sched_why *why);
/* The program that can best be spared, or SCHED_PROGRAM_NONE. */
uint32_t sched_rank_dispensable(const struct sched_engine *engine);
