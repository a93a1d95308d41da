/* SPDX-License-Identifier: MIT */
#pragma once
/* What: every decision in which the policies differ. Private to sched/. */
#include "sched/sched.h"

/* BOOT_ONLY. Service ranges and quanta of the queues; FCFS, RR and SRPT have one, whatever the
 * settings say. */
void sched_policy_init(struct sched *sched);
/* Where an arriving call of a program with this service starts (Algorithm 1, line 12). */
uint32_t sched_policy_entry_queue(const struct sched *sched, uint64_t service_us);
/* Does an arriving call go before this one of its queue? SRPT only: the others append. */
bool sched_policy_goes_before(const struct sched *sched, const struct call *call,
                              const struct call *other);
/* Has the call used up its level, and has to leave its place? (line 20) */
bool sched_policy_demotes(const struct sched *sched, const struct call *call);
/* The queue that it then goes to (line 21). RR: the same one; promoted: where it came from. */
uint32_t sched_policy_demotion_queue(const struct sched *sched, const struct call *call);
/* Does it go before those that wait there? */
bool sched_policy_demotes_to_head(const struct sched *sched);
/* Has the call, outside the first queue, waited too long? (lines 24-26) */
bool sched_policy_promotes(const struct sched *sched, const struct call *call, uint64_t now_us);
/* The call has ended: what it adds to its program's service (line 4). */
void sched_policy_credit(const struct sched *sched, struct program *program,
                         const struct call *call);
