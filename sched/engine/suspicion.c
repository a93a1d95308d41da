/* SPDX-License-Identifier: MIT */
/*
 * What: calls in whose step a worker has died (sched/engine/suspicion.h).
 * Invariant: sched.suspects is the number of open calls that may not have any company.
 * Bounds: O(1) each.
 */
#include "sched/engine/suspicion.h"

/* Positions that KV holds when all of the row is done. */
static uint32_t end_of(const struct step_planned *row)
{
    return row->first_position + row->tokens_count +
           (row->decode_steps > 0 ? row->decode_steps - 1 : 0);
}

bool sched_suspicion_raise(struct sched_engine *engine, uint32_t row)
{
    struct sched *sched = engine->sched;
    struct call *call = sched_call(sched, engine->planned[row].call);
    uint32_t until = end_of(&engine->planned[row]);
    ASSERT(call->state == CALL_QUEUED && engine->planned_count > 0);
    engine->is_trial = false;
    engine->turn_is_over = true;        /* the next plan is a trial */
    sched->suspects += call->company_max == 0;
    call->company_max = (engine->planned_count + 1) / 2;
    call->suspect_until = until > call->suspect_until ? until : call->suspect_until;
    call->deaths_alone += engine->planned_count == 1;
    return call->deaths_alone == CALL_DEATHS_MAX;
}

void sched_suspicion_settle(struct sched *sched, struct call *call)
{
    if (sched->suspects > 0 && call->kv_tokens >= call->suspect_until) {
        sched_suspicion_drop(sched, call);
    }
}

void sched_suspicion_drop(struct sched *sched, struct call *call)
{
    if (sched->suspects > 0 && call->company_max > 0) {
        sched->suspects--;
        call->company_max = call->deaths_alone = call->suspect_until = 0;
    }
}

bool sched_suspicion_admits(const struct sched_walk *walk, const struct call *call)
{
    const struct sched_engine *engine = walk->engine;
    if (engine->sched->suspects == 0) {
        return true;                    /* as almost always: the call's record is not read */
    }
    return walk->is_trial ? engine->planned_count < call->company_max : call->company_max == 0;
}

void sched_suspicion_limit(struct sched_walk *walk, const struct call *call)
{
    if (walk->is_trial && call->company_max < walk->rows_max) {
        walk->rows_max = call->company_max;
    }
}
