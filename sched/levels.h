/* SPDX-License-Identifier: MIT */
#pragma once
/* What: what each queue stands for: its service range and quantum. Private to sched/. */
#include "sched/sched.h"

/* BOOT_ONLY. Fixed levels, or the first guess of learnt ones. */
void sched_levels_init(struct sched *sched);
/* The queue whose range holds this service. O(queues). */
uint32_t sched_levels_find(const struct sched *sched, uint64_t service_us);
/* Notes the service of a program that has become idle (of an ended call where the policy knows no
 * programs). Returns the number of the note. */
uint8_t sched_levels_note(struct sched *sched, uint64_t service_us);
/* The program of this note is no longer idle: takes the note out again. */
void sched_levels_take_back(struct sched *sched, uint8_t note);
/* A step had this many rounds. */
void sched_levels_note_step(struct sched *sched, uint64_t duration_us, uint32_t rounds);
/* Between two plans: adapts learnt levels to what was noted and, where programs stand by their
 * attained service, to promises. O(1), but for one call in SCHED_LEVELS_EVERY notes. */
void sched_levels_learn(struct sched *sched, bool stands_by_attained);
