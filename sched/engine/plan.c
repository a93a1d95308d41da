/* SPDX-License-Identifier: MIT */
/*
 * What: Algorithm 1, lines 32 to 39: the next batch. The queues are walked from the top, first come
 * first served; each call gets a row, until the batch is full or a call does not fit.
 *
 *   row      feeds the call's known tokens from kv_tokens on: a chunk of them, or all, and then
 *            samples up to N tokens. "Known" is the prompt and what was generated, so a call that
 *            lost its blocks is recomputed by the same rule that reads a prompt for the first time.
 *   budget   prefill_tokens over all rows, in order. A row with one token to feed needs none; a
 *            call that finds the budget spent is passed over, and decoding calls after it still
 *            run. From then on the walk visits only those that may need no budget: calls that have
 *            had blocks once, until batch_calls of them were visited, and then calls that have
 *            blocks.
 *   blocks   first what is cached of the call's tokens, on the device or on the host; then room
 *            for every position that the row will write. Cached contents make room for it, and when
 *            they do not suffice, resident calls that come later in the order, the last one first
 *            (where queues are stages, none comes after a call that waits);
 *            paused and cancelled ones make room wherever they stand. A call that this walk has
 *            already chosen or passed over keeps its blocks.
 *   moves    what a call needs may be on its way to the host, to make room for a row before it. The
 *            call is not computed again for that: it is passed over, keeps its place and what else
 *            is cached for it, and finds all in the next plan. When batch_calls have been passed
 *            over so, the walk ends.
 *   early stop   with cut_steps the step need not last N rounds. It lasts one when a prompt lacks
 *            nothing but budget, for the next step brings that. Else it lasts until a row has ended
 *            and no standby takes its place, or until a call arrives for which there is a row: a
 *            free one, or that of a call in a lower queue.
 *
 * Invariants: the first call that can run always fits (intake.c): everything else is cached or a
 * victim. And nothing is on its way yet when the walk comes to it: moves are of this plan, and each
 * is made for a call that came before, which has a row. So there is progress in each plan. A call
 * asks before it is weighed, and what it cannot have it has not taken (docs/decisions/0043).
 * Bounds: O(rows + resident calls + paused calls that have run before), however many calls wait:
 * of the calls that only wait, those are visited that get a row. The search for victims goes
 * from the tail of the last queue, and never twice past the same call. A question costs O(the
 * blocks found). Once the budget is spent, batch_calls calls are looked at, in O(1) each, and ask
 * when the look finds something. A paused call that the walk does not visit goes on waiting in its
 * account until a walk visits it.
 */
#include "sched/engine/plan.h"

#include "sched/ending.h"
#include "sched/engine/active.h"
#include "sched/engine/residency.h"
#include "sched/engine/starvation.h"
#include "sched/key.h"
#include "sched/levels.h"
#include "sched/policy.h"

/* The next resident call that has to go, lowest priority first; or NULL. */
static struct call *next_victim(struct sched_walk *walk)
{
    const struct sched_engine *engine = walk->engine;
    const struct sched *sched = engine->sched;
    for (;;) {
        while (walk->victim == NULL) {
            if (walk->victim_queue == 0) {
                return NULL;
            }
            const struct sched_queue *queue = &engine->queues[--walk->victim_queue];
            walk->victim = sched_call_or_null(sched, queue->lists[CALL_LIST_RESIDENT].tail);
        }
        struct call *call = walk->victim;
        walk->victim = sched_call_or_null(sched, call->links[CALL_LIST_RESIDENT].prev);
        if (!sched_walk_has_passed(engine, call) || !sched_call_can_run(call)) {
            return call;
        }
    }
}

/* True when the row fits; preempts others if it must. What a victim leaves may take the place of
 * what was found: then the question is asked again. */
static bool make_room(struct sched_walk *walk, const struct call *call,
                      struct kvmem_answer *answer, struct sched_row *row)
{
    struct sched_engine *engine = walk->engine;
    while (row->chunk > 0 && !kvmem_fits(engine->kv, answer, row->positions)) {
        struct call *victim = next_victim(walk);
        if (victim == NULL) {
            return false;
        }
        sched_cursor_forget(engine->sched, &walk->cursor, victim);
        sched_residency_preempt(engine, victim, walk->now_us);
        if (kvmem_is_stale(engine->kv, answer)) {
            *answer = sched_residency_ask(engine, call, false);
            *row = sched_row_after(walk, call, answer->positions);
        }
    }
    return true;
}

/* What the call needs moves with this step: it waits for the next one. False: too many do. */
static bool wait_for_move(struct sched_engine *engine)
{
    ASSERT(engine->planned_count > 0);      /* the call for whose row it moves */
    if (engine->move_waits == engine->sched->settings.batch_calls) {
        return false;
    }
    engine->move_waits++;
    engine->sched->stats->move_waits++;
    return true;
}

/* Where queues are stages, the call is with the residents from now on. A counter that its prompt
 * moves on is that of calls that wait still, too; but the cursor keeps its place. */
static void admit(struct sched_walk *walk, struct call *call)
{
    struct sched_engine *engine = walk->engine;
    struct sched *sched = engine->sched;
    bool has_waited = sched_job_of(sched, call)->queue == SCHED_STAGE_WAITING;
    const struct call *passed = sched_call_or_null(sched, walk->cursor.passed[CALL_LIST_ALL]);
    sched_job_restage(engine, call, SCHED_STAGE_RESIDENT, walk->now_us);
    if (has_waited) {
        sched_key_admit(sched, call);
        if (passed == NULL || passed->program != call->program) {
            sched_job_rekey(engine, call);
        }
    }
}

/* Asks what is there, and commits it with room for a row. False: the walk ends here. */
static bool plan_row(struct sched_walk *walk, struct call *call, bool whole)
{
    struct sched_engine *engine = walk->engine;
    struct kvmem_answer answer = sched_residency_ask(engine, call, whole);
    struct sched_row row = sched_row_after(walk, call, answer.positions);
    bool waits = answer.is_under_way && row.chunk > 0;
    bool goes_on = waits ? wait_for_move(engine) : make_room(walk, call, &answer, &row);
    if (waits || !goes_on || row.chunk == 0) {
        sched_residency_touch(engine, call, &answer, walk->now_us);
        return goes_on;
    }
    sched_residency_commit(engine, call, &answer, row.positions, walk->now_us);
    walk->budget_tokens -= answer.positions + 1 == sched_call_known(call) ? 0 : row.chunk;
    sched_row_fill(walk, call, &row);
    if (sched_policy_has_stages(engine->sched->settings.policy)) {
        admit(walk, call);
    }
    return true;
}

/* The walk soon comes to the call after this one: its memory is asked for while this one's is
 * worked on. */
static void expect_next(const struct sched_engine *engine, const struct call *call)
{
    const struct call *next = sched_queue_next(engine, call);
    if (next != NULL) {
        const uint8_t *at = (const uint8_t *)next;
        for (uint32_t i = 0; i < CALL_HOT_BYTES; i += ARENA_ALIGN_BYTES) {
            __builtin_prefetch(at + i, 1);
        }
        kvmem_expect(engine->kv, call->links[CALL_LIST_ALL].next);
    }
}

/* Gives the call a row, or passes over it. False: the walk ends, for it does not fit (line 37). */
static bool visit(struct sched_walk *walk, struct call *call)
{
    struct sched_engine *engine = walk->engine;
    ASSERT(call->state == CALL_QUEUED);
    ASSERT(call->kv_tokens < sched_call_known(call));
    ASSERT(call->generated_tokens < call->max_tokens);
    expect_next(engine, call);
    call->walk_sequence = engine->sequence;
    if (!sched_call_can_run(call)) {
        sched_job_excuse(sched_job_of(engine->sched, call), call, walk->now_us);
        sched_active_stall(engine, call, walk->now_us);
        return true;
    }
    /* Without budget, and without blocks, it can run only if it finds those that it has lost. */
    bool whole = walk->budget_tokens == 0 && sched_call_known(call) > 1 &&
                 !sched_call_is_resident(engine, call);
    if (whole && (call->computed_tokens == 0 || walk->vain_looks_left == 0)) {
        return true;
    }
    walk->vain_looks_left -= whole;
    return plan_row(walk, call, whole);
}

/* Where calls can still be that get a row. */
static enum call_list list_of(const struct sched_walk *walk)
{
    if (walk->budget_tokens > 0) {
        return CALL_LIST_ALL;
    }
    return walk->vain_looks_left > 0 ? CALL_LIST_STARTED : CALL_LIST_RESIDENT;
}

static void walk_queues(struct sched_walk *walk)
{
    struct sched_engine *engine = walk->engine;
    while (engine->planned_count < engine->sched->settings.batch_calls) {
        struct call *call = sched_cursor_next(engine, &walk->cursor, list_of(walk));
        if (call == NULL) {
            walk->at_end = true;
            return;
        }
        if (!visit(walk, call)) {
            sched_cursor_stop(&walk->cursor, call);
            return;
        }
        if (sched_job_of(engine->sched, call)->queue == walk->cursor.queue) {
            sched_cursor_pass(engine, &walk->cursor, call);
        }
    }
}

static enum step_stop stop_of(const struct sched_walk *walk)
{
    if (!walk->engine->sched->settings.cut_steps) {
        return STEP_STOP_LAST;
    }
    return walk->at_end && walk->budget_tokens == 0 ? STEP_STOP_ROUND : STEP_STOP_ROW;
}

/* The queue of the last row of the batch. */
static uint32_t last_queue_of(const struct sched_engine *engine)
{
    if (engine->planned_count == 0) {
        return 0;
    }
    uint32_t last = engine->planned[engine->planned_count - 1].call;
    return sched_job_of(engine->sched, sched_call(engine->sched, last))->queue;
}

void sched_plan_arrival(struct sched_engine *engine, const struct call *call)
{
    const struct sched_job *job = sched_job_of(engine->sched, call);
    bool displaces = job->queue < engine->last_queue;
    if (!job->held && engine->step_in_flight && (engine->has_room || displaces) &&
        engine->sched->settings.cut_steps) {
        step_stop_early(&engine->step, STEP_STOP_ROUND);
    }
}

/* The batch, and what comes after it. */
static struct sched_walk plan_rows(struct sched_engine *engine, uint64_t now_us)
{
    const struct sched_settings *settings = &engine->sched->settings;
    engine->sequence++;
    engine->planned_count = 0;
    engine->move_waits = 0;
    struct sched_walk walk = {
        .engine = engine,
        .now_us = now_us,
        .budget_tokens = settings->prefill_tokens,
        .vain_looks_left = settings->batch_calls,
        .cursor = sched_cursor_start(),
        .victim_queue = settings->queues,
    };
    walk_queues(&walk);
    engine->planned_active = engine->planned_count;
    engine->last_queue = last_queue_of(engine);
    engine->has_room = walk.at_end;
    engine->is_underused = walk.at_end && walk.budget_tokens > 0;
    if (engine->planned_count > 0) {
        sched_standby_rows(&walk);
        sched_standby_prefetch(&walk);
        kvmem_expire(engine->kv, now_us, true);
    }
    for (uint32_t i = 0; i < engine->planned_count && sched_policy_lifts(engine->sched); i++) {
        sched_job_rekey(engine, sched_call(engine->sched, engine->planned[i].call));
    }
    return walk;
}

bool sched_engine_plan(struct sched_engine *engine, uint64_t now_us)
{
    ASSERT(!engine->step_in_flight);
    sched_levels_learn(engine->sched);
    sched_starvation_pass(engine, now_us);
    sched_active_pass(engine, now_us);
    struct sched_walk walk = plan_rows(engine, now_us);
    if (engine->planned_count == 0 && sched_active_force(engine, now_us)) {
        walk = plan_rows(engine, now_us);
    }
    *step_header(&engine->step) = (struct step_header){
        .rows_count = engine->planned_count,
        .rows_active = engine->planned_active,
        .tokens_count = walk.tokens_count,
        .sequence = engine->sequence,
        .early_stop = stop_of(&walk),
    };
    return engine->planned_count > 0;
}

static void launch_row(struct sched_engine *engine, uint32_t index, uint64_t now_us)
{
    const struct step_planned *planned = &engine->planned[index];
    struct call *call = sched_call(engine->sched, planned->call);
    ASSERT(call->generation == planned->call_generation);
    call->standby = index >= engine->planned_active;
    if (!call->standby) {
        sched_call_enter(engine->sched, call, planned->first_position, now_us);
    }
    call->state = CALL_RUNNING;
    sched_active_run(engine, call);
}

void sched_engine_launched(struct sched_engine *engine, uint64_t now_us)
{
    ASSERT(!engine->step_in_flight);
    ASSERT(engine->planned_active > 0);
    for (uint32_t i = 0; i < engine->planned_count; i++) {
        launch_row(engine, i, now_us);
    }
    engine->step_in_flight = true;
    engine->step_submitted_us = now_us;
    engine->rounds_published = 0;
    event_log_note(engine->sched->settings.event_log, now_us,
                   (struct event_what){EVENT_STEP_BEGUN,
                                       {engine->planned_active,
                                        engine->planned_count - engine->planned_active,
                                        [EVENT_VALUE_ENGINE] = engine->index}});
}
