/* SPDX-License-Identifier: MIT */
#pragma once
/* What: instances that are ready, into calls; and back. Private to sched/. */
#include "sched/workflow/instance.h"

/* Calls, fetches or shares ready instances of the workflow, the best first, until its window is
 * full, no call slot is free, or this pass has composed enough. */
void sched_release(struct sched *sched, struct workflow *flow, uint64_t now_us);
/* What it costs to execute all rows that have come, by the client's estimates. */
struct sched_spent sched_release_cost(const struct sched *sched, const struct workflow *flow);
/* A call of a workflow has ended: its value, if it has one, goes on. */
void sched_release_ended(struct sched *sched, const struct call *call, uint64_t now_us);
/* No instance of the workflow waits for the prompt cache any more, and its calls end. */
void sched_release_cancel(struct sched *sched, struct workflow *flow, uint64_t now_us);
