/* SPDX-License-Identifier: MIT */
/*
 * What: the anti-starvation pass, once before each plan. Whether a job has starved is policy
 * (sched_policy_promotes); what promotion does is the job's (job.c); here is who is looked at.
 * Bounds: per queue its first job and SCHED_STARVATION_CHECKS_MAX jobs; a cursor goes round, so a
 * queue of n jobs is seen whole within n / SCHED_STARVATION_CHECKS_MAX + 1 plans. The ratio differs
 * from program to program, so the longest waiting job need not be the first to starve. A job is
 * passed over when none of its first SCHED_JOB_LOOKS calls can run, and loses its turn
 * for that. At most one job for each SCHED_TURN_ROWS rows of the batch has a turn at once; the
 * others starve on until one of these turns is over. The queues take turns, too: a pass gives one
 * to each at most, and begins after the queue that had the last one. Else the jobs of the upper
 * queues, whose turns are short, would take them all.
 *
 * A turn is worth one row. A wide job takes as many as it has calls, and new programs would wait
 * for all of its turn. So what turns have had in the first queue beyond a row each is kept in
 * account; until as much time has gone by, they stand at the heads of their own levels, and no job
 * is promoted. Jobs of one call never get ahead.
 */
#include "sched/engine/starvation.h"

#include "sched/engine/plan.h"
#include "sched/policy.h"

/* Jobs that may have their turn at once. */
static uint32_t turns_max(const struct sched *sched)
{
    uint32_t jobs = sched->settings.batch_calls / SCHED_TURN_ROWS;
    ASSERT(jobs <= SCHED_TURNS_MAX);
    return jobs > 0 ? jobs : 1;
}

/* A job that cannot run keeps no other from its turn: its client may never read again. */
static void end_idle_turns(struct sched_engine *engine, uint64_t now_us)
{
    struct sched_job *jobs = engine->sched->jobs;
    for (uint32_t i = 0; i < engine->turns_count;) {
        struct sched_job *job = &jobs[engine->turns[i]];
        if (sched_job_can_run(engine->sched, job)) {
            i++;
        } else {
            sched_job_give_up_turn(engine, job, now_us);
        }
    }
}

/* True when the job gets a turn. Time in which it could not run was no waiting. */
static bool consider(struct sched_engine *engine, struct sched_job *job, uint64_t now_us)
{
    if (!sched_policy_promotes(engine->sched, job, now_us)) {
        return false;
    }
    if (!sched_job_can_run(engine->sched, job)) {
        sched_job_wait_again(job, now_us);
        return false;
    }
    sched_job_promote(engine, job, now_us);
    return true;
}

/* True when a job of the queue gets a turn. */
static bool look_through(struct sched_engine *engine, struct sched_queue *queue, uint64_t now_us)
{
    const struct sched *sched = engine->sched;
    uint32_t checks = queue->count;
    if (checks <= SCHED_STARVATION_CHECKS_MAX) {
        queue->cursor = queue->jobs.head;       /* all of them, in order */
    } else if (consider(engine, &sched->jobs[queue->jobs.head], now_us)) {
        return true;
    } else {
        checks = SCHED_STARVATION_CHECKS_MAX;
    }
    for (uint32_t i = 0; i < checks; i++) {
        uint32_t at = queue->cursor != SCHED_JOB_NONE ? queue->cursor : queue->jobs.head;
        queue->cursor = sched->jobs[at].next;
        if (consider(engine, &sched->jobs[at], now_us)) {
            return true;
        }
    }
    return false;
}

/* True when a job of this queue, of any tenant, gets a turn. The tenants take turns, too. */
static bool look_at_tenants(struct sched_engine *engine, uint32_t queue, uint64_t now_us)
{
    uint32_t count = engine->sched->tenants.count, last = engine->turn_tenant;
    for (uint32_t i = 1; i <= count; i++) {
        uint32_t tenant = (last + i) % count;
        struct sched_lane *lane = &engine->lanes[tenant];
        if (look_through(engine, &lane->queues[queue], now_us) ||
            look_through(engine, &lane->held[queue], now_us)) {
            engine->turn_tenant = tenant;
            return true;
        }
    }
    return false;
}

void sched_starvation_charge(struct sched_engine *engine, const struct sched_job *job,
                             uint64_t duration_us)
{
    if (job->promoted_from > 0 && job->queue == 0) {
        engine->turns_ahead_us += duration_us;
    }
}

void sched_starvation_settle(struct sched_engine *engine, uint64_t duration_us)
{
    uint64_t due_us = duration_us * turns_max(engine->sched);
    engine->turns_ahead_us -= due_us < engine->turns_ahead_us ? due_us : engine->turns_ahead_us;
}

static void place_turns(struct sched_engine *engine)
{
    for (uint32_t i = 0; i < engine->turns_count; i++) {
        struct sched_job *job = &engine->sched->jobs[engine->turns[i]];
        sched_job_place_turn(engine, job, engine->turns_ahead_us == 0);
    }
}

void sched_starvation_pass(struct sched_engine *engine, uint64_t now_us)
{
    const struct sched *sched = engine->sched;
    uint32_t lower = sched_policy_has_levels(sched) ? sched->settings.queues - 1 : 0;
    uint32_t last = engine->turn_queue;
    ASSERT(!engine->step_in_flight);
    end_idle_turns(engine, now_us);
    place_turns(engine);
    if (engine->turns_ahead_us > 0) {
        return;
    }
    for (uint32_t i = 0; i < lower && engine->turns_count < turns_max(sched); i++) {
        uint32_t queue = (last + i) % lower + 1;
        if (look_at_tenants(engine, queue, now_us)) {
            engine->turn_queue = queue;
        }
    }
}
