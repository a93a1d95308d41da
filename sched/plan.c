/* SPDX-License-Identifier: MIT */
/*
 * What: Algorithm 1, lines 32 to 39: the next batch. The queues are walked from the top, first come
 * first served; each call gets a row, until the batch is full or a call does not fit.
 *
 *   row      feeds the call's known tokens from kv_tokens on: a chunk of them, or all, and then
 *            samples up to N tokens. "Known" is the prompt and what was generated, so a call that
 *            lost its blocks is recomputed by the same rule that reads a prompt for the first time.
 *   budget   prefill_tokens over all rows, in order. A row with one token to feed needs none; a
 *            call that finds the budget spent is passed over, and decoding calls behind it still
 *            run. From then on the walk comes past such calls only as may need no budget: those
 *            that have had blocks once, until batch_calls of them were looked at in vain, and then
 *            those that have blocks.
 *   blocks   first what is cached of the call's tokens, on the device or on the host; then room
 *            for every position that the row will write. Cached contents make room for it, and when
 *            they do not suffice, resident calls that come later in the order, the last one first;
 *            paused and cancelled ones do so wherever they stand. Never a call that this walk has
 *            already chosen or passed over.
 *   early stop    with cut_steps the step need not last N rounds: it lasts one when a prompt waits
 *   for
 *            nothing but budget, for the next step brings that; else until a row has ended and no
 *            standby takes its place, or until a call arrives for which there is a row.
 *
 * Invariants: the first call that can run always fits (intake.c): everything else is cached or a
 * victim, so there is progress in each plan. What a call has claimed and cannot use goes back.
 * Bounds: O(rows + resident calls + paused calls that have run before), however many calls wait:
 * nobody looks at a call that only waits, but for those that get a row. The search for victims goes
 * from the tail of the last queue, and never twice past the same call. A claim costs O(its blocks);
 * once the budget is spent, as many calls as a batch has rows are looked at, which is O(1), and
 * claim when they find something. A paused call that the walk does not come past goes on waiting in
 * its account until one does.
 */
#include "sched/plan.h"

#include "sched/ending.h"
#include "sched/residency.h"
#include "sched/starvation.h"

static uint32_t min_tokens(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static bool is_behind(const struct sched *sched, const struct call *call)
{
    return call->walk_sequence != sched->sequence;
}

/* The next resident call that has to go, lowest priority first; or CALL_NONE. */
static uint32_t next_victim(struct sched_walk *walk)
{
    const struct sched *sched = walk->sched;
    for (;;) {
        while (walk->victim == CALL_NONE) {
            if (walk->victim_queue == 0) {
                return CALL_NONE;
            }
            walk->victim = sched->queues[--walk->victim_queue].lists[CALL_LIST_RESIDENT].tail;
        }
        uint32_t call_index = walk->victim;
        const struct call *call = sched_call(sched, call_index);
        walk->victim = call->links[CALL_LIST_RESIDENT].prev;
        if (is_behind(sched, call) || sched_walk_skips(call)) {
            return call_index;
        }
    }
}

/* True when the call's table can grow to hold `positions`; takes blocks from others if it must. */
static bool make_room(struct sched_walk *walk, uint32_t call_index, uint32_t positions)
{
    struct sched *sched = walk->sched;
    while (kvmem_missing(sched->kv, call_index, positions) > kvmem_available(sched->kv)) {
        uint32_t victim = next_victim(walk);
        if (victim == CALL_NONE) {
            return false;
        }
        sched_cursor_forget(sched, &walk->cursor, victim);
        sched_residency_preempt(sched, victim, walk->now_us);
    }
    return true;
}

/* Claims what is cached. False when the call would find no budget anyway: one that has lost its
 * blocks needs none if they are still there to the last one, which is a look at that one. */
static bool find_blocks(struct sched_walk *walk, uint32_t call_index)
{
    const struct call *call = sched_call(walk->sched, call_index);
    uint32_t known = call->prompt_tokens + call->generated_tokens;
    if (walk->budget_tokens == 0 && known > 1) {
        if (call->computed_tokens == 0 || walk->vain_looks_left == 0) {
            return false;
        }
        walk->vain_looks_left--;
        if (!sched_residency_is_kept(walk->sched, call_index)) {
            return false;
        }
    }
    sched_residency_claim(walk->sched, call_index);
    return true;
}

/* Plans a row for a call whose blocks have been found. False: it does not fit. */
static bool plan_row(struct sched_walk *walk, uint32_t call_index, bool claimed)
{
    struct sched *sched = walk->sched;
    const struct call *call = sched_call(sched, call_index);
    uint32_t remaining = call->prompt_tokens + call->generated_tokens - call->kv_tokens;
    uint32_t chunk = remaining == 1 ? 1 : min_tokens(remaining, walk->budget_tokens);
    uint32_t decode_steps = chunk < remaining ? 0 : min_tokens(
        sched->settings.steps_per_plan, call->max_tokens - call->generated_tokens);
    uint32_t positions = call->kv_tokens + chunk + (decode_steps > 0 ? decode_steps - 1 : 0);
    bool fits = chunk == 0 || make_room(walk, call_index, positions);
    if (chunk == 0 || !fits) {
        if (claimed) {
            sched_residency_give_back(sched, call_index, walk->now_us);
        }
        return fits;
    }
    sched_residency_take(sched, call_index, positions, claimed, walk->now_us);
    walk->budget_tokens -= remaining == 1 ? 0 : chunk;
    sched_row_fill(walk, call_index, chunk, decode_steps);
    return true;
}

/* The walk comes to the call behind this one soon: its memory is asked for while this one's is
 * worked on. */
static void expect_next(const struct sched *sched, const struct call *call)
{
    uint32_t next = call->links[CALL_LIST_ALL].next;
    if (next != CALL_NONE) {
        const uint8_t *at = (const uint8_t *)sched_call(sched, next);
        for (uint32_t i = 0; i < CALL_HOT_BYTES; i += ARENA_ALIGN_BYTES) {
            __builtin_prefetch(at + i, 1);
        }
        kvmem_expect(sched->kv, next);
    }
}

/* Gives the call a row, or passes over it. False: it does not fit, and the walk ends (line 37). */
static bool visit(struct sched_walk *walk, uint32_t call_index)
{
    struct sched *sched = walk->sched;
    struct call *call = sched_call(sched, call_index);
    bool claimed = !sched_residency_has(sched, call_index);
    ASSERT(call->state == CALL_QUEUED);
    ASSERT(call->kv_tokens < call->prompt_tokens + call->generated_tokens);
    ASSERT(call->generated_tokens < call->max_tokens);
    expect_next(sched, call);
    call->walk_sequence = sched->sequence;
    bool fits = true;
    if (sched_walk_skips(call)) {
        call->waiting_since_us = walk->now_us;  /* not our delay: counts as no waiting */
    } else if (!claimed || find_blocks(walk, call_index)) {
        fits = plan_row(walk, call_index, claimed);
    }
    return fits;
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
    struct sched *sched = walk->sched;
    while (sched->planned_count < sched->settings.batch_calls) {
        uint32_t call_index = sched_cursor_next(sched, &walk->cursor, list_of(walk));
        if (call_index == CALL_NONE) {
            walk->at_end = true;
            return;
        }
        if (!visit(walk, call_index)) {
            sched_cursor_stop(sched, &walk->cursor, call_index);
            return;
        }
        sched_cursor_pass(sched, &walk->cursor, call_index);
    }
}

static enum step_stop stop_of(const struct sched_walk *walk)
{
    if (!walk->sched->settings.cut_steps) {
        return STEP_STOP_LAST;
    }
    return walk->at_end && walk->budget_tokens == 0 ? STEP_STOP_ROUND : STEP_STOP_ROW;
}

void sched_plan_arrival(struct sched *sched)
{
    if (sched->step_in_flight && sched->has_room && sched->settings.cut_steps) {
        step_stop_early(&sched->step, STEP_STOP_ROUND);
    }
}

bool sched_plan(struct sched *sched, uint64_t now_us)
{
    ASSERT(!sched->step_in_flight);
    sched_starvation_pass(sched, now_us);
    sched->sequence++;
    sched->planned_count = 0;
    struct sched_walk walk = {
        .sched = sched,
        .now_us = now_us,
        .budget_tokens = sched->settings.prefill_tokens,
        .vain_looks_left = sched->settings.batch_calls,
        .cursor = sched_cursor_start(),
        .victim_queue = sched->settings.queues,
        .victim = CALL_NONE,
    };
    walk_queues(&walk);
    sched->planned_active = sched->planned_count;
    sched->has_room = walk.at_end;
    if (sched->planned_count > 0) {
        sched_standby_rows(&walk);
        sched_standby_prefetch(&walk);
        kvmem_expire(sched->kv, now_us, true);
    }
    *step_header(&sched->step) = (struct step_header){
        .rows_count = sched->planned_count,
        .rows_active = sched->planned_active,
        .tokens_count = walk.tokens_count,
        .sequence = sched->sequence,
        .early_stop = stop_of(&walk),
    };
    return sched->planned_count > 0;
}

static void launch_row(struct sched *sched, uint32_t index, uint64_t now_us)
{
    const struct step_planned *planned = &sched->planned[index];
    struct call *call = sched_call(sched, planned->call);
    ASSERT(call->generation == planned->call_generation);
    call->standby = index >= sched->planned_active;
    if (!call->standby) {
        sched_call_enter(call, planned->first_position, now_us);
    }
    call->state = CALL_RUNNING;
}

void sched_launched(struct sched *sched, uint64_t now_us)
{
    ASSERT(!sched->step_in_flight);
    ASSERT(sched->planned_active > 0);
    for (uint32_t i = 0; i < sched->planned_count; i++) {
        launch_row(sched, i, now_us);
    }
    sched->step_in_flight = true;
    sched->step_submitted_us = now_us;
    event_log_note(sched->settings.event_log, now_us,
                 (struct event_what){EVENT_STEP_BEGUN,
                                     {sched->planned_active,
                                      sched->planned_count - sched->planned_active}});
}
