/* SPDX-License-Identifier: MIT */
#pragma once
/* What: which engine a call goes to. Private to sched/. */
#include "sched/call.h"

/* The engine for a call that waits for one; call.program is known. May assign the program to it.
 * O(engines); where sched.balance = preble, each is asked for the call's prompt. */
uint32_t sched_balance_route(struct sched *sched, const struct call *call);
/* True when an engine serves. O(engines). */
bool sched_balance_any_serves(const struct sched *sched);
/* The engine stops serving: no program is assigned to it any more. O(programs). */
void sched_balance_forget(struct sched *sched, const struct sched_engine *engine);
