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
 *   entry    a call that has no blocks may be kept out (active/entry.c). The walk then goes on with
 *            calls of its tenant that have blocks.
 *   moves    what a call needs may be on its way to the host, to make room for a row before it. The
 *            call is not computed again for that: it is passed over, keeps its place and what else
 *            is cached for it, and finds all in the next plan. When batch_calls have been passed
 *            over so, the walk ends.
 *   early stop   with cut_steps the step need not last N rounds. It lasts one when a prompt lacks
 *            nothing but budget, for the next step brings that. Else it lasts until a row has ended
 *            and no standby takes its place, or until a call arrives for which there is a row: a
 *            free one, or that of a call in a lower queue.
 *
 * Invariants: the first call that can run always fits (admission.c): everything else is cached or a
 * victim. And nothing is on its way yet when the walk comes to it: moves are of this plan, and each
 * is made for a call that came before, which has a row. So there is progress in each plan. A call
 * asks before it is weighed, and what it cannot have it has not taken (docs/decisions/0043).
 * Bounds: O(rows + resident calls + paused calls that have run before), however many calls wait:
 * of the calls that only wait, those are visited that get a row; in a trial, and while there are
 * suspects, all that stand before those. The search for victims goes
 * from the tail of the last queue, and never twice past the same call. A question costs O(the
 * blocks found). Once the budget is spent, batch_calls calls are looked at, in O(1) each, and ask
 * when the look finds something. A paused call that the walk does not visit goes on waiting in its
 * account until a walk visits it.
 */
#include "sched/engine/plan.h"

#include "sched/ending.h"
#include "sched/engine/active/active.h"
#include "sched/engine/draft.h"
#include "sched/engine/active/entry.h"
#include "sched/engine/share/deal.h"
#include "sched/engine/residency.h"
#include "sched/engine/starvation.h"
#include "sched/engine/suspicion.h"
#include "sched/key.h"
#include "sched/levels.h"
#include "sched/policy.h"

static struct sched_lane *lane_of(const struct sched_engine *engine, const struct call *call)
{
    return &engine->lanes[sched_job_of(engine->sched, call)->tenant];
}

/* True when no call would run if this one did not. */
static bool is_last_resort(const struct sched_walk *walk)
{
    const struct sched_engine *engine = walk->engine;
    return engine->planned_count == 0 && (walk->takes_all || engine->dealt_count == 1);
}

/* The call gets no blocks; those of its tenant that have some go on. */
static bool keep_out(const struct sched_walk *walk, const struct call *call, struct sched_row *row)
{
    lane_of(walk->engine, call)->hand.kept_out = call->slot;
    row->chunk = 0;
    return true;
}

/* True when the row fits; preempts others if it must. What a victim leaves may take the place of
 * what was found: then the question is asked again. It may also be withheld, because it is within
 * its account's minimum; then a call that took it from a tenant that is ahead takes that, too, and
 * what its own tenant's calls have. Else it would have taken it in vain, and would do so again in
 * each plan. */
static bool make_room(const struct sched_walk *walk, const struct call *call,
                      struct kvmem_answer *answer, struct sched_row *row)
{
    struct sched_engine *engine = walk->engine;
    const struct sched_lane *own = lane_of(engine, call);
    bool takes_own = sched_entry_takes(walk, call), has_taken = false, has_preempted = false;
    while (row->chunk > 0 && !kvmem_fits_beside(engine->kv, answer, row->positions)) {
        struct call *victim = sched_deal_victim(walk, own, takes_own);
        if (victim == NULL) {
            bool fits = (is_last_resort(walk) || has_taken) &&
                        kvmem_fits(engine->kv, answer, row->positions);
            return fits || (!takes_own && keep_out(walk, call, row));
        }
        struct sched_lane *its = lane_of(engine, victim);
        if (its != own) {
            engine->taker = call->slot;
            engine->taker_tokens = call->computed_tokens;
            has_taken = has_taken || sched_call_can_run(victim);
            takes_own = takes_own || has_taken;
        }
        has_preempted = has_preempted || sched_call_can_run(victim);
        sched_cursor_forget(engine->sched, &its->hand.cursor, victim);
        sched_residency_preempt(engine, victim, walk->now_us);
        if (kvmem_is_stale(engine->kv, answer)) {
            *answer = sched_residency_ask(engine, call, false);
            *row = sched_row_after(walk, call, answer->positions);
        }
    }
    bool stays = row->chunk == 0 || has_preempted ||
                 sched_entry_is_worth_it(walk, call, answer, row);
    return stays || keep_out(walk, call, row);
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
    const struct sched_cursor *cursor = &lane_of(engine, call)->hand.cursor;
    bool has_waited = sched_job_of(sched, call)->queue == SCHED_STAGE_WAITING;
    const struct call *passed = sched_call_or_null(sched, cursor->passed[CALL_LIST_ALL]);
    sched_job_restage(engine, call, SCHED_STAGE_RESIDENT, walk->now_us);
    if (has_waited) {
        sched_key_admit(sched, call);
        if (passed == NULL || passed->program != call->program) {
            sched_job_rekey(sched, call);
        }
    }
}

/* The last row of the batch, so far, is the call's. */
static void deal_row(struct sched_engine *engine, const struct call *call, uint32_t chunk)
{
    struct sched_lane *lane = lane_of(engine, call);
    engine->last_key = lane->hand.key;
    lane->hand.last_queue = sched_job_of(engine->sched, call)->queue;
    sched_deal_row(engine, lane, call, chunk);
}

/* Asks what is there, and commits it with room for a row. False: the tenant's walk ends here. */
static bool plan_row(struct sched_walk *walk, struct call *call, bool whole)
{
    struct sched_engine *engine = walk->engine;
    struct kvmem_answer answer = sched_residency_ask(engine, call, whole);
    struct sched_row row = sched_row_after(walk, call, answer.positions);
    bool waits = answer.is_under_way && row.chunk > 0;
    bool goes_on = waits ? wait_for_move(engine) : make_room(walk, call, &answer, &row);
    if (waits || !goes_on || row.chunk == 0) {
        lane_of(engine, call)->hand.wants = true;
        sched_residency_touch(engine, call, &answer, walk->now_us);
        return goes_on;
    }
    sched_residency_commit(engine, call, &answer, row.positions, walk->now_us);
    walk->budget_tokens -= answer.positions + 1 == sched_call_known(call) ? 0 : row.chunk;
    walk->reserved_tokens += sched_entry_reserve(engine, call, &row);
    sched_row_fill(walk, call, &row);
    if (sched_policy_has_stages(engine->sched->settings.policy)) {
        admit(walk, call);
    }
    deal_row(engine, call, row.chunk);
    sched_suspicion_limit(walk, call);
    return true;
}

/* While the walk works on this call, its next tokens and the call after it are on their way into
 * the CPU's caches. */
static void cpu_prefetch_next(const struct sched_engine *engine, const struct call *call)
{
    const struct call *next = sched_queue_next(engine, call);
    sched_cpu_prefetch(call->tokens + call->kv_tokens, sizeof *call->tokens);
    if (next != NULL) {
        sched_cpu_prefetch(next, CALL_HOT_BYTES);
        kvmem_cpu_prefetch(engine->kv, call->links[CALL_LIST_ALL].next);
    }
}

/* Gives the call a row, or passes over it. False: the tenant's walk ends, for it does not fit (line
 * 37). */
static bool visit(struct sched_walk *walk, struct call *call)
{
    struct sched_engine *engine = walk->engine;
    ASSERT(call->state == CALL_QUEUED);
    ASSERT(call->kv_tokens < sched_call_known(call));
    ASSERT(call->generated_tokens < call->max_tokens);
    cpu_prefetch_next(engine, call);
    call->walk_sequence = engine->sequence;
    if (!sched_call_can_run(call)) {
        sched_job_excuse(sched_job_of(engine->sched, call), call, walk->now_us);
        sched_active_stall(engine, call, walk->now_us);
        return true;
    }
    if (!sched_suspicion_admits(walk, call)) {
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
static enum call_list list_of(const struct sched_walk *walk, const struct sched_hand *hand)
{
    if (hand->kept_out != CALL_NONE) {
        return CALL_LIST_RESIDENT;
    }
    if (walk->budget_tokens > 0) {
        return CALL_LIST_ALL;
    }
    return walk->vain_looks_left > 0 ? CALL_LIST_STARTED : CALL_LIST_RESIDENT;
}

/* The next call of the lane's walk, which may be its last. */
static void visit_next(struct sched_walk *walk, struct sched_lane *lane)
{
    struct sched_engine *engine = walk->engine;
    struct sched_hand *hand = &lane->hand;
    enum call_list list = list_of(walk, hand);
    if (list != CALL_LIST_ALL && !hand->is_limited) {
        sched_deal_limit(engine, lane);
    }
    struct call *call = sched_cursor_next(engine, &hand->cursor, list);
    if (call == NULL) {
        hand->is_out = hand->is_done = true;
    } else if (visit(walk, call)) {
        if (sched_job_of(engine->sched, call)->queue == hand->cursor.queue) {
            sched_cursor_pass(engine, &hand->cursor, call);
        }
    } else {
        sched_cursor_stop(&hand->cursor, call);
        hand->is_done = true;
    }
}

static void walk_queues(struct sched_walk *walk)
{
    struct sched_engine *engine = walk->engine;
    struct sched_lane *lane = sched_deal_next(walk);
    while (lane != NULL && engine->planned_count < walk->rows_max) {
        visit_next(walk, lane);
        lane = sched_deal_next(walk);
    }
    walk->at_end = sched_deal_is_over(engine);
    sched_deal_end(engine);
}

static enum step_stop stop_of(const struct sched_walk *walk)
{
    if (!walk->engine->sched->settings.cut_steps) {
        return STEP_STOP_LAST;
    }
    return walk->at_end && walk->budget_tokens == 0 ? STEP_STOP_ROUND : STEP_STOP_ROW;
}

void sched_plan_arrival(struct sched_engine *engine, const struct call *call)
{
    const struct sched_job *job = sched_job_of(engine->sched, call);
    if (!job->held && engine->step_in_flight && engine->sched->settings.cut_steps &&
        (engine->has_room || sched_deal_displaces(engine, job))) {
        step_stop_early(&engine->step, STEP_STOP_ROUND);
    }
}

/* The batch, and what comes after it: in a trial nothing does. */
static struct sched_walk plan_rows(struct sched_engine *engine, bool is_trial, bool takes_all,
                                   uint64_t now_us)
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
        .takes_all = takes_all,
        .is_trial = is_trial,
        .rows_max = settings->batch_calls,
    };
    engine->is_trial = is_trial;
    sched_deal_begin(engine);
    walk_queues(&walk);
    engine->planned_active = engine->planned_count;
    engine->has_room = walk.at_end;
    engine->is_underused = walk.at_end && walk.budget_tokens > 0;
    if (engine->planned_count > 0 && !is_trial) {
        sched_standby_rows(&walk);
        sched_standby_prefetch(&walk);
    }
    if (engine->planned_count > 0) {
        kvmem_expire(engine->kv, now_us, true);
    }
    for (uint32_t i = 0; i < engine->planned_count && sched_policy_lifts(engine->sched); i++) {
        sched_job_rekey(engine->sched, sched_call(engine->sched, engine->planned[i].call));
    }
    return walk;
}

/* While there are suspects, they and the others take turns. A turn ends when a call got further:
 * where the KV has room for one alone, it would else be taken from each before that. */
static bool is_trials_turn(const struct sched_engine *engine)
{
    return engine->sched->suspects > 0 && engine->is_trial != engine->turn_is_over;
}

/* Those whose turn it is, or the others where they have no rows. */
static struct sched_walk plan_in_turn(struct sched_engine *engine, bool is_trial, bool takes_all,
                                      uint64_t now_us)
{
    bool has_suspects = engine->sched->suspects > 0;
    struct sched_walk walk = plan_rows(engine, is_trial, takes_all, now_us);
    if (engine->planned_count == 0 && has_suspects) {
        walk = plan_rows(engine, !is_trial, takes_all, now_us);
    }
    return walk;
}

bool sched_engine_plan(struct sched_engine *engine, uint64_t now_us)
{
    bool is_trial = is_trials_turn(engine);
    ASSERT(!engine->step_in_flight);
    sched_levels_learn(engine->sched, sched_policy_knows_programs(engine->sched) &&
                                          !sched_policy_foresees(engine->sched));
    sched_starvation_pass(engine, now_us);
    sched_active_pass(engine, now_us);
    struct sched_walk walk = plan_in_turn(engine, is_trial, false, now_us);
    if (engine->planned_count == 0 && engine->dealt_count > 1) {
        walk = plan_in_turn(engine, is_trial, true, now_us);
    }
    if (engine->planned_count == 0 && sched_active_force(engine, now_us)) {
        walk = plan_in_turn(engine, is_trial, true, now_us);
    }
    engine->turn_is_over = false;
    sched_draft_plan(engine);
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
