/* SPDX-License-Identifier: MIT */
#pragma once
/* What: tells kvmem how much each program's KV is needed. kvmem's holders are the entries of the
 * process table. Private to sched/. */
#include "sched/call.h"

/* The job has come to stand at the head or the tail of its queue. O(log programs). */
void sched_need_queued(const struct sched_engine *engine, struct sched_job *job, bool at_head);
/* The job is held from now on, or no longer. While it is, KV that its calls have asked for is
 * needed less than what active programs have left. O(log programs). */
void sched_need_held(const struct sched_engine *engine, const struct sched_job *job);
/* The call is about to end and to give up its KV. O(log programs). */
void sched_need_ended(const struct sched *sched, const struct call *call);
/* The program is about to be forgotten. O(its cached KV blocks). */
void sched_need_forgotten(const struct sched *sched, uint32_t program);
