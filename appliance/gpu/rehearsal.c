/* SPDX-License-Identifier: MIT */
/*
 * What: the steps of a rehearsal (rehearsal.h). Nothing that they leave is used: no call has KV
 * on either tier while the worker starts.
 *
 * The moves are a list of acts, one step each. Blocks of the device from 0 on are A, those of the
 * host from the first on are H, and those behind them J:
 *
 *   leave    A -> H in one run, a copy as large as there can be; the rows wait for it
 *   return   H -> A, which waits for a move within the device out of A's first block
 *   scatter  A -> H against each other's order, so in bulk by a kernel; and J -> A behind it
 *   one      a single block, there and back
 *
 * Bounds: RUN_BLOCKS blocks for one run.
 */
#include "appliance/gpu/rehearsal.h"

#include <stdio.h>
#include <sys/mman.h>

#include "config/base/assert.h"

#define RUN_BLOCKS 64u
#define TOKEN      0u                   /* that is fed: every vocabulary has it */

enum act { ACT_NONE, ACT_LEAVE, ACT_RETURN, ACT_SCATTER, ACT_ONE_LEAVES, ACT_ONE_RETURNS, ACTS };

/* ---- moves ----------------------------------------------------------------------------------- */

static void add_move(const struct step *step, uint32_t from, uint32_t to)
{
    struct step_header *header = step_header(step);
    ASSERT(header->moves_count < step->layout.moves_max);
    step_moves(step)[header->moves_count++] = (struct step_move){from, to};
}

/* Blocks of A, H and J each. */
static uint32_t run_blocks(const struct rehearsal *r)
{
    uint32_t most = gpu_smaller(r->settings->kv_host_blocks / 2, r->layout->moves_max / 3);
    return gpu_smaller(gpu_smaller(most, RUN_BLOCKS), r->settings->kv_blocks - 1);
}

static void add_act(const struct rehearsal *r, const struct step *step, enum act act)
{
    const uint32_t last = r->settings->kv_blocks - 1, host = last + 1, run = run_blocks(r);
    const bool is_one = act == ACT_ONE_LEAVES || act == ACT_ONE_RETURNS;
    const uint32_t count = is_one ? gpu_smaller(run, 1) : run;
    if (act == ACT_RETURN && run > 0) {
        add_move(step, 0, last);
    }
    for (uint32_t i = 0; i < count && act != ACT_NONE; i++) {
        uint32_t device = act == ACT_SCATTER ? count - 1 - i : i;
        bool leaves = act != ACT_RETURN && act != ACT_ONE_RETURNS;
        add_move(step, leaves ? device : host + i, leaves ? host + i : device);
    }
    for (uint32_t i = 0; i < count && act == ACT_SCATTER; i++) {
        add_move(step, host + count + i, count - 1 - i);
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* With all that a call can ask of sampling. */
static void fill_sampling(const struct rehearsal *r, struct step_row *row)
{
    row->sampling = (struct call_sampling){
        .temperature = 1, .top_p = 0.9f, .min_p = 0.01f, .top_k = 20, .repeat_penalty = 1.1f,
        .presence_penalty = 0.1f, .frequency_penalty = 0.1f, .biases_count = 1,
        .wants_logprobs = r->layout->logprobs_max > 0,
        .top_logprobs = r->layout->logprobs_max > 0 ? r->layout->logprobs_max - 1 : 0};
    row->biases[0] = (struct call_bias){.token = TOKEN, .bias = 1};
    row->history_count = 1;
    row->history[0] = TOKEN;
    row->wants_digest = true;
}

/* The step's one row: so many tokens, in the first blocks. */
static void add_row(const struct rehearsal *r, const struct step *step, uint32_t tokens)
{
    const uint32_t steps = gpu_smaller(r->layout->steps_max, 2);
    struct step_row *row = step_row(step, 0);
    *step_header(step) = (struct step_header){.rows_count = 1, .rows_active = 1,
                                              .tokens_count = tokens};
    *row = (struct step_row){
        .tokens_count = tokens, .decode_steps = steps,
        .blocks_count = gpu_ceil(tokens + steps - 1, r->settings->kv_block_tokens),
        .sampling = {.temperature = 1, .top_p = 1, .repeat_penalty = 1}};
    for (uint32_t i = 0; i < tokens; i++) {
        step_tokens(step)[i] = TOKEN;
    }
    for (uint32_t i = 0; i < row->blocks_count; i++) {
        step_blocks(step, 0)[i] = i;
    }
}

/* A penalty counts tokens; and where a step has room, there is a draft, for they are all equal. */
static void fill_past(const struct rehearsal *r, const struct step *step)
{
    struct step_row *row = step_row(step, 0);
    row->past_count = row->generated_count = gpu_smaller(r->layout->past_max, 3);
    row->drafts = row->decode_steps > 1 && r->settings->batch_calls > 1 ? 1 : 0;
    for (uint32_t i = 0; i < row->past_count; i++) {
        step_past(step, 0)[i] = TOKEN;
    }
}

/* Tokens of the prompt: as many as a step, a call and the blocks have room for. */
static uint32_t prompt_tokens(const struct rehearsal *r)
{
    uint32_t steps = gpu_smaller(r->layout->steps_max, 2);
    uint32_t blocks = gpu_smaller(r->settings->blocks_per_call, r->settings->kv_blocks);
    uint64_t room = (uint64_t)blocks * r->settings->kv_block_tokens;
    uint32_t most = gpu_smaller(r->settings->step_tokens, r->layout->tokens_max);
    most = gpu_smaller(most, r->settings->context_tokens);
    most = room < most ? (uint32_t)room : most;
    return most > steps ? most - steps : 1;
}

static enum status run(const struct rehearsal *r, const struct step *step, bool *is_finite)
{
    TRY(gpu_engine_run(r->engine, step));
    *is_finite = *is_finite && step_out(step, 0)->result == STEP_ROW_OK;
    return STATUS_OK;
}

/* One token, then a prompt and all options of sampling, then moves before a row of one token. */
static enum status run_all(const struct rehearsal *r, const struct step *step, bool *is_finite)
{
    add_row(r, step, 1);
    TRY(run(r, step, is_finite));
    add_row(r, step, prompt_tokens(r));
    fill_sampling(r, step_row(step, 0));
    fill_past(r, step);
    TRY(run(r, step, is_finite));
    for (enum act act = ACT_LEAVE; act < ACTS; act++) {
        add_row(r, step, 1);
        add_act(r, step, act);
        TRY(run(r, step, is_finite));
    }
    return STATUS_OK;
}

enum status rehearsal_run(const struct rehearsal *rehearsal, bool *is_finite,
                          struct config_error *error)
{
    struct arena arena;
    struct step step = {.layout = *rehearsal->layout};
    *is_finite = true;
    if (arena_map(&arena, step.layout.total_bytes, false) != STATUS_OK) {
        snprintf(error->text, sizeof error->text, "cannot reserve a step");
        return STATUS_CONFIG_MEMORY;
    }
    step.base = arena_take(&arena, 1, step.layout.total_bytes);
    enum status status = run_all(rehearsal, &step, is_finite);
    munmap(arena.base, arena.size_bytes);
    return status;
}
