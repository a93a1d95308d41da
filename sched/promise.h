/* SPDX-License-Identifier: MIT */
#pragma once
/* What: how soon programs may be expected to end. Private to sched/. */
#include "sched/sched.h"

/* A program has ended, or is forgotten, after this service. */
void sched_promise_note(struct sched *sched, uint64_t service_us);
/* Between two plans: promises follow what was noted. O(1), but for one time in 16 notes: O(buckets
 * in which there are programs, squared). */
void sched_promise_learn(struct sched *sched);
/* Of a program that has had this service: the larger, the better it is to go on with it. O(1). */
uint64_t sched_promise_of(const struct sched *sched, uint64_t service_us);
