/* SPDX-License-Identifier: MIT */
#pragma once
/* What: admission of a call. Private to sched/. */
#include "sched/sched.h"

/* The call, which is INTAKE, is QUEUED from now on, as one of its program and of this class; or
 * nothing has changed, and the status says why not. */
MUST_CHECK enum status sched_admit(struct sched *sched, struct call *call, const char *class_name,
                                   uint64_t now_us);
