/* SPDX-License-Identifier: MIT */
/*
 * What: the anti-starvation pass, once before each plan. Whether a job has starved is policy
 * (sched_policy_promotes); what promotion does is the job's (job.c); here is who is looked at.
 * Bounds: per queue its first job and SCHED_STARVATION_CHECKS_MAX jobs; a cursor goes round, so a
 * queue of n jobs is seen whole within n / SCHED_STARVATION_CHECKS_MAX + 1 plans. The ratio differs
 * from program to program, so the longest waiting job need not be the first to starve. A job is
 * passed over when none of its first SCHED_STARVATION_CALLS_MAX calls can run, and loses its turn
 * for that. At most one job for each SCHED_TURN_ROWS rows of the batch has a turn at once; the
 * others starve on until one of these turns is over.
 */
#include "sched/engine/starvation.h"

#include "sched/engine/plan.h"
#include "sched/policy.h"

static bool can_run(const struct sched *sched, const struct sched_job *job)
{
    uint32_t last = job->ends[CALL_LIST_ALL].tail;
    const struct call *call = sched_job_first(sched, job);
    for (uint32_t looks = SCHED_STARVATION_CALLS_MAX; looks > 1; looks--) {
        if (!sched_walk_skips(call) || call->slot == last) {
            break;
        }
        call = sched_call(sched, call->links[CALL_LIST_ALL].next);
    }
    return !sched_walk_skips(call);
}

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
        if (can_run(engine->sched, job)) {
            i++;
        } else {
            sched_job_give_up_turn(engine, job, now_us);
        }
    }
}

static void consider(struct sched_engine *engine, struct sched_job *job, uint64_t now_us)
{
    const struct sched *sched = engine->sched;
    if (engine->turns_count < turns_max(sched) &&
        sched_policy_promotes(sched, job, now_us) && can_run(sched, job)) {
        sched_job_promote(engine, job, now_us);
    }
}

static void look_through(struct sched_engine *engine, struct sched_queue *queue, uint64_t now_us)
{
    const struct sched *sched = engine->sched;
    uint32_t checks = queue->count, first = queue->jobs.head;
    if (checks > SCHED_STARVATION_CHECKS_MAX) {
        checks = SCHED_STARVATION_CHECKS_MAX;
    } else {
        queue->cursor = first;          /* all of them, in order */
    }
    if (first != SCHED_JOB_NONE) {
        consider(engine, &sched->jobs[first], now_us);
    }
    for (uint32_t i = 0; i < checks && queue->count > 0; i++) {
        uint32_t at = queue->cursor != SCHED_JOB_NONE ? queue->cursor : queue->jobs.head;
        queue->cursor = sched->jobs[at].next;
        consider(engine, &sched->jobs[at], now_us);
    }
}

void sched_starvation_pass(struct sched_engine *engine, uint64_t now_us)
{
    ASSERT(!engine->step_in_flight);
    end_idle_turns(engine, now_us);
    for (uint32_t i = 1; i < engine->sched->settings.queues; i++) {
        look_through(engine, &engine->queues[i], now_us);
    }
}
