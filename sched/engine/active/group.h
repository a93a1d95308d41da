/* SPDX-License-Identifier: MIT */
#pragma once
/* What: beginnings that active programs have in common. Private to sched/. */
#include "sched/call.h"

void sched_group_plan_memory(struct memory_plan *plan, uint32_t programs);
void sched_group_init(struct sched_engine *engine, struct arena *arena);
/* The program joins the group of its common blocks, if it has any, and leaves any other. Expected
 * O(1). */
void sched_group_join(struct sched_engine *engine, struct sched_member *member);
/* Blocks that the active set would count in addition if the program, which is not active, joined.
 * Expected O(1). */
uint32_t sched_group_missing(const struct sched_engine *engine, const struct sched_member *member);
/* The program leaves its group, if it is in one. */
void sched_group_leave(struct sched_engine *engine, struct sched_member *member);
/* Asserts what it can count. O(programs). */
void sched_group_check(const struct sched_engine *engine);
