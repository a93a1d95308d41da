/* SPDX-License-Identifier: MIT */
#pragma once
/* What: every decision in which the policies differ. Private to sched/. */
#include "sched/sched.h"

/* What a policy counts of a program (cost.h). */
enum sched_cost_unit { SCHED_COST_NONE, SCHED_COST_ROUNDS, SCHED_COST_TOKENS };

/* BOOT_ONLY. Number of queues; whether there is an active set. */
void sched_policy_init(struct sched *sched);
/* True when queues are levels of service, and a job goes from one to another. */
bool sched_policy_has_levels(const struct sched *sched);
/* True when queues are stages: no waiting call takes the KV of another one. */
bool sched_policy_has_stages(enum sched_policy policy);
/* True when the open calls of a program that stand in one queue are one job. */
bool sched_policy_joins_calls(const struct sched *sched);
/* How many of the lists of its queue a call joins as it enters: the first of enum call_list. */
uint32_t sched_policy_lists(const struct sched *sched, uint32_t queue);
/* True when the key is a tag: programs have an entry in the ideal system (ideal.c). */
bool sched_policy_has_tags(enum sched_policy policy);
/* Virtual finish time: the clock when the program arrived, plus its cost divided by the weight of
 * its tenant. */
uint64_t sched_policy_tag(const struct sched *sched, const struct program *program);
/* True when a program that arrives begins with the smallest key of its tenant's programs that can
 * run. */
bool sched_policy_lifts(const struct sched *sched);
enum sched_cost_unit sched_policy_cost(const struct sched *sched);
/* True when a job begins at the level of its program's service. */
bool sched_policy_knows_programs(const struct sched *sched);
/* True when a program's level follows from what its class has learnt. */
bool sched_policy_foresees(const struct sched *sched);
/* True when all open calls of a program are one job; else each call is one. */
bool sched_policy_orders_programs(const struct sched *sched);
/* Where a new job of this program starts (Algorithm 1, line 12). */
uint32_t sched_policy_entry_queue(const struct sched *sched, uint32_t program);
/* True when calls may arrive with different keys. */
bool sched_policy_has_key(enum sched_policy policy);
/* Key of the call's job; equal ones are served in the order of arrival. */
uint64_t sched_policy_key(const struct sched *sched, const struct call *call);
/* True when the job's program is now nearer to its end than its level says. */
bool sched_policy_raises(const struct sched *sched, const struct sched_job *job);
/* True when a job that comes to a level is nearer to its end than the first one there. */
bool sched_policy_goes_first(const struct sched *sched, const struct sched_job *job,
                             const struct sched_job *first);
/* True when the job has used up its level and has to leave its place (line 20). */
bool sched_policy_demotes(const struct sched *sched, const struct sched_job *job);
/* The queue that it then goes to (line 21): that of its program's service; the next one; its own
 * where calls take turns; or the one that it was promoted from. */
uint32_t sched_policy_demotion_queue(const struct sched *sched, const struct sched_job *job);
/* True when it goes before the calls that wait there. */
bool sched_policy_demotes_to_head(const struct sched *sched);
/* True when the job, outside the first queue, has waited too long (lines 24-26). */
bool sched_policy_promotes(const struct sched *sched, const struct sched_job *job,
                           uint64_t now_us);
/* Adds the last `duration_us` of the call's service to its program's service (line 4). */
void sched_policy_credit(const struct sched *sched, uint64_t *service_us,
                         const struct call *call, uint64_t duration_us);
