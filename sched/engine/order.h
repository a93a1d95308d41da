/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the index of a queue whose jobs are in the order of a key. Private to sched/. */
#include "sched/engine/job.h"

/* The job after which this one belongs in its queue, or SCHED_JOB_NONE: it belongs at the head.
 * O(log jobs) expected. */
uint32_t sched_order_find(const struct sched_engine *engine, const struct sched_job *job);
/* True when the job, whose key has changed, stands where it belongs. O(1). */
bool sched_order_fits(const struct sched *sched, const struct sched_job *job);
/* The job has been linked into its queue. O(1) expected. */
void sched_order_add(struct sched_engine *engine, const struct sched_job *job);
/* The job leaves its queue. O(1) expected. */
void sched_order_remove(struct sched_engine *engine, const struct sched_job *job);
/* Asserts that the job's node fits those around it and the queue. */
void sched_order_check(const struct sched_engine *engine, const struct sched_job *job);
