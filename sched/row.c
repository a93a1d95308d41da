/* SPDX-License-Identifier: MIT */
/*
 * What: one row of the step record, from a call. Everything that the engine needs of the call is
 * copied in; what the core must know when the row comes back is remembered apart.
 * Invariants: the record has room for the rows and tokens of every plan (sched_init asserts it).
 * Bounds: O(tokens fed + CALL_REPEAT_TOKENS).
 */
#include "sched/plan.h"

#include <string.h>

#include "sched/queue.h"

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

void sched_row_fill(struct sched_walk *walk, uint32_t call_index, uint32_t chunk,
                    uint32_t decode_steps)
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
