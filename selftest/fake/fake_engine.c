/* SPDX-License-Identifier: MIT */
#include "selftest/fake/fake_engine.h"

#include <string.h>

#include "appliance/base/assert.h"

static uint64_t mix(uint64_t before, uint64_t value)
{
    uint64_t mixed = (before ^ value) * UINT64_C(0x9e3779b97f4a7c15) + 0x7f4a7c15;
    return mixed ^ (mixed >> 29);
}

static uint32_t sample(const struct fake_engine *engine, uint64_t hash)
{
    return (uint32_t)(mix(hash, 99) >> 20) % engine->vocab_tokens;
}

bool fake_engine_is_stop(const struct call_sampling *sampling, uint32_t token)
{
    for (uint32_t i = 0; i < sampling->stop_ids_count; i++) {
        if (sampling->stop_ids[i] == token) {
            return true;
        }
    }
    return false;
}

static uint64_t *place(const struct fake_engine *engine, uint32_t row, uint32_t position)
{
    uint32_t index = position / engine->block_tokens;
    ASSERT(index < step_row(&engine->step, row)->blocks_count);
    uint32_t block = step_blocks(&engine->step, row)[index];
    ASSERT(block < engine->blocks);
    return &engine->kv[(uint64_t)block * engine->block_tokens + position % engine->block_tokens];
}

static uint64_t feed(const struct fake_engine *engine, uint32_t row, uint32_t position,
                     uint32_t token)
{
    uint64_t before = position == 0 ? 1 : *place(engine, row, position - 1);
    uint64_t hash = mix(before, token);
    *place(engine, row, position) = hash;
    return hash;
}

/* Feeds what the row has to feed next, and samples if it decodes. */
static void run_round(const struct fake_engine *engine, uint32_t index)
{
    const struct step_row *row = step_row(&engine->step, index);
    struct step_out *out = step_out(&engine->step, index);
    uint32_t *sampled = step_out_tokens(&engine->step, index);
    uint32_t position = row->first_position + row->tokens_count;
    uint64_t hash = 0;
    ASSERT(row->tokens_count >= 1);
    if (out->produced > 0) {
        hash = feed(engine, index, position + out->produced - 1, sampled[out->produced - 1]);
    }
    for (uint32_t i = 0; i < row->tokens_count && out->produced == 0; i++) {
        hash = feed(engine, index, row->first_position + i,
                    step_tokens(&engine->step)[row->tokens_first + i]);
    }
    if (row->decode_steps > 0) {
        sampled[out->produced++] = sample(engine, hash);
    }
}

/* Does the row want another token? */
static bool goes_on(const struct fake_engine *engine, uint32_t index)
{
    const struct step_row *row = step_row(&engine->step, index);
    uint32_t produced = step_out(&engine->step, index)->produced;
    return produced < row->decode_steps &&
           !fake_engine_is_stop(&row->sampling,
                                step_out_tokens(&engine->step, index)[produced - 1]);
}

/* Between the tiers from the last one to the first, since nobody may rely on an order there. */
static void run_moves(const struct fake_engine *engine)
{
    const struct step_move *moves = step_moves(&engine->step);
    uint32_t count = step_header(&engine->step)->moves_count;
    ASSERT(count <= engine->step.layout.moves_max);
    for (uint32_t pass = 0; pass < STEP_PASSES; pass++) {
        for (uint32_t i = 0; i < count; i++) {
            const struct step_move *move =
                &moves[pass == STEP_PASS_WITHIN ? i : count - 1 - i];
            ASSERT(move->from < engine->blocks && move->to < engine->blocks);
            if (step_move_pass(move, engine->device_blocks) == pass) {
                memcpy(engine->kv + (uint64_t)move->to * engine->block_tokens,
                       engine->kv + (uint64_t)move->from * engine->block_tokens,
                       engine->block_tokens * sizeof *engine->kv);
            }
        }
    }
}

/* The rows of the next round, from those of the last one. 0: there is none. */
static uint32_t next_rows(const struct fake_engine *engine, uint32_t *rows, uint32_t count,
                          uint32_t *standby)
{
    const struct step_header *header = step_header(&engine->step);
    uint32_t decoding = 0, kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        decoding += step_row(&engine->step, rows[i])->decode_steps > 0;
        if (goes_on(engine, rows[i])) {
            rows[kept++] = rows[i];
        }
    }
    while (kept < header->rows_active && *standby < header->rows_count) {
        ASSERT(step_row(&engine->step, *standby)->tokens_count == 1);
        ASSERT(step_row(&engine->step, *standby)->decode_steps > 0);
        rows[kept++] = (*standby)++;
    }
    return step_haste(&engine->step) == STEP_ROW_ENDS && kept < decoding ? 0 : kept;
}

void fake_engine_run(void *context)
{
    const struct fake_engine *engine = context;
    const struct step_header *header = step_header(&engine->step);
    uint32_t rows[FAKE_ENGINE_ROWS_MAX];
    uint32_t count = header->rows_active, standby = header->rows_active;
    uint32_t rounds =
        engine->steps_per_plan > 0 ? engine->steps_per_plan : engine->step.layout.steps_max;
    ASSERT(header->rows_active <= header->rows_count);
    ASSERT(header->rows_active <= FAKE_ENGINE_ROWS_MAX);
    run_moves(engine);
    for (uint32_t i = 0; i < header->rows_count; i++) {
        *step_out(&engine->step, i) = (struct step_out){.result = STEP_ROW_OK};
    }
    for (uint32_t i = 0; i < count; i++) {
        rows[i] = i;
    }
    rounds = step_haste(&engine->step) == STEP_ROUND_ENDS ? 1 : rounds;
    for (uint32_t round = 0; round < rounds && count > 0; round++) {
        for (uint32_t i = 0; i < count; i++) {
            run_round(engine, rows[i]);
        }
        step_header(&engine->step)->rounds = round + 1;
        count = round + 1 < rounds ? next_rows(engine, rows, count, &standby) : 0;
    }
}

void fake_engine_forget(struct fake_engine *engine)
{
    memset(engine->kv, 0xee, (uint64_t)engine->blocks * engine->block_tokens * sizeof *engine->kv);
}

uint32_t fake_engine_oracle(const struct fake_engine *engine, uint32_t *tokens, uint32_t prompt,
                            uint32_t max, const struct call_sampling *sampling)
{
    uint64_t hash = 1;
    for (uint32_t i = 0; i < prompt; i++) {
        hash = mix(hash, tokens[i]);
    }
    for (uint32_t produced = 0; produced < max; produced++) {
        uint32_t token = sample(engine, hash);
        tokens[prompt + produced] = token;
        if (fake_engine_is_stop(sampling, token)) {
            return produced + 1;
        }
        hash = mix(hash, token);
    }
    return max;
}
