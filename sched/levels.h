/* SPDX-License-Identifier: MIT */
#pragma once
/* What: what each queue stands for: its service range and quantum. Private to sched/. */
#include "sched/sched.h"

/* BOOT_ONLY. Fixed levels, or the first guess of learnt ones. */
void sched_levels_init(struct sched *sched);
/* The queue whose range holds this service. O(queues). */
uint32_t sched_levels_find(const struct sched *sched, uint64_t service_us);
/* A program is idle, or a call has ended where the policy knows no programs. Returns a name of the
 * note. */
uint8_t sched_levels_note(struct sched *sched, uint64_t service_us);
/* The program of that note has come back. */
void sched_levels_take_back(struct sched *sched, uint8_t note);
/* A step had this many rounds. */
void sched_levels_note_step(struct sched *sched, uint64_t duration_us, uint32_t rounds);
/* Between two plans: learnt levels follow what was noted, and promises where programs stand by
 * their attained service. O(1) but for one time in SCHED_LEVELS_EVERY notes. */
void sched_levels_learn(struct sched *sched, bool stands_by_attained);
