/* SPDX-License-Identifier: MIT */
#pragma once
/* What: admission of a call. Private to sched/. */
#include "sched/sched.h"

/* The call, which is INTAKE, is QUEUED from now on, as one of its program and of this class; or
 * nothing has changed, and the status says why not. */
MUST_CHECK enum status sched_admit(struct sched *sched, struct call *call, const char *class_name,
                                   uint64_t now_us);
/* The call, which is QUEUED, goes into the queues of its engine. O(log calls), and a look at what
 * is there for it. */
void sched_admission_enter(struct sched *sched, struct call *call, uint64_t now_us);
