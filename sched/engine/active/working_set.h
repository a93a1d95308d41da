/* SPDX-License-Identifier: MIT */
#pragma once
/* What: how much KV a program takes turns with. Private to sched/. */
#include "sched/call.h"

/* The call has arrived and counts as open; `answer` says what is cached for it. O(prompt) where it
 * has open siblings, else O(1). */
void sched_working_set_grow(struct sched *sched, struct call *call,
                            const struct kvmem_answer *answer);
/* The call has more tokens than were expected: it needs more blocks. O(1). */
void sched_working_set_follow(struct sched *sched, struct call *call);
/* The call is about to end: it still has its blocks. O(1). */
void sched_working_set_shrink(struct sched *sched, const struct call *call);
/* The call has ended: learns how long answers are. O(1). */
void sched_working_set_learn(struct sched *sched, const struct call *call);
/* The program's working set without common blocks, `most` blocks at most. O(1). */
uint32_t sched_working_set(const struct sched_member *member, uint32_t most);
