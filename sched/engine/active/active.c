/* SPDX-License-Identifier: MIT */
/*
 * What: the active set. Contexts of programs that take turns have to fit the KV together, or each
 * call finds its history evicted, computes it again, and evicts the next one's: thrashing
 * (docs/decisions/0059). So a program is active, and its calls stand in the queues, or it waits,
 * and they are held: at the same levels, in the same order, where no plan looks.
 *
 *                    there is room, or another one yields
 *       waiting -------------------------------------------> active
 *          ^   <-------------------------------------------
 *                    displaced: its KV leaves as a whole
 *
 *   room       the working sets of the active programs (working_set.c), and the beginnings that
 *              they share (group.c), fit the device. The first call of a small program may use all
 *              of that; other programs leave a reserve for these (sched.small_share), and so do
 *              all programs of a tenant that wants more than it gets, where there are others
 *   order      who becomes active next, and who yields for it: rank.c. A displaced program goes to
 *              the head of its level
 *   overflow   working sets grow beyond the device: an idle program, or the last in order, yields
 *   force      no call of an active program can run: the first that waits and can becomes active
 *
 * Why not leave it to the order of calls: with 400 tool users at once clairvoyant order takes 1.5
 * times as long as any order that keeps the set which fits.
 *
 * Invariants: the jobs of a program are held exactly when it is not active; a held job owns no
 * block. An active program of which no call can run is in the heap of idle ones.
 * Bounds: SCHED_ACTIVE_LOOKS programs in a pass; a program that changes its state costs O(its
 * calls + their blocks). Force, when the engine would be idle: O(held calls that cannot run).
 */
#include "sched/engine/active/active.h"

#include "sched/engine/active/exchange.h"
#include "sched/engine/active/group.h"
#include "sched/engine/member.h"
#include "sched/engine/need.h"
#include "sched/engine/queue.h"
#include "sched/engine/active/rank.h"
#include "sched/engine/residency.h"
#include "sched/engine/share/tenant.h"
#include "sched/engine/active/working_set.h"
#include "sched/class/promise.h"

void sched_active_plan_memory(struct memory_plan *plan, const struct sched_settings *settings)
{
    struct memory_plan each = {.rows_count = 0};
    heap_plan_memory(&each, "sched idle programs", settings->programs);
    sched_group_plan_memory(&each, settings->programs);
    memory_plan_add_each(plan, &each, settings->engines);
}

void sched_active_init(struct sched_engine *engine, struct arena *arena)
{
    heap_init(&engine->active.idle, engine->sched->settings.programs, arena);
    sched_group_init(engine, arena);
}

/* ---- room ------------------------------------------------------------------------------------ */

static uint32_t capacity(const struct sched_engine *engine)
{
    return engine->kv->settings.device_blocks - kvmem_declared(engine->kv);
}

static void count(struct sched_engine *engine, struct sched_member *member, uint32_t blocks)
{
    uint64_t *sum = &engine->active.blocks;
    ASSERT(*sum >= member->counted_blocks);
    *sum += (uint64_t)blocks - member->counted_blocks;
    member->counted_blocks = blocks;
}

static void recount(struct sched_engine *engine, struct sched_member *member)
{
    if (member->is_active && !sched_active_is_off(engine->sched)) {
        sched_group_join(engine, member);
        count(engine, member, sched_working_set(member, capacity(engine)));
    }
}

/* Blocks that the active programs take. */
static uint64_t taken(const struct sched_engine *engine)
{
    return engine->active.blocks + engine->active.common_blocks;
}

static bool is_small_beginning(const struct sched_engine *engine, uint32_t index,
                               uint32_t reserve)
{
    const struct program *program = &engine->sched->programs[index];
    return program->calls_ended == 0 && program->active_calls == 1 &&
           !sched_tenant_leaves_reserve(engine->sched, program->tenant) &&
           sched_working_set(&engine->members[index], capacity(engine)) <= reserve;
}

static bool fits(const struct sched_engine *engine, uint32_t index)
{
    const struct sched_member *member = &engine->members[index];
    const struct sched *sched = engine->sched;
    const struct sched_active *active = &engine->active;
    uint32_t most = capacity(engine);
    uint64_t blocks =
        (uint64_t)sched_working_set(member, most) + sched_group_missing(engine, member);
    if (active->programs == 0) {
        return true;
    }
    if (sched->settings.active_programs > 0) {
        return active->programs < sched->settings.active_programs;
    }
    uint32_t reserve = (uint32_t)((uint64_t)most * sched->settings.small_permille / 1000);
    most -= is_small_beginning(engine, index, reserve) ? 0 : reserve;
    return taken(engine) + blocks <= most;
}

/* ---- a program changes its state ------------------------------------------------------------- */

static void note(const struct sched_engine *engine, uint32_t index, uint64_t now_us,
                 struct event_what what)
{
    const struct sched *sched = engine->sched;
    event_log_note_program(sched->settings.event_log, now_us, index, sched->programs[index].id,
                           what);
}

/* The open call that came first. */
static struct call *oldest_call(const struct sched *sched, const struct sched_member *member)
{
    struct call *call = sched_call_or_null(sched, member->first_call);
    while (call != NULL && call->program_next != CALL_NONE) {
        call = sched_call(sched, call->program_next);
    }
    return call;
}

/* A starved job stays the first of its level: no other is seen. */
static void hold_at_head(struct sched_engine *engine, struct sched_job *job, uint64_t now_us)
{
    uint32_t first = engine->lanes[job->tenant].held[job->queue].jobs.head;
    sched_queue_hold(engine, job, true, true);
    if (first != SCHED_JOB_NONE &&
        sched_rank_is_starved(engine, &engine->sched->jobs[first], now_us)) {
        sched_queue_move(engine, &engine->sched->jobs[first], job->queue, true);
    }
}

static void move_job(struct sched_engine *engine, struct sched_job *job, bool held, bool to_head,
                     uint64_t now_us)
{
    if (to_head) {
        hold_at_head(engine, job, now_us);
    } else {
        sched_queue_hold(engine, job, held, false);
    }
    engine->active.held_jobs += held ? 1u : -1u;
    sched_need_held(engine, job);
}

/* All jobs of the member, held ones to the head, the last one first: they keep their order. Where
 * one job has all of its calls, the others are not visited. */
static void move_jobs(struct sched_engine *engine, const struct sched_member *member, bool held,
                      uint64_t now_us)
{
    const struct sched *sched = engine->sched;
    bool to_head = held && sched->nodes == NULL;        /* else keys say where they go */
    uint32_t left = member->calls_count;        /* those whose jobs have not moved */
    struct call *call = sched_call_or_null(sched, member->first_call);
    if (!to_head && left > 0 && sched_job_of(sched, call)->calls_count < left) {
        call = oldest_call(sched, member);
    }
    while (left > 0) {
        struct sched_job *job = sched_job_of(sched, call);
        if (job->held != held) {
            left -= job->calls_count;
            move_job(engine, job, held, to_head, now_us);
        }
        call = sched_call_or_null(sched, to_head ? call->program_next : call->program_prev);
    }
}

static void come_back(struct sched_engine *engine, struct sched_member *member)
{
    engine->active.away_blocks -= member->away_blocks;
    member->away_blocks = 0;
}

static void activate(struct sched_engine *engine, uint32_t index, uint64_t now_us)
{
    struct sched_member *member = &engine->members[index];
    ASSERT(!member->is_active && member->calls_count > 0);
    member->is_active = true;
    member->is_further = false;
    member->owed_us = 0;
    engine->active.programs++;
    come_back(engine, member);
    recount(engine, member);
    kvmem_protect(engine->kv, index, true);
    move_jobs(engine, member, false, now_us);
    note(engine, index, now_us,
         (struct event_what){EVENT_PROGRAM_ACTIVE,
                             {member->counted_blocks, engine->active.programs}});
}

/* It is in the set no more. */
static void leave(struct sched_engine *engine, uint32_t index)
{
    struct sched_member *member = &engine->members[index];
    ASSERT(member->is_active);
    member->is_active = false;
    engine->active.programs--;
    heap_remove(&engine->active.idle, index);
    count(engine, member, 0);
    sched_group_leave(engine, member);
    kvmem_protect(engine->kv, index, false);
}

static void displace(struct sched_engine *engine, uint32_t index, enum sched_why why,
                     uint64_t now_us)
{
    const struct sched *sched = engine->sched;
    struct sched_member *member = &engine->members[index];
    uint32_t blocks = kvmem_held(engine->kv, index).device;
    for (uint32_t slot = member->first_call; slot != CALL_NONE;) {
        struct call *call = sched_call(sched, slot);
        slot = call->program_next;
        if (sched_call_is_resident(engine, call)) {
            blocks += kvmem_call_blocks(engine->kv, call->slot);
            sched_residency_preempt(engine, call, now_us);
        }
    }
    sched_exchange_pay(engine, blocks);
    note(engine, index, now_us, (struct event_what){EVENT_PROGRAM_DISPLACED, {blocks, why}});
    member->away_blocks = member->counted_blocks;
    engine->active.away_blocks += member->away_blocks;
    leave(engine, index);
    move_jobs(engine, member, true, now_us);
    sched->programs[index].displacements++;
    sched->stats->programs_displaced++;
}

/* ---- events ---------------------------------------------------------------------------------- */

void sched_active_arrive(struct sched_engine *engine, struct call *call,
                         const struct kvmem_answer *answer)
{
    struct sched *sched = engine->sched;
    if (sched_active_is_off(sched)) {
        return;
    }
    struct sched_member *member = &engine->members[call->program];
    uint32_t block_tokens = engine->kv->settings.block_tokens;
    uint32_t history = member->history_blocks;
    uint32_t prompt = call->prompt_tokens / block_tokens;   /* no more is computed again */
    sched_working_set_grow(sched, call, answer);
    history = history < prompt ? history : prompt;
    if (!member->is_active && history > member->history_blocks) {
        uint64_t lost_blocks = history - member->history_blocks;
        sched_exchange_pay_lost(engine, lost_blocks * block_tokens);
    }
    heap_remove(&engine->active.idle, call->program);
    recount(engine, member);
}

/* The held programs that fit, in their order. */
static void admit_in_order(struct sched_engine *engine, uint64_t now_us)
{
    struct sched_job *job;
    while ((job = sched_rank_next(engine, now_us)) != NULL &&
           fits(engine, job->program)) {
        if (job->queue == 0 && sched_rank_is_starved(engine, job, now_us)) {
            engine->active.starved_us = now_us;
        }
        activate(engine, job->program, now_us);
    }
}

void sched_active_admit(struct sched_engine *engine, const struct call *call, uint64_t now_us)
{
    const struct sched *sched = engine->sched;
    const struct program *program = &sched->programs[call->program];
    const struct sched_member *member = &engine->members[call->program];
    if (member->is_active) {
        return;
    }
    engine->active.held_jobs += sched_job_of(sched, call)->calls_count == 1;
    admit_in_order(engine, now_us);
    if (!member->is_active && program->calls_ended == 0 && fits(engine, call->program) &&
        sched_rank_next(engine, now_us)->tenant == program->tenant) {
        activate(engine, call->program, now_us);
    }
    if (!member->is_active) {
        uint32_t blocks = sched_working_set(member, capacity(engine));
        sched->stats->programs_held++;
        note(engine, call->program, now_us,
             (struct event_what){EVENT_PROGRAM_HELD, {blocks, event_value(taken(engine))}});
    }
}

void sched_active_end_call(struct sched_engine *engine, const struct call *call)
{
    if (!sched_active_is_off(engine->sched)) {
        sched_working_set_shrink(engine->sched, call);
        engine->active.held_jobs -= sched_job_of(engine->sched, call)->held &&
                                    sched_job_of(engine->sched, call)->calls_count == 1;
    }
}

void sched_active_ended(struct sched_engine *engine, uint32_t index, uint64_t now_us)
{
    struct sched_member *member = &engine->members[index];
    if (sched_active_is_off(engine->sched)) {
        return;
    }
    recount(engine, member);
    if (member->is_active && member->calls_count == 0) {
        heap_set(&engine->active.idle, index, now_us);
    }
}

void sched_active_forget(struct sched *sched, uint32_t index)
{
    const struct program *program = &sched->programs[index];
    if (sched_active_is_off(sched)) {
        return;
    }
    if (program->calls_ended > 0) {
        sched_promise_note(&sched->promises, program->service_us);
    }
    for (uint32_t i = 0; i < sched->settings.engines; i++) {
        struct sched_engine *engine = &sched->engines[i];
        if (engine->members[index].is_active) {
            leave(engine, index);
        }
        come_back(engine, &engine->members[index]);
    }
}

/* What they had there is lost, or will be wanted elsewhere. */
void sched_active_clear(struct sched_engine *engine)
{
    if (sched_active_is_off(engine->sched)) {
        return;
    }
    for (uint32_t i = 0; i < engine->sched->settings.programs; i++) {
        struct sched_member *member = &engine->members[i];
        ASSERT(member->calls_count == 0);
        if (member->is_active) {
            leave(engine, i);
        }
        come_back(engine, member);
        member->history_blocks = member->common_blocks = 0;
    }
}

void sched_active_stall(struct sched_engine *engine, const struct call *call, uint64_t now_us)
{
    /* Another one than those looked at says so when it gets a row. */
    if (!sched_active_is_off(engine->sched) && !heap_has(&engine->active.idle, call->program) &&
        !sched_member_can_run(engine, call->program, SCHED_JOB_LOOKS)) {
        heap_set(&engine->active.idle, call->program, now_us);
    }
}

void sched_active_grow(struct sched_engine *engine, struct call *call)
{
    if (!sched_active_is_off(engine->sched) && sched_call_known(call) > call->expected_tokens) {
        sched_working_set_follow(engine->sched, call);
        recount(engine, &engine->members[call->program]);
    }
}

void sched_active_run(struct sched_engine *engine, const struct call *call)
{
    heap_remove(&engine->active.idle, call->program);
}

void sched_active_charge(struct sched_engine *engine, const struct call *call,
                         uint64_t duration_us, bool is_progress)
{
    struct sched_member *member = &engine->members[call->program];
    uint32_t most_us = is_progress ? member->owed_us : UINT32_MAX - member->owed_us;
    uint32_t us = duration_us < most_us ? (uint32_t)duration_us : most_us;
    if (is_progress) {
        member->is_further = true;
        member->owed_us -= us;
    } else if (!member->is_further) {
        member->owed_us += us;
    }
}

/* ---- the pass -------------------------------------------------------------------------------- */

static void relieve(struct sched_engine *engine, uint64_t now_us)
{
    struct sched_active *active = &engine->active;
    uint32_t most = engine->sched->settings.active_programs;
    for (uint32_t looks = SCHED_ACTIVE_LOOKS; looks > 0 && active->programs > 1; looks--) {
        uint32_t index = sched_rank_dispensable(engine);
        bool overflows = most > 0 ? active->programs > most : taken(engine) > capacity(engine);
        if (!overflows || index == SCHED_PROGRAM_NONE) {
            return;
        }
        displace(engine, index, SCHED_WHY_OVERFLOW, now_us);
    }
}

/* Programs become active as far as there is room, and as others yield. */
static void make_room(struct sched_engine *engine, uint64_t now_us)
{
    const struct sched_job *served = NULL;
    for (uint32_t looks = SCHED_ACTIVE_LOOKS; looks > 0; looks--) {
        admit_in_order(engine, now_us);
        const struct sched_job *job = sched_rank_next(engine, now_us);
        enum sched_why why = SCHED_WHY_IDLE;
        uint32_t index = SCHED_PROGRAM_NONE;
        if (job != NULL) {
            index = sched_rank_yielding(engine, job, job == served, now_us, &why);
        }
        if (index == SCHED_PROGRAM_NONE) {
            return;
        }
        displace(engine, index, why, now_us);
        served = job;
    }
}

void sched_active_pass(struct sched_engine *engine, uint64_t now_us)
{
    if (sched_active_is_off(engine->sched)) {
        return;
    }
    sched_promise_learn(&engine->sched->promises);
    sched_exchange_accrue(engine, now_us);
    sched_rank_pass_over(engine);
    relieve(engine, now_us);
    make_room(engine, now_us);
}

bool sched_active_force(struct sched_engine *engine, uint64_t now_us)
{
    const struct sched_job *job = sched_rank_next_that_can_run(engine);
    if (job == NULL) {
        return false;
    }
    uint32_t program = job->program;
    while (!fits(engine, program)) {
        uint32_t index = sched_rank_dispensable(engine);
        ASSERT(index != SCHED_PROGRAM_NONE);
        displace(engine, index, SCHED_WHY_FORCE, now_us);
    }
    activate(engine, program, now_us);
    return true;
}

void sched_active_check(const struct sched_engine *engine)
{
    const struct sched *sched = engine->sched;
    const struct sched_active *active = &engine->active;
    uint64_t blocks = 0, away = 0;
    uint32_t programs = 0;
    heap_check(&active->idle);
    for (uint32_t i = 0; i < sched->settings.programs && !sched_active_is_off(sched); i++) {
        const struct sched_member *member = &engine->members[i];
        bool is_idle = heap_has(&active->idle, i);
        away += member->away_blocks;
        ASSERT(sched->programs[i].in_use || (!member->is_active && member->away_blocks == 0));
        if (!member->is_active) {
            ASSERT(member->counted_blocks == 0 && !is_idle);
            continue;
        }
        ASSERT(is_idle || member->calls_count > 0);
        blocks += member->counted_blocks;
        programs++;
    }
    ASSERT(programs == active->programs);
    ASSERT(blocks == active->blocks && away == active->away_blocks);
}
