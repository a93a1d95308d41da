/* SPDX-License-Identifier: MIT */
/*
 * What: the engine of the lab: reads the step record as a worker would, and answers with tokens
 * that are a hash of (call, position). Every row decodes all its steps, unless the step ends early:
 * a trace names lengths, and no call has a stop token. Calls of workflows end with one
 * (flow/tokens.c). The tokens do not repeat themselves; --speculate says where they count as a text
 * that does, so that a row's draft is found, and how far it agrees (device/drafts.h).
 * Invariants: the n-th token of a call is the same however its steps were cut, and later prompts
 * contain it. Blocks are only counted: whether KV is right is for selftest/fake to say.
 */
#include "config/base/assert.h"
#include "config/base/hash.h"
#include "tools/lab/lab.h"

bool lab_engine_is_flow(const struct lab *lab, const struct step_row *row)
{
    return lab->loop.calls.calls[row->call].workflow != CALL_NONE;
}

uint32_t lab_engine_call(const struct lab *lab, const struct step_row *row)
{
    const struct call *call = &lab->loop.calls.calls[row->call];
    ASSERT(call->generation == row->call_generation);
    ASSERT(call->client_call_id < lab->clients.player.calls_count);
    return (uint32_t)call->client_call_id;
}

/* The place of the row's next token in what its call answers. */
static uint32_t answered(const struct lab *lab, const struct step_row *row)
{
    return row->first_position + row->tokens_count -
           lab->loop.calls.calls[row->call].prompt_tokens;
}

/* How many tokens it samples at most: after a stop token, none. */
static uint32_t decodes(struct lab *lab, const struct step_row *row)
{
    if (row->decode_steps == 0 || !lab_engine_is_flow(lab, row)) {
        return row->decode_steps;
    }
    uint32_t left = lab_flow_left(lab, row->call, answered(lab, row));
    return row->decode_steps < left ? row->decode_steps : left;
}

static struct lab_call *call_with_drafts(struct lab *lab, uint32_t index)
{
    struct lab_call *call = &lab->clients.calls[index];
    if (call->drafts == NULL) {
        const struct player *player = &lab->clients.player;
        const struct trace_program *program = player->runs[player->calls[index].run].program;
        call->drafts = drafts_class_of(lab->settings->drafts,
                                       lab->trace->classes[program->class].name);
    }
    return call;
}

/* The row's draft in each round, until it has `most` tokens. Returns how many rounds that takes, of
 * those that are left. */
static uint32_t place_drafts(struct lab *lab, const struct step_row *row, uint32_t most,
                             uint32_t left, struct cost_draft *drafts)
{
    uint32_t index = lab_engine_call(lab, row), place = answered(lab, row);
    uint32_t produced = 0, rounds = 0;
    struct lab_call *call = call_with_drafts(lab, index);
    uint64_t key = hash_fold(lab->settings->seed ^ HASH_START_B, index ^ HASH_START_A);
    drafts_seek(&call->stretch, call->drafts, key, place);
    for (struct drafts_stretch at = call->stretch; rounds < left && produced < most; rounds++) {
        uint32_t room = most - produced - 1;
        drafts_seek(&at, call->drafts, key, place + produced);
        uint32_t fed = !at.has_draft ? 0 : row->drafts < room ? row->drafts : room;
        uint32_t agree = drafts_agree(&at, place + produced);
        drafts[rounds] = (struct cost_draft){(uint8_t)fed, (uint8_t)(agree < fed ? agree : fed)};
        produced += 1 + drafts[rounds].agreed;
    }
    return rounds;
}

static void place_row(struct lab *lab, struct lab_engine *engine, uint32_t index, uint32_t round)
{
    const struct step_row *row = step_row(&engine->step, index);
    uint32_t left = engine->step.layout.steps_max - round, most = decodes(lab, row);
    struct cost_draft *drafts = NULL;
    uint32_t rounds = most < left ? most : left;
    if (row->drafts > 0 && lab->settings->drafts != NULL && rounds > 0) {
        drafts = &engine->drafts[index * engine->step.layout.steps_max];
        rounds = place_drafts(lab, row, most, left, drafts);
    }
    engine->rows[index] = (struct cost_row){
        .first_position = row->first_position, .tokens_count = row->tokens_count,
        .start_round = round, .rounds = rounds > 0 ? rounds : 1, .decodes = rounds > 0,
        .drafts = drafts, .blocks = step_blocks(&engine->step, index)};
}

/* Which rounds each row is in, as step.h says: places that no decoding row has go to the next
 * standbys, or the step ends with them. Rows [0, rows_ran) ran. Returns how many rounds at most. */
static uint32_t schedule_rows(struct lab *lab, struct lab_engine *engine)
{
    const struct step_header *header = step_header(&engine->step);
    enum step_stop early_stop = step_early_stop(&engine->step);
    uint32_t rounds = early_stop == STEP_STOP_ROUND ? 1 : engine->step.layout.steps_max;
    uint32_t ends[2 * COST_ROUNDS_MAX] = {0}, decoding = 0, next = 0;
    ASSERT(engine->step.layout.steps_max <= COST_ROUNDS_MAX);
    ASSERT(header->rows_count <= engine->step.layout.rows_max);
    for (uint32_t round = 0; round < rounds; round++) {
        uint32_t before = decoding;
        decoding -= ends[round];
        while (next < header->rows_count &&
               (round == 0 ? next < header->rows_active : decoding < header->rows_active)) {
            place_row(lab, engine, next, round);
            decoding += engine->rows[next].decodes;
            ends[round + engine->rows[next].rounds] += engine->rows[next].decodes;
            next++;
        }
        if (early_stop == STEP_STOP_ROW && decoding < before) {
            rounds = round;
        }
    }
    engine->rows_ran = next;
    return rounds;
}

/* No row is in a later round than these. */
static void cut_rows(struct lab_engine *engine, uint32_t rounds)
{
    uint32_t ran = 0;
    while (ran < engine->rows_ran && engine->rows[ran].start_round < rounds) {
        struct cost_row *row = &engine->rows[ran++];
        uint32_t left = rounds - row->start_round;
        row->rounds = row->rounds < left ? row->rounds : left;
    }
    engine->rows_ran = ran;
}

/* What a row has brought that ran. */
static struct step_out out_of(const struct cost_row *row)
{
    struct step_out out = {.result = STEP_ROW_OK, .produced = row->decodes ? row->rounds : 0};
    for (uint32_t i = 0; row->drafts != NULL && i < row->rounds; i++) {
        out.produced += row->drafts[i].agreed;
        out.drafted += row->drafts[i].fed;
        out.agreed += row->drafts[i].agreed;
        out.refused += row->drafts[i].agreed < row->drafts[i].fed;
    }
    return out;
}

static void answer_row(struct lab *lab, struct lab_engine *engine, uint32_t index,
                       struct step_out out)
{
    const struct step_row *row = step_row(&engine->step, index);
    uint32_t *tokens = step_out_tokens(&engine->step, index), first = answered(lab, row), key = 0;
    bool is_flow = lab_engine_is_flow(lab, row);
    ASSERT(out.produced <= row->decode_steps);
    if (!is_flow) {
        const struct player_call *call =
            &lab->clients.player.calls[lab_engine_call(lab, row)];
        key = prompts_output_key(&lab->prompts, call->run, call->number);
    }
    for (uint32_t i = 0; i < out.produced; i++) {
        tokens[i] = is_flow ? lab_flow_token(lab, row->call, first + i)
                            : prompts_output_token(&lab->prompts, key, first + i);
    }
    *step_out(&engine->step, index) = out;
}

/* The step in flight ends after so many rounds, and not before its copies are done. */
static void set_rounds(struct lab_engine *engine, uint32_t rounds)
{
    uint64_t end_us = engine->rounds_begin_us + engine->costs[rounds - 1].end_us;
    engine->rounds = rounds;
    engine->due_us = end_us > engine->copies_done_us ? end_us : engine->copies_done_us;
}

/* When rounds may begin and copies are done, if copying begins at `begin_us`. */
static void copy_blocks(struct lab *lab, struct lab_engine *engine, uint64_t begin_us)
{
    struct copies copies = {0};
    if (step_header(&engine->step)->moves_count > 0) {
        copies = lab_memory_copies(lab, engine);
    }
    struct copies_times times = copies_times(&copies, lab->settings->cost->copies);
    engine->rounds_begin_us = begin_us + (uint64_t)(times.rounds_s * 1e6 + 0.5);
    engine->copies_done_us = begin_us + (uint64_t)(times.done_s * 1e6 + 0.5);
    lab->result.copy_out_s += copies.out_s;
    lab->result.copy_within_s += copies.within_s;
    lab->result.copy_in_s += copies.in_s;
}

void lab_engine_run(struct lab *lab, struct lab_engine *engine)
{
    cut_rows(engine, schedule_rows(lab, engine));
    const struct cost_batch batch = {.rows = engine->rows, .rows_count = engine->rows_ran,
        .block_tokens = engine->kv->settings.block_tokens, .seen = lab->seen};
    uint32_t rounds = cost_rounds(lab->settings->cost, &batch, engine->costs);
    engine->step_began_us = lab->now_us;
    copy_blocks(lab, engine, lab->now_us + lab->host_us);
    set_rounds(engine, rounds);
    engine->in_flight = true;
    lab_memory_swap_ins(lab, engine);
}

void lab_engine_hear(struct lab *lab, struct lab_engine *engine)
{
    uint32_t round = 0;
    if (!engine->in_flight || step_early_stop(&engine->step) != STEP_STOP_ROUND) {
        return;
    }
    while (round + 1 < engine->rounds &&
           engine->rounds_begin_us + engine->costs[round].end_us <= lab->now_us) {
        round++;
    }
    cut_rows(engine, round + 1);
    set_rounds(engine, round + 1);
}

/* Reading a prompt takes the step as long as the row decodes nothing in it, then its first round.
 * A standby is charged for its rounds alone, and they come behind all that. */
static void split_time(const struct lab_engine *engine, struct lab_call *call,
                       const struct cost_row *row, uint64_t copy_us)
{
    if (row->start_round > 0) {
        return;
    }
    call->copy_us += copy_us;
    if (!row->decodes) {
        call->prefill_us += engine->costs[engine->rounds - 1].end_us;
    } else if (row->tokens_count > 1) {
        call->prefill_us += engine->costs[0].end_us;
    }
}

/* What the step took beside the host and its rounds: it waited for copies. */
static uint64_t copy_us(const struct lab *lab, const struct lab_engine *engine)
{
    return engine->due_us - engine->step_began_us - lab->host_us -
           engine->costs[engine->rounds - 1].end_us;
}

static void add_up(struct lab *lab, struct lab_engine *engine)
{
    struct lab_result *result = &lab->result;
    result->engines[engine->index].busy_us += engine->due_us - engine->step_began_us;
    result->rounds += engine->rounds;
    result->copy_s += (double)copy_us(lab, engine) / 1e6;
    uint64_t row_rounds = 0;
    double positions = 0;
    for (uint32_t i = 0; i < engine->rows_ran; i++) {
        row_rounds += engine->rows[i].rounds;
    }
    for (uint32_t i = 0; i < engine->rounds; i++) {
        positions += engine->costs[i].positions;
        result->read_s += engine->costs[i].read_s;
        result->compute_s += engine->costs[i].compute_s;
    }
    result->kv_positions_read += positions;
    lab_flow_add(lab, engine->rounds, row_rounds, positions);
}

static void answer_rows(struct lab *lab, struct lab_engine *engine)
{
    *step_rounds(&engine->step) = engine->rounds;
    for (uint32_t i = 0; i < step_header(&engine->step)->rows_count; i++) {
        const struct step_row *row = step_row(&engine->step, i);
        bool ran = i < engine->rows_ran;
        answer_row(lab, engine, i, ran ? out_of(&engine->rows[i]) : (struct step_out){0});
        if (ran && !lab_engine_is_flow(lab, row)) {
            split_time(engine, &lab->clients.calls[lab_engine_call(lab, row)], &engine->rows[i],
                       copy_us(lab, engine));
        }
    }
}

/* The call's first token came at the end of its round. */
static void note_first(struct lab *lab, const struct lab_engine *engine, uint32_t row)
{
    struct lab_call *call = &lab->clients.calls[lab_engine_call(lab, step_row(&engine->step, row))];
    const struct cost_round *round = &engine->costs[engine->rows[row].start_round];
    if (call->first_us == 0) {
        call->first_us = engine->rounds_begin_us + round->end_us;
    }
}

static void draw(struct lab *lab, const struct lab_engine *engine)
{
    if (!lab->timeline.is_open) {
        return;
    }
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < engine->rows_ran; i++) {
            uint32_t index = lab_engine_call(lab, step_row(&engine->step, i));
            const struct player_call *call = &lab->clients.player.calls[index];
            const struct timeline_slot drawn = {
                .engine = engine->index, .run = call->run, .call = index, .number = call->number,
                .since_us = engine->step_began_us, .until_us = lab->now_us};
            if (pass == 0) {
                timeline_step(&lab->timeline, &drawn);
            } else {
                timeline_slot(&lab->timeline, &drawn);
            }
        }
    }
}

void lab_engine_tell(struct lab *lab, struct lab_engine *engine)
{
    add_up(lab, engine);
    answer_rows(lab, engine);
    draw(lab, engine);
    uint32_t rows_count = step_header(&engine->step)->rows_count;
    for (uint32_t i = 0; i < rows_count; i++) {
        const struct step_row *row = step_row(&engine->step, i);
        const struct call *call = &lab->loop.calls.calls[row->call];
        uint32_t produced = step_out(&engine->step, i)->produced;
        if (lab_engine_is_flow(lab, row)) {
            lab_flow_answered(lab, row->call, produced);
            continue;
        }
        lab_foretold_note(lab, call);
        if (produced > 0) {
            note_first(lab, engine, i);
        }
        if (produced > 0 && call->generated_tokens + produced == call->max_tokens) {
            lab->clients.calls[lab_engine_call(lab, row)].engine = engine->index;
            lab_clients_generated(lab, lab_engine_call(lab, row));
        }
    }
    lab_clients_submit_due(lab);
}
