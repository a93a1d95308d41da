/* SPDX-License-Identifier: MIT */
/*
 * What: how long a program may wait for its place in the active set. The first job of the first
 * level has waited for sched.wait_max and can run: then the next plan for which there is credit
 * makes its program active, if none became so within the last sixteenth of that time. Each one
 * before it has its place so, and the credit is back after sched.wait_max of work at the latest
 * (exchange.c): so the wait of all is bounded. Jobs of lower levels are promoted
 * (check_starvation). It waits longer while active programs keep their places: those that have not
 * got further since they became active, or not yet for as long as they had to compute again.
 *
 * Not here: plans in which a program was displaced, for another one was the first before that; the
 * calls of several tenants, for those of another one may come first; policies with keys, which say
 * who is first.
 */
#include "sched/policy.h"
#include "selftest/sim/sim.h"

#define APART 16                    /* between two: a part of sched.wait_max */
#define LOOKS 8                     /* at active jobs, for one that yields */

static bool can_run(const struct call *call)
{
    return call->state == CALL_QUEUED && !call->paused && !call->cancel;
}

/* The lane of the only tenant with open calls at the engine; NULL: there are several, or none. */
static const struct sched_lane *only_lane(const struct sched *sched,
                                          const struct sched_engine *engine)
{
    const struct sched_lane *only = NULL;
    for (uint32_t i = 0; i < sched->tenants.count; i++) {
        if (engine->lanes[i].jobs_count > 0 && only != NULL) {
            return NULL;
        }
        only = engine->lanes[i].jobs_count > 0 ? &engine->lanes[i] : only;
    }
    return only;
}

/* The first held job of the first level; NULL: there is none, or others may go before it. */
static const struct sched_job *first_held(const struct sched *sched,
                                          const struct sched_engine *engine)
{
    const struct sched_lane *lane = only_lane(sched, engine);
    bool has_order = sched_policy_has_levels(sched) && sched->settings.wait_max_us > 0;
    uint32_t first = lane != NULL && has_order ? lane->held[0].jobs.head : SCHED_JOB_NONE;
    return first != SCHED_JOB_NONE ? &sched->jobs[first] : NULL;
}

/* True when one of the last active jobs is of a program that has no reason to keep its place; or
 * there are none. */
static bool has_any_to_yield(const struct sched *sched, const struct sched_engine *engine)
{
    uint32_t looks = 0;
    for (uint32_t i = sched->settings.queues; i > 0; i--) {
        uint32_t job = only_lane(sched, engine)->queues[i - 1].jobs.tail;
        for (; job != SCHED_JOB_NONE && looks < LOOKS; looks++, job = sched->jobs[job].prev) {
            const struct sched_member *member = &engine->members[sched->jobs[job].program];
            if (member->is_further && member->owed_us == 0) {
                return true;
            }
        }
    }
    return looks == 0;
}

void invariants_check_held(struct sim *sim, uint32_t index)
{
    const struct sched *sched = &sim->loop.sched;
    const struct sched_engine *engine = &sched->engines[index];
    const struct sched_job *job = first_held(sched, engine);
    uint64_t now_us = sim->loop.now_us, most_us = sched->settings.wait_max_us;
    uint64_t displaced = sched->stats->programs_displaced;
    bool has_changed = displaced != sim->memory.programs_displaced;
    sim->memory.programs_displaced = displaced;
    if (job == NULL || has_changed || engine->turns_count > 0 || engine->active.credit_us < 0 ||
        now_us - engine->active.starved_us <= most_us / APART ||
        !has_any_to_yield(sched, engine) ||
        !can_run(&sched->calls->calls[job->ends[CALL_LIST_ALL].head])) {
        return;
    }
    uint64_t waited_us = job->wait_us + now_us - job->waiting_since_us;
    SIM_REQUIRE(sim, waited_us < most_us, INVARIANT_STARVATION,
                "program %u has waited for %llu us, could have a place at engine %u, and has none",
                job->program, (unsigned long long)waited_us, index);
}
