/* SPDX-License-Identifier: MIT */
/*
 * What: the engine of the lab: reads the step record as a worker would, and answers with tokens
 * that are a hash of (call, position). Every row decodes all its steps: a trace names lengths, and
 * no call has a stop token.
 * Invariants: the n-th token of a call is the same however its steps were cut, and later prompts
 * contain it. Nothing here looks at blocks: whether KV is right is for selftest/fake to say.
 */
#include "appliance/base/assert.h"
#include "tools/lab/lab.h"

static uint32_t call_of(const struct lab *lab, const struct step_row *row)
{
    const struct call *call = &lab->loop.calls.calls[row->call];
    ASSERT(call->generation == row->call_generation);
    ASSERT(call->client_call_id < lab->clients.calls_count);
    return (uint32_t)call->client_call_id;
}

/* How long each row is in the step. */
static uint32_t schedule_rows(struct lab *lab)
{
    uint32_t count = step_header(&lab->step)->rows_count;
    ASSERT(count <= lab->step.layout.rows_max);
    for (uint32_t i = 0; i < count; i++) {
        const struct step_row *row = step_row(&lab->step, i);
        lab->rows[i] = (struct cost_row){
            .first_position = row->first_position, .tokens_count = row->tokens_count,
            .rounds = row->decode_steps > 0 ? row->decode_steps : 1,
            .decodes = row->decode_steps > 0};
    }
    return count;
}

static void answer_row(struct lab *lab, uint32_t index, const struct lab_call *call)
{
    const struct step_row *row = step_row(&lab->step, index);
    const struct cost_row *run = &lab->rows[index];
    uint32_t *tokens = step_out_tokens(&lab->step, index);
    uint32_t key = prompts_output_key(&lab->prompts, call->run, call->number);
    uint32_t first = row->first_position + row->tokens_count -
                     lab->loop.calls.calls[row->call].prompt_tokens;
    uint32_t produced = run->decodes ? run->rounds : 0;
    ASSERT(produced <= row->decode_steps);
    for (uint32_t i = 0; i < produced; i++) {
        tokens[i] = prompts_output_token(&lab->prompts, key, first + i);
    }
    *step_out(&lab->step, index) = (struct step_out){.result = STEP_ROW_OK, .produced = produced};
}

uint64_t lab_engine_run(struct lab *lab)
{
    uint32_t count = schedule_rows(lab);
    uint64_t duration_us = cost_rounds_us(lab->settings->cost, lab->rows, count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t call = call_of(lab, step_row(&lab->step, i));
        answer_row(lab, i, &lab->clients.calls[call]);
        timeline_step(&lab->timeline, lab->clients.calls[call].run, call, lab->now_us,
                      lab->now_us + duration_us);
    }
    return duration_us;
}

void lab_engine_tell(struct lab *lab)
{
    uint32_t rows_count = step_header(&lab->step)->rows_count;
    for (uint32_t i = 0; i < rows_count; i++) {
        const struct step_row *row = step_row(&lab->step, i);
        const struct call *call = &lab->loop.calls.calls[row->call];
        uint32_t produced = step_out(&lab->step, i)->produced;
        if (call->generated_tokens + produced == call->max_tokens) {
            lab_clients_generated(lab, call_of(lab, row));
        }
    }
    lab_clients_submit_due(lab);
}
