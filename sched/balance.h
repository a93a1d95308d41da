/* SPDX-License-Identifier: MIT */
#pragma once
/* What: which engine a call goes to. Private to sched/. */
#include "sched/call.h"

/* The engine for a call that waits for one; call.program is known. May assign the program to it.
 * O(engines); where sched.balance = preble, each is asked for the call's prompt. */
uint32_t sched_balance_route(struct sched *sched, const struct call *call);
/* True when an engine serves. O(engines). */
bool sched_balance_any_serves(const struct sched *sched);
/* The engine stops serving, and others serve: no program is assigned to it any more.
 * O(programs). */
void sched_balance_forget(struct sched *sched, const struct sched_engine *engine);
/* True when a call that waits may go to an engine that has less to do. Where sched.balance keeps
 * the calls of a program together (program), only one that is alone may. */
bool sched_balance_may_go(const struct sched *sched, const struct call *call);
/* The call goes `to` another engine: so does its program, if it was assigned to `from` and has no
 * other call open. */
void sched_balance_take_along(const struct sched_engine *from, const struct call *call,
                              const struct sched_engine *to);
