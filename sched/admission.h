/* SPDX-License-Identifier: MIT */
#pragma once
/* What: admission of a call. Private to sched/. */
#include "sched/sched.h"

/* Queues the call, which is INTAKE, as one of its program. A new program joins the class of this
 * name. When the status is not OK, nothing has changed. */
MUST_CHECK enum status sched_admit(struct sched *sched, struct call *call, const char *class_name,
                                   uint64_t now_us);
/* Puts the call, which is QUEUED, into the queues of its engine. O(log calls), and a question to
 * kvmem. */
void sched_admission_enter(struct sched *sched, struct call *call, uint64_t now_us);
