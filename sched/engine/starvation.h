/* SPDX-License-Identifier: MIT */
#pragma once
/* What: jobs that have waited too long go to the first queue. Private to sched/. */
#include "sched/sched.h"

#define SCHED_STARVATION_CHECKS_MAX 64  /* jobs looked at in a queue and pass, besides its head */

/* A call of the job was in a step for this time. */
void sched_starvation_charge(struct sched_engine *engine, const struct sched_job *job,
                             uint64_t duration_us);
/* A step has ended, and all jobs in it are charged. */
void sched_starvation_settle(struct sched_engine *engine, uint64_t duration_us);
/* Algorithm 1, lines 24 to 30. No step is in flight. */
void sched_starvation_pass(struct sched_engine *engine, uint64_t now_us);
