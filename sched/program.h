/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the process table (paper 000, 4.2.1). Private to sched/. */
#include "sched/sched.h"

void sched_program_plan_memory(struct memory_plan *plan, uint32_t programs);
void sched_program_init(struct sched *sched, struct arena *arena, struct arena *kept);
/* What another core has left (kept.h). O(programs). */
void sched_program_take_up(struct sched *sched, uint64_t now_us);
/* O(chain), or SCHED_PROGRAM_NONE. */
uint32_t sched_program_find(const struct sched *sched, uint64_t domain, const uint8_t *id);
/* A call of the program comes soon: prefetches what that touches. O(chain + engines). */
void sched_program_expect(const struct sched *sched, uint64_t domain, const uint8_t *id);
/* Finds it or makes it; a full table gives up the longest idle program of the account that has most
 * beyond its minimum. An idle program is young again. BUSY_PROGRAMS: those all have open calls. */
MUST_CHECK enum status sched_program_start(struct sched *sched, uint64_t domain,
                                           const uint8_t *id, uint64_t now_us, uint32_t *program);
/* BAD_PROGRAM_UNKNOWN; BAD_PROGRAM_ACTIVE: it has open calls. `ended` gets its last state. */
MUST_CHECK enum status sched_program_end(struct sched *sched, uint64_t domain, const uint8_t *id,
                                         uint64_t now_us, struct program *ended);
/* Brings the program's service up to date: halved once for each whole half-life that has passed. */
void sched_program_decay(struct sched *sched, uint32_t program, uint64_t now_us);
/* A call opens, whose program and engine are known; it has ended and been credited. O(1). */
void sched_program_attach(struct sched *sched, struct call *call, uint64_t now_us);
void sched_program_detach(struct sched *sched, struct call *call, uint64_t now_us);
/* Forgets programs that have been idle for too long, a bounded number each time. */
void sched_program_expire(struct sched *sched, uint64_t now_us);
/* When the next one is due, or UINT64_MAX. */
uint64_t sched_program_next_us(const struct sched *sched);
