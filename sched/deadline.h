/* SPDX-License-Identifier: MIT */
#pragma once
/* What: open calls by deadline, earliest first. Private to sched/. */
#include "sched/sched.h"

/* Calls without a deadline are not entered. O(log calls). */
void sched_deadline_push(struct sched *sched, const struct call *call);
/* Free when the call is not in the heap. O(log calls). */
void sched_deadline_remove(struct sched *sched, const struct call *call);
/* The call whose deadline is the earliest, or NULL. O(1). */
struct call *sched_deadline_first(const struct sched *sched);
/* Its deadline, or UINT64_MAX. O(1). */
uint64_t sched_deadline_next_us(const struct sched *sched);
/* Asserts the order of the heap; O(calls). */
void sched_deadline_check(const struct sched *sched);
