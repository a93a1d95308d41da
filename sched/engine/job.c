/* SPDX-License-Identifier: MIT */
/*
 * What: jobs. A job is what a queue holds in order: with sched.service = live and a policy that
 * knows programs, all open calls of a program; else one call.
 *
 *   none --open--> in a queue --settle: its level is used up--> in a lower one
 *                      |  ^                                        |
 *                      |  +---- promote: starved, for a turn; a job that cannot run gives it up
 *                      +--close, with its last call--> none
 *
 *   live       a job stands at the level of its program's service, which grows in each step with a
 *              call of the program in it. So width counts when it is used, and calls that wait
 *              stand where their program stands now: one move takes all of them along
 *   snapshot   the paper's letter: a call stands at the level that its program's service had when
 *              it arrived, and sinks by its own service. Calls of one program overtake each other
 *
 * A promoted job has a turn: in the first queue it gets the quantum of the level that it came from,
 * and returns to that level when the quantum is used up. Only so many jobs have a turn at once, and
 * a wide one stands at its own level between the steps of its turn (starvation.c), so new programs
 * keep nearly all of the engine (docs/decisions/0054).
 *
 * A program whose calls are on several engines has a job at each. They share its quantum: what it
 * uses up on one counts on all, so all of them sink with its service.
 *
 * Waiting of a job: time in which it has open calls and none of them is in a step.
 * Bounds: O(1), but for the place of a key: O(log calls); O(engines) where a program has several.
 */
#include "sched/engine/job.h"

#include <string.h>

#include "sched/engine/member.h"
#include "sched/engine/need.h"
#include "sched/engine/queue.h"
#include "sched/policy.h"

void sched_job_plan_memory(struct memory_plan *plan, uint32_t calls)
{
    memory_plan_add(plan, MEMORY_CORE, "sched jobs", calls, sizeof(struct sched_job));
}

void sched_job_init(struct sched *sched, struct arena *arena)
{
    uint32_t count = sched->settings.calls;
    sched->jobs = arena_take(arena, count, sizeof(struct sched_job));
    for (uint32_t i = 0; i < count; i++) {
        sched->jobs[i].next = i + 1 < count ? i + 1 : SCHED_JOB_NONE;
    }
    sched->job_free = 0;
}

static uint32_t begin(struct sched *sched, const struct call *call, uint32_t queue,
                      uint64_t since_us)
{
    static const struct sched_list empty = {CALL_NONE, CALL_NONE};
    const struct program *program = &sched->programs[call->program];
    bool is_active = sched_member_of(sched, call)->is_active;
    uint32_t index = sched->job_free;
    ASSERT(index != SCHED_JOB_NONE);            /* there are as many as calls */
    struct sched_job *job = &sched->jobs[index];
    sched->job_free = job->next;
    *job = (struct sched_job){.program = call->program, .tenant = program->tenant,
                              .ends = {empty, empty, empty},
                              .held = !is_active, .queue = queue,
                              .waiting_since_us = since_us,
                              .key = sched_policy_key(sched, call),
                              .tie = sched_policy_joins_calls(sched) ? program->salt
                                                                     : ++sched->ties};
    STATIC_ASSERT(CALL_LISTS == 3, "each is empty");
    job->quantum_left_us = sched->levels[job->queue].quantum_us;
    return index;
}

static void begin_turn(struct sched_engine *engine, struct sched_job *job, uint32_t from)
{
    ASSERT(from > 0 && job->promoted_from == 0);
    ASSERT(engine->turns_count < SCHED_TURNS_MAX);
    job->promoted_from = from;
    engine->turns[engine->turns_count++] = (uint32_t)(job - engine->sched->jobs);
}

/* Free when the job has none. */
static void end_turn(struct sched_engine *engine, struct sched_job *job)
{
    uint32_t index = (uint32_t)(job - engine->sched->jobs), at = 0;
    if (job->promoted_from == 0) {
        return;
    }
    while (engine->turns[at] != index) {
        at++;
        ASSERT(at < engine->turns_count);
    }
    memmove(&engine->turns[at], &engine->turns[at + 1],
            (--engine->turns_count - at) * sizeof engine->turns[0]);
    job->promoted_from = 0;
}

/* Where the member names the job that the program's calls in this queue have in common. */
static uint32_t *name_of(struct sched *sched, const struct call *call, uint32_t queue)
{
    bool is_stage = sched_policy_has_stages(sched->settings.policy);
    return &sched_member_of(sched, call)->jobs[is_stage ? queue : 0];
}

/* True when the job goes before those that stand in this queue, or are held at its level. */
static bool goes_first(const struct sched_engine *engine, const struct sched_job *job,
                       uint32_t queue)
{
    const struct sched_job *jobs = engine->sched->jobs;
    uint32_t first = sched_queue_at(engine, job, queue)->jobs.head;
    return first != SCHED_JOB_NONE && sched_policy_goes_first(engine->sched, job, &jobs[first]);
}

/* The call joins its job, or begins one that has waited since then. */
static void join(struct sched_engine *engine, struct call *call, uint32_t queue, uint64_t since_us)
{
    struct sched *sched = engine->sched;
    bool joins = sched_policy_joins_calls(sched);
    uint32_t *common = name_of(sched, call, queue);
    call->job = joins && *common != SCHED_JOB_NONE ? *common : begin(sched, call, queue, since_us);
    if (joins) {
        *common = call->job;
    }
    sched_queue_enter(engine, call);
    struct sched_job *job = sched_job_of(sched, call);
    if (job->calls_count == 1) {
        bool to_head = goes_first(engine, job, queue);
        if (to_head) {
            sched_queue_move(engine, job, queue, true);
        }
        engine->lanes[job->tenant].jobs_count++;
        job->last_old = call->slot;
        sched_need_queued(engine, job, to_head);
    }
}

void sched_job_open(struct sched_engine *engine, struct call *call)
{
    join(engine, call, sched_policy_entry_queue(engine->sched, call->program),
         call->waiting_since_us);
}

void sched_job_close(struct sched_engine *engine, struct call *call)
{
    struct sched *sched = engine->sched;
    struct sched_job *job = sched_job_of(sched, call);
    uint32_t *common = name_of(sched, call, job->queue);
    if (job->last_old == call->slot) {
        bool is_first = job->ends[CALL_LIST_ALL].head == call->slot;
        job->last_old = is_first ? CALL_NONE : call->links[CALL_LIST_ALL].prev;
    }
    sched_queue_remove(engine, call);
    if (job->calls_count == 0) {
        engine->lanes[job->tenant].jobs_count--;
        end_turn(engine, job);
        *common = *common == call->job ? SCHED_JOB_NONE : *common;
        job->next = sched->job_free;
        sched->job_free = call->job;
    }
    call->job = SCHED_JOB_NONE;
}

/* A job of one call goes along, and keeps its tie: calls with equal keys keep their order. */
void sched_job_restage(struct sched_engine *engine, struct call *call, enum sched_stage stage,
                       uint64_t now_us)
{
    struct sched_job *job = sched_job_of(engine->sched, call);
    if (!sched_policy_has_stages(engine->sched->settings.policy) || job->queue == stage) {
        return;
    }
    if (sched_policy_joins_calls(engine->sched)) {
        sched_job_close(engine, call);
        join(engine, call, stage, now_us);
    } else {
        sched_queue_remove(engine, call);
        job->queue = stage;
        sched_queue_enter(engine, call);
        sched_need_queued(engine, job, false);
    }
}

static void rekey(struct sched_engine *engine, const struct sched_member *member, uint64_t key)
{
    struct sched *sched = engine->sched;
    for (uint32_t stage = 0; stage < SCHED_STAGES; stage++) {
        uint32_t job = member->jobs[stage];
        if (job != SCHED_JOB_NONE && sched->jobs[job].key != key) {
            sched_queue_rekey(engine, &sched->jobs[job], key);
            sched_need_queued(engine, &sched->jobs[job], false);
        }
    }
}

void sched_job_rekey(const struct sched *sched, const struct call *call)
{
    uint64_t key = sched_policy_key(sched, call);
    for (uint32_t i = 0; i < sched->settings.engines; i++) {
        struct sched_engine *engine = &sched->engines[i];
        rekey(engine, sched_member_at(engine, call->program), key);
    }
}

struct sched_job *sched_job_after(const struct sched *sched, const struct call *call)
{
    uint32_t job = call->job != SCHED_JOB_NONE ? call->job : sched_member_of(sched, call)->jobs[0];
    return job != SCHED_JOB_NONE ? &sched->jobs[job] : NULL;
}

void sched_job_enter(struct sched_job *job, uint64_t now_us)
{
    if (now_us > job->waiting_since_us) {
        job->wait_us += now_us - job->waiting_since_us;
        job->waiting_since_us = now_us;
    }
}

void sched_job_excuse(struct sched_job *job, struct call *call, uint64_t now_us)
{
    call->waiting_since_us = now_us;
    job->waiting_since_us = job->calls_count == 1 ? now_us : job->waiting_since_us;
}

/* Recompute is service, but it lengthens the quantum instead of using it up: a job is not demoted
 * before it has made as much progress as its recompute has cost. Else jobs whose quanta are shorter
 * than their recompute could take the pool from each other without any progress. */
void sched_job_charge(struct sched_job *job, uint64_t duration_us, bool is_progress,
                      uint64_t now_us)
{
    uint64_t left_us = job->quantum_left_us;
    if (is_progress) {
        left_us -= duration_us < left_us ? duration_us : left_us;
    } else if (left_us <= UINT64_MAX - duration_us) {
        left_us += duration_us;
    }
    job->quantum_left_us = left_us;
    job->service_us += duration_us;
    job->waiting_since_us = now_us;
}

/* The program's job at another engine; NULL: it has none there, or calls stand by themselves. */
static struct sched_job *job_elsewhere(const struct sched_engine *engine, uint32_t program,
                                       uint32_t other)
{
    const struct sched *sched = engine->sched;
    if (other == engine->index || !sched_policy_orders_programs(sched)) {
        return NULL;
    }
    uint32_t job = sched_member_at(&sched->engines[other], program)->jobs[0];
    return job != SCHED_JOB_NONE ? &sched->jobs[job] : NULL;
}

void sched_job_charge_others(const struct sched_engine *engine, uint32_t program,
                             uint64_t duration_us)
{
    for (uint32_t i = 0; i < engine->sched->settings.engines; i++) {
        struct sched_job *job = job_elsewhere(engine, program, i);
        if (job != NULL) {
            uint64_t left_us = job->quantum_left_us;
            job->quantum_left_us -= duration_us < left_us ? duration_us : left_us;
        }
    }
}

void sched_job_settle_others(const struct sched_engine *engine, uint32_t program, uint64_t now_us)
{
    for (uint32_t i = 0; i < engine->sched->settings.engines; i++) {
        struct sched_job *job = job_elsewhere(engine, program, i);
        if (job != NULL) {
            sched_job_settle(&engine->sched->engines[i], job, now_us);
        }
    }
}

/* To the tail or the head of this queue, with a new quantum. */
static void move(struct sched_engine *engine, struct sched_job *job, uint32_t queue, bool to_head)
{
    sched_queue_move(engine, job, queue, to_head);
    sched_need_queued(engine, job, to_head);
    job->quantum_left_us = engine->sched->levels[queue].quantum_us;
    job->last_old = job->ends[CALL_LIST_ALL].tail;
}

static void sink(struct sched_engine *engine, struct sched_job *job, uint32_t queue,
                 uint64_t now_us)
{
    struct sched *sched = engine->sched;
    bool to_head = sched_policy_demotes_to_head(sched);
    end_turn(engine, job);
    move(engine, job, queue, to_head);
    if (sched->settings.queues > 1) {
        sched->stats->demotions++;
        sched_note(sched, sched_job_first(sched, job), now_us,
                   (struct event_what){EVENT_DEMOTED, {queue}});
    }
}

/* A job of the last queue sinks no further. When its quantum is used up and all its calls came
 * after it did, it stands where others should be: a program that always has a call open would keep
 * the place for ever. */
static bool is_renewed(const struct sched *sched, const struct sched_job *job)
{
    return sched_policy_orders_programs(sched) && job->queue + 1 == sched->settings.queues &&
           job->quantum_left_us == 0 && job->last_old == CALL_NONE;
}

void sched_job_settle(struct sched_engine *engine, struct sched_job *job, uint64_t now_us)
{
    if (sched_policy_raises(engine->sched, job)) {
        uint32_t queue = sched_policy_entry_queue(engine->sched, job->program);
        move(engine, job, queue, goes_first(engine, job, queue));
    } else if (sched_policy_demotes(engine->sched, job)) {
        sink(engine, job, sched_policy_demotion_queue(engine->sched, job), now_us);
    } else if (is_renewed(engine->sched, job)) {
        move(engine, job, job->queue, false);
    }
}

void sched_job_wait_again(struct sched_job *job, uint64_t now_us)
{
    job->wait_us = 0;
    job->waiting_since_us = now_us;
}

void sched_job_place_turn(struct sched_engine *engine, struct sched_job *job, bool is_first)
{
    uint32_t queue = is_first ? 0 : job->promoted_from;
    uint64_t left_us = job->quantum_left_us;
    ASSERT(job->promoted_from > 0);
    if (job->queue != queue) {
        move(engine, job, queue, !is_first);
        job->quantum_left_us = left_us;
    }
}

void sched_job_give_up_turn(struct sched_engine *engine, struct sched_job *job, uint64_t now_us)
{
    ASSERT(job->promoted_from > 0);
    sink(engine, job, job->promoted_from, now_us);
}

/* True when one of its first `looks` calls can run. */
static bool can_run(const struct sched *sched, const struct sched_job *job, uint32_t looks)
{
    uint32_t last = job->ends[CALL_LIST_ALL].tail;
    const struct call *call = sched_job_first(sched, job);
    while (--looks > 0 && !sched_call_can_run(call) && call->slot != last) {
        call = sched_call(sched, call->links[CALL_LIST_ALL].next);
    }
    return sched_call_can_run(call);
}

bool sched_job_can_run(const struct sched *sched, const struct sched_job *job)
{
    return can_run(sched, job, SCHED_JOB_LOOKS);
}

bool sched_job_has_any_to_run(const struct sched *sched, const struct sched_job *job)
{
    return can_run(sched, job, job->calls_count);
}

void sched_job_promote(struct sched_engine *engine, struct sched_job *job, uint64_t now_us)
{
    struct sched *sched = engine->sched;
    uint32_t from = job->queue;
    ASSERT(from > 0 && job->promoted_from == 0);
    sched_note(sched, sched_job_first(sched, job), now_us,
               (struct event_what){EVENT_PROMOTED, {from}});
    move(engine, job, 0, false);
    job->quantum_left_us = sched->levels[from].quantum_us;
    begin_turn(engine, job, from);
    sched_job_wait_again(job, now_us);
    job->service_us = 0;
    job->promotions++;
    sched->stats->promotions++;
}
