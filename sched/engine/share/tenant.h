/* SPDX-License-Identifier: MIT */
#pragma once
/* What: tenants: trust domains that share the engines, and how much of them each has received.
 * Private to sched/. */
#include "sched/call.h"

void sched_tenant_plan_memory(struct memory_plan *plan, const struct sched_settings *settings);
void sched_tenant_init(struct sched *sched, struct arena *arena);

/* The tenant of a program that starts. O(tenants). */
uint32_t sched_tenant_of(struct sched *sched, uint64_t domain);
/* A program of the tenant has come to the process table, or left it. */
void sched_tenant_enter(struct sched *sched, uint32_t tenant);
void sched_tenant_leave(struct sched *sched, uint32_t tenant);

/* The part of `whole` that this use is of all, by the resource of which it takes the largest part
 * (dominant resource fairness). */
uint64_t sched_tenant_dominant(const struct sched_use *use, const struct sched_use *all,
                               uint64_t whole);
/* The cost of all of an engine for this time. */
static inline uint64_t sched_tenant_cost(uint64_t duration_us)
{
    return duration_us * SCHED_COST_PARTS;
}
/* True when the tenant's programs may not use the reserve for small programs: there are several
 * tenants, and this one wants more than it gets. */
bool sched_tenant_leaves_reserve(const struct sched *sched, uint32_t tenant);
/* A row of the step that is being settled was the tenant's. */
void sched_tenant_use(struct sched *sched, uint32_t tenant, const struct sched_use *use);
/* All rows of a step of this engine are settled: charges the tenants. O(tenants). */
void sched_tenant_settle(struct sched_engine *engine, uint64_t duration_us);

/* Asserts that no account is impossible. */
void sched_tenant_check(const struct sched *sched);
