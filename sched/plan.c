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
 *            run.
 *   blocks   for every position that the row will write. When they are short, resident calls that
 *            come later in the order give theirs up, the last one first; paused and cancelled
 *            ones do so wherever they stand. Never a call that this walk has already chosen or
 *            passed over.
 *
 * Invariants: whether the victims' blocks will do is known before the first one loses them; the
 * first call that can run always fits (intake.c), so there is progress in each plan.
 * Bounds: O(rows + calls passed over), at most all open calls; and O(all calls) once per plan when
 * blocks are short: the search for victims goes from the tail of the last queue, and never twice
 * past the same call.
 */
#include "sched/sched.h"

#include <string.h>

#include "sched/ending.h"
#include "sched/queue.h"
#include "sched/starvation.h"

struct walk {
    struct sched *sched;
    uint64_t now_us;
    uint32_t tokens_count;          /* of all rows */
    uint32_t budget_tokens;         /* prefill tokens that are left */
    uint32_t kept_blocks;           /* of calls that the walk has passed and that keep them */
    uint32_t victim_queue;          /* where the search for victims goes on */
    uint32_t victim;
};

static bool cannot_run(const struct call *call)
{
    return call->paused || call->cancel;
}

static bool is_victim(const struct walk *walk, uint32_t call_index)
{
    const struct call *call = sched_call(walk->sched, call_index);
    bool is_behind = call->walk_sequence != walk->sched->sequence;
    return kvmem_call_blocks(walk->sched->kv, call_index) > 0 && (is_behind || cannot_run(call));
}

/* The next resident call that has to go, lowest priority first. There is one: see make_room(). */
static uint32_t next_victim(struct walk *walk)
{
    for (;;) {
        while (walk->victim == CALL_NONE) {
            ASSERT(walk->victim_queue > 0);
            walk->victim = walk->sched->queues[--walk->victim_queue].tail;
        }
        uint32_t call_index = walk->victim;
        walk->victim = sched_call(walk->sched, call_index)->queue_prev;
        if (is_victim(walk, call_index)) {
            return call_index;
        }
    }
}

static void preempt(struct sched *sched, uint32_t call_index)
{
    struct call *call = sched_call(sched, call_index);
    ASSERT(call->state == CALL_QUEUED);
    sched_call_drop_kv(sched, call_index);
    call->preemptions++;
    sched->stats->preemptions++;
}

/* True when the call's table can grow to hold `positions`; takes blocks from others if it must. */
static bool make_room(struct walk *walk, uint32_t call_index, uint32_t positions)
{
    const struct kvmem *kv = walk->sched->kv;
    uint32_t missing = kvmem_missing(kv, call_index, positions);
    uint32_t held = walk->kept_blocks + kvmem_call_blocks(kv, call_index);
    ASSERT(held <= kv->blocks_count);
    if (missing > kv->blocks_count - held) {
        return false;
    }
    while (missing > kvmem_free_blocks(kv)) {
        preempt(walk->sched, next_victim(walk));
    }
    return true;
}

/* The last tokens before the first one to be sampled, for the repetition penalty. */
static void fill_history(struct step_row *row, const struct call *call)
{
    uint32_t end = row->first_position + row->tokens_count;
    uint32_t count = end < CALL_REPEAT_TOKENS ? end : CALL_REPEAT_TOKENS;
    row->history_count = 0;
    if (row->decode_steps > 0 && call->sampling.repeat_penalty != 1.0f) {
        memcpy(row->history, call->tokens + end - count, count * sizeof(uint32_t));
        row->history_count = count;
    }
}

static void fill_row(struct walk *walk, uint32_t call_index, uint32_t chunk, uint32_t decode_steps)
{
    struct sched *sched = walk->sched;
    const struct call *call = sched_call(sched, call_index);
    uint32_t index = sched->planned_count++;
    struct step_row *row = step_row(&sched->step, index);
    ASSERT(index < sched->step.layout.rows_max);
    ASSERT(walk->tokens_count + chunk <= sched->step.layout.tokens_max);
    row->call = call_index;
    row->call_generation = call->generation;
    row->first_position = call->kv_tokens;
    row->tokens_count = chunk;
    row->tokens_first = walk->tokens_count;
    row->decode_steps = decode_steps;
    row->blocks_count = 0;
    row->sampling = call->sampling;
    fill_history(row, call);
    memcpy(step_tokens(&sched->step) + walk->tokens_count, call->tokens + call->kv_tokens,
           chunk * sizeof(uint32_t));
    /* A worker that says "done" without writing its outs must not look like one that did. */
    *step_out(&sched->step, index) = (struct step_out){.result = UINT32_MAX};
    sched->planned[index] = (struct sched_planned){
        .call = call_index, .call_generation = call->generation,
        .first_position = call->kv_tokens, .tokens_count = chunk, .decode_steps = decode_steps};
    walk->tokens_count += chunk;
}

static uint32_t min_tokens(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static void reserve(struct sched *sched, uint32_t call_index, uint32_t positions)
{
    if (kvmem_call_blocks(sched->kv, call_index) == 0) {
        sched->resident_calls++;
    }
    kvmem_reserve(sched->kv, call_index, positions);
}

/* Gives the call a row, or passes over it. False: it does not fit, and the walk ends (line 37). */
static bool visit(struct walk *walk, uint32_t call_index)
{
    struct sched *sched = walk->sched;
    struct call *call = sched_call(sched, call_index);
    uint32_t known = call->prompt_tokens + call->generated_tokens;
    ASSERT(call->state == CALL_QUEUED);
    ASSERT(call->kv_tokens < known && call->generated_tokens < call->max_tokens);
    call->walk_sequence = sched->sequence;
    if (cannot_run(call)) {
        call->waiting_since_us = walk->now_us;  /* not our delay: counts as no waiting */
        return true;
    }
    uint32_t remaining = known - call->kv_tokens;
    uint32_t chunk = remaining == 1 ? 1 : min_tokens(remaining, walk->budget_tokens);
    if (chunk == 0) {
        walk->kept_blocks += kvmem_call_blocks(sched->kv, call_index);
        return true;
    }
    uint32_t decode_steps = chunk < remaining ? 0 : min_tokens(
        sched->settings.steps_per_plan, call->max_tokens - call->generated_tokens);
    uint32_t positions = call->kv_tokens + chunk + (decode_steps > 0 ? decode_steps - 1 : 0);
    if (!make_room(walk, call_index, positions)) {
        return false;
    }
    reserve(sched, call_index, positions);
    walk->kept_blocks += kvmem_call_blocks(sched->kv, call_index);
    walk->budget_tokens -= remaining == 1 ? 0 : chunk;
    fill_row(walk, call_index, chunk, decode_steps);
    return true;
}

static void walk_queues(struct walk *walk)
{
    struct sched *sched = walk->sched;
    for (uint32_t i = 0; i < sched->settings.queues; i++) {
        uint32_t call_index = sched->queues[i].head;
        while (call_index != CALL_NONE) {
            if (sched->planned_count == sched->settings.batch_calls ||
                !visit(walk, call_index)) {
                return;
            }
            call_index = sched_call(sched, call_index)->queue_next;
        }
    }
}

bool sched_plan(struct sched *sched, uint64_t now_us)
{
    ASSERT(!sched->step_in_flight);
    sched_starvation_pass(sched, now_us);
    sched->sequence++;
    sched->planned_count = 0;
    struct walk walk = {
        .sched = sched,
        .now_us = now_us,
        .budget_tokens = sched->settings.prefill_tokens,
        .victim_queue = sched->settings.queues,
        .victim = CALL_NONE,
    };
    walk_queues(&walk);
    *step_header(&sched->step) = (struct step_header){
        .rows_count = sched->planned_count,
        .tokens_count = walk.tokens_count,
        .sequence = sched->sequence,
    };
    return sched->planned_count > 0;
}

void sched_launched(struct sched *sched, uint64_t now_us)
{
    ASSERT(!sched->step_in_flight);
    ASSERT(sched->planned_count > 0);
    for (uint32_t i = 0; i < sched->planned_count; i++) {
        struct call *call = sched_call(sched, sched->planned[i].call);
        ASSERT(call->generation == sched->planned[i].call_generation);
        sched_call_accrue_wait(call, now_us);
        call->state = CALL_RUNNING;
        call->first_run_us = call->first_run_us == 0 ? now_us : call->first_run_us;
    }
    sched->step_in_flight = true;
    sched->step_submitted_us = now_us;
}
