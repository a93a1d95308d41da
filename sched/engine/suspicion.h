/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: finds the call that kills workers ("poison"). When a worker dies in a step, each call with
 * a row in that step is a suspect. Suspects come back in trials: steps without other calls, and
 * with at most half as many rows as the fatal one. Trials and plans of the other calls take turns.
 *
 *   acquitted   the call gets as far as the fatal step would have brought it
 *   guilty      CALL_DEATHS_MAX workers have died in steps that it was alone in: the call fails,
 *               with a status of its own (STATUS_DEVICE_POISON)
 *
 * So one such call among n costs log2(n) + CALL_DEATHS_MAX workers, and fails alone. The other
 * suspects are computed again, and get the same tokens.
 */
#include "sched/call.h"
#include "sched/engine/plan.h"

/* The step in flight, with this row, is lost with its worker. True when the row's call is guilty,
 * and has to fail. */
bool sched_suspicion_raise(struct sched_engine *engine, uint32_t row);
/* The call's row has been settled. */
void sched_suspicion_settle(struct sched *sched, struct call *call);
/* The call ends. */
void sched_suspicion_drop(struct sched *sched, struct call *call);
/* True when this plan may give the call a row: a trial only suspects, other plans no suspect. */
bool sched_suspicion_admits(const struct sched_walk *walk, const struct call *call);
/* The call has got a row: limits the rows of a trial to the company that it may have. */
void sched_suspicion_limit(struct sched_walk *walk, const struct call *call);
