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

static void run_row(const struct fake_engine *engine, uint32_t index)
{
    const struct step_row *row = step_row(&engine->step, index);
    const uint32_t *tokens = step_tokens(&engine->step) + row->tokens_first;
    uint32_t *out = step_out_tokens(&engine->step, index);
    uint32_t position = row->first_position, produced = 0;
    uint64_t hash = 0;
    ASSERT(row->tokens_count >= 1);
    for (uint32_t i = 0; i < row->tokens_count; i++) {
        hash = feed(engine, index, position++, tokens[i]);
    }
    while (produced < row->decode_steps) {
        out[produced] = sample(engine, hash);
        if (fake_engine_is_stop(&row->sampling, out[produced++])) {
            break;
        }
        if (produced < row->decode_steps) {
            hash = feed(engine, index, position++, out[produced - 1]);
        }
    }
    *step_out(&engine->step, index) = (struct step_out){.produced = produced};
}

void fake_engine_run(void *context)
{
    const struct fake_engine *engine = context;
    for (uint32_t i = 0; i < step_header(&engine->step)->rows_count; i++) {
        run_row(engine, i);
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
