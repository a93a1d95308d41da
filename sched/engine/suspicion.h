/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: which calls may have killed a worker, and who that was (poison). When a worker dies in a
 * step, each call with a row in it is a suspect. Suspects come back in trials: steps with no other
 * calls, and at most half as many rows as the one that killed. They and the others take turns.
 *
 *   acquitted   the call gets as far as the step that killed would have brought it
 *   guilty      CALL_DEATHS_MAX workers have died in steps that it was alone in: the call fails,
 *               with a status of its own (STATUS_DEVICE_POISON)
 *
 * So one such call among n costs log2(n) + CALL_DEATHS_MAX workers, and ends alone. One that was
 * only there is computed again, and gets the same tokens.
 */
#include "sched/call.h"
#include "sched/engine/plan.h"

/* The step in which a call had this row is lost with its worker. True when the call is guilty: it
 * is to fail. */
bool sched_suspicion_raise(struct sched_engine *engine, uint32_t row);
/* The call's row has been settled. */
void sched_suspicion_settle(struct sched *sched, struct call *call);
/* The call ends. */
void sched_suspicion_drop(struct sched *sched, struct call *call);
/* True when this plan may give the call a row: in a trial suspects get some, else the others. */
bool sched_suspicion_admits(const struct sched_walk *walk, const struct call *call);
/* It has got one. */
void sched_suspicion_limit(struct sched_walk *walk, const struct call *call);
