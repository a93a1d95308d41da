/* SPDX-License-Identifier: MIT */
#pragma once
/* What: calls that have waited too long go to the first queue. Private to sched/. */
#include "sched/sched.h"

/* Calls looked at in each queue and pass, besides its head. */
#define SCHED_STARVATION_CHECKS_MAX 64

/* Algorithm 1, lines 24 to 30. No step is in flight. */
void sched_starvation_pass(struct sched_engine *engine, uint64_t now_us);
