/* SPDX-License-Identifier: MIT */
/*
 * What: the engine of the lab: reads the step record as a worker would, and answers with tokens
 * that are a hash of (call, position). Every row decodes all its steps: a trace names lengths, and
 * no call has a stop token.
 * Invariants: the n-th token of a call is the same however its steps were cut, so recomputation
 * after a preemption is checked by nothing but is consistent, and later prompts contain it.
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

static void run_row(struct lab *lab, uint32_t index)
{
    const struct step_row *row = step_row(&lab->step, index);
    const struct lab_call *call = &lab->clients.calls[call_of(lab, row)];
    uint32_t *tokens = step_out_tokens(&lab->step, index);
    uint32_t key = prompts_output_key(&lab->prompts, call->run, call->number);
    uint32_t first = row->first_position + row->tokens_count;
    for (uint32_t i = 0; i < row->decode_steps; i++) {
        tokens[i] = prompts_output_token(
            &lab->prompts, key, first + i - lab->loop.calls.calls[row->call].prompt_tokens);
    }
    *step_out(&lab->step, index) = (struct step_out){.result = STEP_ROW_OK,
                                                     .produced = row->decode_steps};
}

uint64_t lab_engine_run(struct lab *lab)
{
    uint32_t rows_count = step_header(&lab->step)->rows_count;
    for (uint32_t i = 0; i < rows_count; i++) {
        run_row(lab, i);
    }
    return cost_step_us(lab->settings->cost, &lab->step);
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
