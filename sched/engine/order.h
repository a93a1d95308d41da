/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the index of a queue whose calls are in the order of a key. Private to sched/. */
#include "sched/engine/job.h"

/* The call after which a call with this key belongs in the queue of the job: the last one whose key
 * is not larger. It is CALL_NONE where that is the head. O(log calls) expected. */
uint32_t sched_order_find(const struct sched_engine *engine, const struct sched_job *job,
                          uint64_t key);
/* The call has been linked into the list of all calls of its queue. O(1) expected. */
void sched_order_add(struct sched_engine *engine, const struct call *call);
/* The call leaves that list. O(1) expected. */
void sched_order_remove(struct sched_engine *engine, const struct call *call);
/* Asserts that the call's node fits those around it and the list. */
void sched_order_check(const struct sched_engine *engine, const struct call *call);
