/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the process table (paper 000, 4.2.1). Private to sched/. */
#include "sched/sched.h"

void sched_program_plan_memory(struct memory_plan *plan, uint32_t programs);
void sched_program_init(struct sched *sched, struct arena *arena, struct arena *kept);
/* Restores the programs that an earlier core has left (kept.h). O(programs). */
void sched_program_take_up(struct sched *sched, uint64_t now_us);
/* The program with this id, or SCHED_PROGRAM_NONE. O(chain). */
uint32_t sched_program_find(const struct sched *sched, uint64_t domain, const uint8_t *id);
/* A call of the program is about to be admitted: brings what that touches into the CPU's caches.
 * O(chain + engines). */
void sched_program_cpu_prefetch(const struct sched *sched, uint64_t domain, const uint8_t *id);
/* Finds the program or makes it. A full table gives up the longest idle program of the account that
 * is furthest above its minimum; BUSY_PROGRAMS: there is no idle one. A program that is found idle
 * counts as idle from now on. */
MUST_CHECK enum status sched_program_start(struct sched *sched, uint64_t domain,
                                           const uint8_t *id, uint64_t now_us, uint32_t *program);
/* Ends the program; `ended` gets its last state. BAD_PROGRAM_UNKNOWN: there is none.
 * BAD_PROGRAM_ACTIVE: it has open calls. */
MUST_CHECK enum status sched_program_end(struct sched *sched, uint64_t domain, const uint8_t *id,
                                         uint64_t now_us, struct program *ended);
/* Halves the program's service once for each whole half-life that has passed since the last time.
 */
void sched_program_decay(struct sched *sched, uint32_t program, uint64_t now_us);
/* A call opens, whose program and engine are known; a call has ended and is credited. O(1). */
void sched_program_attach(struct sched *sched, struct call *call, uint64_t now_us);
void sched_program_detach(struct sched *sched, struct call *call, uint64_t now_us);
/* Forgets programs that have been idle for too long, a bounded number each time. */
void sched_program_expire(struct sched *sched, uint64_t now_us);
/* When sched_program_expire() has something to forget next, or UINT64_MAX. */
uint64_t sched_program_next_us(const struct sched *sched);
