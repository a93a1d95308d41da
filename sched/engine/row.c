/* SPDX-License-Identifier: MIT */
/*
 * What: one row of the step record: how much of a call it feeds and samples, and its record.
 * Everything that the engine needs of the call is copied in. What the core must know when the row
 * comes back is remembered apart.
 * Invariants: nothing is read back from the record, which the worker can write at any time; it has
 * room for the rows and tokens of every plan (sched_init asserts it).
 * Bounds: O(tokens fed + CALL_REPEAT_TOKENS); with a penalty that counts tokens, O(generated) more.
 */
#include "sched/engine/plan.h"

#include <string.h>

#include "config/base/bounds.h"
#include "sched/policy.h"

/* The last tokens before the first one to be sampled, for the repetition penalty. */
static void fill_history(struct step_row *row, const struct call *call,
                         const struct step_planned *planned)
{
    bool is_wanted = planned->decode_steps > 0 && call->sampling.repeat_penalty != 1.0f;
    uint32_t end = planned->first_position + planned->tokens_count;
    uint32_t count = end < CALL_REPEAT_TOKENS ? end : CALL_REPEAT_TOKENS;
    count = is_wanted ? count : 0;
    memcpy(row->history, call->tokens + end - count, count * sizeof(uint32_t));
    row->history_count = count;
}

/* All that the call has generated, for penalties that count it: what a worker has counted would be
 * lost with it. */
static void fill_generated(const struct step *step, uint32_t index, const struct call *call,
                           const struct step_planned *planned)
{
    struct step_row *row = step_row(step, index);
    bool is_wanted = planned->decode_steps > 0 && call_counts_tokens(&call->sampling);
    row->generated_count = is_wanted ? call->generated_tokens : 0;
    sched_row_fill_past(step, index, call, row->generated_count);
}

void sched_row_fill_past(const struct step *step, uint32_t index, const struct call *call,
                         uint32_t count)
{
    ASSERT(count <= step->layout.past_max && count <= sched_call_known(call));
    step_row(step, index)->past_count = count;
    memcpy(step_past(step, index), call->tokens + sched_call_known(call) - count,
           count * sizeof(uint32_t));
}

struct sched_row sched_row_after(const struct sched_walk *walk, const struct call *call,
                                 uint32_t held)
{
    uint32_t steps = walk->engine->sched->settings.steps_per_plan;
    uint32_t remaining = sched_call_known(call) - held;
    struct sched_row row = {.chunk = remaining == 1 ? 1 : lesser(remaining, walk->budget_tokens)};
    if (row.chunk == remaining) {
        row.decode_steps = lesser(steps, call->max_tokens - call->generated_tokens);
    }
    row.positions = held + row.chunk + (row.decode_steps > 0 ? row.decode_steps - 1 : 0);
    if (sched_policy_has_stages(walk->engine->sched->settings.policy)) {
        uint32_t known = sched_call_known(call);        /* what is admitted has room for that */
        row.positions = row.positions > known ? row.positions : known;
    }
    return row;
}

void sched_row_fill(struct sched_walk *walk, const struct call *call, const struct sched_row *size)
{
    struct sched_engine *engine = walk->engine;
    uint32_t index = engine->planned_count++;
    struct step_row *row = step_row(&engine->step, index);
    ASSERT(index < engine->step.layout.rows_max);
    ASSERT(walk->tokens_count + size->chunk <= engine->step.layout.tokens_max);
    const struct step_planned planned = {
        .call = call->slot, .call_generation = call->generation,
        .first_position = call->kv_tokens, .tokens_count = size->chunk,
        .decode_steps = size->decode_steps};
    engine->planned[index] = planned;
    row->call = planned.call;
    row->call_generation = planned.call_generation;
    row->first_position = planned.first_position;
    row->tokens_count = planned.tokens_count;
    row->tokens_first = walk->tokens_count;
    row->decode_steps = planned.decode_steps;
    row->blocks_count = 0;
    row->wants_digest = false;
    row->drafts = 0;
    row->sampling = call->sampling;
    memcpy(row->biases, call->biases, call->sampling.biases_count * sizeof *row->biases);
    fill_history(row, call, &planned);
    fill_generated(&engine->step, index, call, &planned);
    memcpy(step_tokens(&engine->step) + walk->tokens_count, call->tokens + call->kv_tokens,
           size->chunk * sizeof(uint32_t));
    /* A worker that says "done" without writing its outs must not look like one that did. */
    *step_out(&engine->step, index) = (struct step_out){.result = UINT32_MAX};
    walk->tokens_count += size->chunk;
}
