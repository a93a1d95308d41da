/* SPDX-License-Identifier: MIT */
/*
 * What: which program becomes active next, and which one makes room for it.
 *
 *   next       levels of held jobs are ranked by promise (promise.c), starved jobs first; within a
 *              level the order is the policy's. Jobs of which no call can run are passed over
 *   yielding   the program that has been idle longest, no call of it being there to run, once that
 *              is longer than the break-even time (exchange.c); as long as active programs use all
 *              of the engine, it may wait BUSY_PATIENCE times as long. Or, while there is credit
 *              for an exchange, the last program in order, or the idle one: if it stands in a lower
 *              queue than the one that waits, and has half its promise at most; or if that one has
 *              starved
 *   keeping    a program keeps its place against those that have starved, and those of tenants that
 *              are behind, until it was of use: until a call of it has got further than it ever
 *              was, and for as long after that as it had to compute again before. So about half of
 *              the engine's time is of use, however short sched.wait_max is, and whatever exchanges
 *              are thought to cost (docs/decisions/0100). One that cannot run keeps nothing
 *   dispensable    when room has to be made whatever it costs: an idle program, or the last one in
 *              order
 *
 * Bounds: O(queues), and of programs that keep their places O(calls that cannot run); the search
 * for a job that can run, when the engine has nothing else to do, O(held calls that cannot run).
 */
#include "sched/engine/active/rank.h"

#include "sched/engine/active/exchange.h"
#include "sched/engine/member.h"
#include "sched/engine/queue.h"
#include "sched/engine/share/tenant.h"
#include "sched/levels.h"
#include "sched/class/promise.h"

#define BUSY_PATIENCE 8
#define STARVED_PARTS 16            /* of sched.wait_max: between two of the first level */
#define KEEPING_LOOKS 8             /* at the last jobs, for one that does not keep its place */
#define STALLED_LOOKS 8             /* at held jobs of which no call can run, in a level and pass */

static struct sched_job *job_or_null(const struct sched *sched, uint32_t index)
{
    return index != SCHED_JOB_NONE ? &sched->jobs[index] : NULL;
}

/* True when its tenant has had less than that of the other job; or as much, because it was lifted
 * to that (tenant.c). */
static bool has_had_less(const struct sched *sched, const struct sched_job *job,
                         const struct sched_job *other)
{
    const struct sched_tenant *own = &sched->tenants.of[job->tenant];
    const struct sched_tenant *its = &sched->tenants.of[other->tenant];
    return own->virtual_time != its->virtual_time ? own->virtual_time < its->virtual_time
                                                  : !own->wants && its->wants;
}

/* A job of a lower level starves as others do (starvation.c): it has a turn. In the first one there
 * is no other way up: its first job is as good as promoted when it has waited too long, can run,
 * and none was so lately. */
bool sched_rank_is_starved(const struct sched_engine *engine, const struct sched_job *job,
                       uint64_t now_us)
{
    uint64_t most_us = engine->sched->settings.wait_max_us;
    if (job->queue > 0 || job->promoted_from > 0) {
        return job->promoted_from > 0;
    }
    uint64_t waited_us = job->wait_us + sched_elapsed_us(job->waiting_since_us, now_us);
    return most_us > 0 && waited_us >= most_us && sched_job_can_run(engine->sched, job) &&
           sched_elapsed_us(engine->active.starved_us, now_us) >= most_us / STARVED_PARTS;
}

static uint64_t promise_of(const struct sched_engine *engine, const struct sched_job *job,
                           uint64_t now_us)
{
    const struct sched *sched = engine->sched;
    uint64_t service_us = sched->programs[job->program].service_us;
    return sched_rank_is_starved(engine, job, now_us)
               ? UINT64_MAX : sched_promise_of(&sched->promises, service_us);
}

/* The next held job of this tenant. */
static struct sched_job *next_of(const struct sched_engine *engine, const struct sched_lane *lane,
                                 uint64_t now_us)
{
    const struct sched *sched = engine->sched;
    struct sched_job *first = NULL;
    uint64_t best = 0;
    for (uint32_t i = 0; i < sched->settings.queues; i++) {
        struct sched_job *job = job_or_null(sched, lane->held[i].jobs.head);
        uint64_t promise = job != NULL ? promise_of(engine, job, now_us) : 0;
        if (job != NULL && (first == NULL || promise > best)) {
            first = job;
            best = promise;
        }
    }
    return first;
}

struct sched_job *sched_rank_next(const struct sched_engine *engine, uint64_t now_us)
{
    uint32_t tenants = engine->active.held_jobs > 0 ? engine->sched->tenants.count : 0;
    struct sched_job *first = NULL;
    for (uint32_t i = 0; i < tenants; i++) {
        const struct sched_lane *lane = &engine->lanes[i];
        struct sched_job *job = lane->jobs_count > 0 ? next_of(engine, lane, now_us) : NULL;
        first = job != NULL && (first == NULL || has_had_less(engine->sched, job, first)) ? job
                                                                                      : first;
    }
    return first;
}

/* Of the held ones of this tenant. */
static const struct sched_job *runnable_of(const struct sched *sched, const struct sched_lane *lane)
{
    for (uint32_t i = 0; i < sched->settings.queues; i++) {
        const struct sched_job *job = job_or_null(sched, lane->held[i].jobs.head);
        for (; job != NULL; job = job_or_null(sched, job->next)) {
            if (sched_job_has_any_to_run(sched, job)) {
                return job;
            }
        }
    }
    return NULL;
}

/* All calls are looked at, or the engine could be idle for ever. O(held calls that cannot run). */
const struct sched_job *sched_rank_next_that_can_run(const struct sched_engine *engine)
{
    const struct sched *sched = engine->sched;
    const struct sched_job *first = NULL;
    for (uint32_t i = 0; i < sched->tenants.count; i++) {
        const struct sched_job *job = runnable_of(sched, &engine->lanes[i]);
        first = job != NULL && (first == NULL || has_had_less(sched, job, first)) ? job : first;
    }
    return first;
}

static void pass_over(struct sched_engine *engine, const struct sched_lane *lane)
{
    const struct sched *sched = engine->sched;
    for (uint32_t i = 0; i < sched->settings.queues; i++) {
        uint32_t left = lane->held[i].count;
        for (left = left < STALLED_LOOKS ? left : STALLED_LOOKS; left > 0; left--) {
            struct sched_job *job = &sched->jobs[lane->held[i].jobs.head];
            if (sched_job_can_run(sched, job)) {
                break;
            }
            sched_queue_move(engine, job, i, false);
        }
    }
}

void sched_rank_pass_over(struct sched_engine *engine)
{
    bool has_any = engine->active.held_jobs > 0 && engine->sched->nodes == NULL;
    for (uint32_t i = 0; has_any && i < engine->sched->tenants.count; i++) {
        pass_over(engine, &engine->lanes[i]);
    }
}

/* Else programs that starve, and those of several tenants, could take the place from each other for
 * ever, and none would get further. */
static bool keeps_place(const struct sched_engine *engine, uint32_t program)
{
    const struct sched_member *member = &engine->members[program];
    return (!member->is_further || member->owed_us > 0) &&
           sched_member_can_run(engine, program, member->calls_count);
}

/* The active job of this tenant that comes last, in this queue or a lower one; or of those that do
 * not keep their place. */
static struct sched_job *last_of(const struct sched_engine *engine, const struct sched_lane *lane,
                                 uint32_t queue, bool any)
{
    uint32_t looks = KEEPING_LOOKS;
    for (uint32_t i = engine->sched->settings.queues; i > queue; i--) {
        struct sched_job *job = job_or_null(engine->sched, lane->queues[i - 1].jobs.tail);
        for (; job != NULL && looks > 0; looks--) {
            if (any || !keeps_place(engine, job->program)) {
                return job;
            }
            job = job_or_null(engine->sched, job->prev);
        }
    }
    return NULL;
}

/* The last active job of the tenant that has had most, of those with any. */
static struct sched_job *last_active(const struct sched_engine *engine, bool any)
{
    struct sched_job *last = NULL;
    for (uint32_t i = 0; i < engine->sched->tenants.count; i++) {
        struct sched_job *job = last_of(engine, &engine->lanes[i], 0, any);
        last = job != NULL && (last == NULL || has_had_less(engine->sched, last, job)) ? job : last;
    }
    return last;
}

/* True when it is worth an exchange that the job's program takes the place of the other one. */
static bool outranks(const struct sched_engine *engine, const struct sched_job *job,
                     uint32_t other, uint64_t now_us)
{
    const struct sched *sched = engine->sched;
    uint64_t service_us = sched->programs[other].service_us;
    return sched_rank_is_starved(engine, job, now_us) ||
           (sched_levels_find(sched, service_us) > job->queue &&
            promise_of(engine, job, now_us) / 2 > sched_promise_of(&sched->promises, service_us));
}

/* True when its tenant has had less than that of the other job, by more than an exchange of all KV
 * costs: less, and the two would displace each other in turns. */
static bool is_behind(const struct sched_engine *engine, const struct sched_job *job,
                      const struct sched_job *other)
{
    const struct sched_tenant *of = engine->sched->tenants.of;
    uint64_t even_us = sched_exchange_break_even_us(engine, 0);
    return of[job->tenant].virtual_time + sched_tenant_cost(even_us) <
           of[other->tenant].virtual_time;
}

/* True when the program that has been idle longest has been so for long enough. */
static bool is_idle_for_long(const struct sched_engine *engine, uint64_t now_us)
{
    const struct heap *idle = &engine->active.idle;
    uint32_t blocks = engine->members[heap_first(idle)].counted_blocks;
    uint64_t patience = engine->is_underused ? 1 : BUSY_PATIENCE;
    return sched_elapsed_us(heap_first_key(idle), now_us) >=
           patience * sched_exchange_break_even_us(engine, blocks);
}

/* True when the engine's time allows an exchange. What a starved program has begun it may end. */
static bool may(const struct sched_engine *engine, bool is_starved, bool has_begun)
{
    return sched_exchange_may(engine) || (is_starved && has_begun);
}

static bool is_of(const struct sched *sched, uint32_t program, uint32_t tenant)
{
    return program != SCHED_PROGRAM_NONE && sched->programs[program].tenant == tenant;
}

uint32_t sched_rank_yielding(const struct sched_engine *engine, const struct sched_job *job,
                             bool has_begun, uint64_t now_us, enum sched_why *why)
{
    STATIC_ASSERT(HEAP_NONE == SCHED_PROGRAM_NONE, "a heap of programs may have none");
    uint32_t idle = heap_first(&engine->active.idle);
    *why = SCHED_WHY_IDLE;
    if (idle != HEAP_NONE && is_idle_for_long(engine, now_us)) {
        return idle;
    }
    *why = SCHED_WHY_ORDER;
    bool is_starved = sched_rank_is_starved(engine, job, now_us);
    const struct sched_job *last = last_active(engine, false);
    if (last != NULL && is_behind(engine, job, last)) {
        return may(engine, is_starved, has_begun) ? last->program : SCHED_PROGRAM_NONE;
    }
    last = last_of(engine, &engine->lanes[job->tenant], is_starved ? 0 : job->queue + 1,
                   !is_starved);
    idle = is_of(engine->sched, idle, job->tenant) ? idle : SCHED_PROGRAM_NONE;
    uint32_t index = last != NULL ? last->program : idle;
    bool yields = index != SCHED_PROGRAM_NONE && may(engine, is_starved, has_begun) &&
                  outranks(engine, job, index, now_us);
    return yields ? index : SCHED_PROGRAM_NONE;
}

uint32_t sched_rank_dispensable(const struct sched_engine *engine)
{
    uint32_t idle = heap_first(&engine->active.idle);
    const struct sched_job *last = last_active(engine, true);
    return idle != HEAP_NONE ? idle : last != NULL ? last->program : SCHED_PROGRAM_NONE;
}
