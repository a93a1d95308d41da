/* SPDX-License-Identifier: MIT */
#pragma once
/* What: how soon programs may be expected to end. Private to sched/. */
#include <stdbool.h>

#include "sched/services.h"

/* Promises, and what they are made from (promise.c). */
struct sched_promises {
    struct sched_services ended;            /* programs that have ended */
    uint64_t of[SCHED_SERVICE_BUCKETS];     /* of a program with this service; 0: unknown */
};

/* A program has ended, or is forgotten, after this service. */
void sched_promise_note(struct sched_promises *promises, uint64_t service_us);
/* Adapts promises to what was noted. O(1), but for one call in 16 notes: O(buckets in which there
 * are programs, squared). */
void sched_promise_learn(struct sched_promises *promises);
/* The promise of a program that has received this service: the larger, the more it is worth to go
 * on with it; 0: too few programs are known. O(1). */
uint64_t sched_promise_of(const struct sched_promises *promises, uint64_t service_us);
/* The service that the program needs to its end, as far as that decides who goes first: the
 * geometric mean of it and of all its service, where the end is certain; UINT64_MAX: unknown.
 * O(1). */
uint64_t sched_promise_remaining_us(const struct sched_promises *promises, uint64_t service_us);
