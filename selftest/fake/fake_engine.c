/* SPDX-License-Identifier: MIT */
#include "selftest/fake/fake_engine.h"

#include <string.h>

#include "config/base/assert.h"
#include "kernels/round/draft.h"

#define START 0                     /* the hash before the first position of a declared prefix */
#define PERIOD 3                    /* of a text that repeats itself, */
#define REPEATS 7                   /* in so many of eight tokens */

static uint64_t mix(uint64_t before, uint64_t value)
{
    uint64_t mixed = (before ^ value) * UINT64_C(0x9e3779b97f4a7c15) + 0x7f4a7c15;
    return mixed ^ (mixed >> 29);
}

void fake_engine_declare(struct fake_declared *declared, const struct config_prefixes *prefixes)
{
    declared->count = prefixes->count;
    for (uint32_t i = 0; i < prefixes->count; i++) {
        const struct config_prefix *prefix = &prefixes->each[i];
        uint64_t hash = START;
        ASSERT(prefix->tokens_count <= FAKE_ENGINE_CONTEXT_MAX);
        declared->tokens_count[i] = prefix->tokens_count;
        for (uint32_t at = 0; at < prefix->tokens_count; at++) {
            declared->hashes[i][at] = hash = mix(hash, prefix->tokens[at]);
        }
    }
}

static bool is_declared(const struct fake_engine *engine, uint32_t position, uint64_t hash)
{
    const struct fake_declared *declared = engine->declared;
    for (uint32_t i = 0; declared != NULL && i < declared->count; i++) {
        if (position < declared->tokens_count[i] && declared->hashes[i][position] == hash) {
            return true;
        }
    }
    return false;
}

bool fake_engine_parts(const struct fake_engine *engine, uint32_t position, uint64_t before,
                       uint32_t token)
{
    before = position == 0 ? START : before;
    return (position == 0 || is_declared(engine, position - 1, before)) &&
           !is_declared(engine, position, mix(before, token));
}

uint64_t fake_engine_next(const struct fake_engine *engine, uint64_t salt, uint32_t position,
                          uint64_t before, uint32_t token)
{
    bool parts = fake_engine_parts(engine, position, before, token);
    if (position == 0) {
        return mix(parts ? salt + 1 : START, token);
    }
    return mix(parts ? mix(before, salt + 1) : before, token);
}

/* Of the token that comes to lie at `position`. */
static uint32_t sample(const struct fake_engine *engine, uint64_t hash, uint32_t position,
                       const struct call_sampling *sampling)
{
    uint64_t mixed = mix(hash ^ sampling->seed, 99) >> 20;
    bool repeats = engine->repeats && mixed / engine->vocab_tokens % 8 < REPEATS;
    return (uint32_t)(repeats ? sampling->seed + position % PERIOD : mixed) % engine->vocab_tokens;
}

struct call_logprob fake_engine_logprob(const struct fake_engine *engine, uint64_t seed,
                                        uint32_t position, struct fake_entry entry)
{
    uint64_t hash = mix(mix(seed, position), entry.token);
    bool is_own = entry.index == 0;
    uint32_t token = is_own ? entry.token : (uint32_t)((hash + entry.index) % engine->vocab_tokens);
    return (struct call_logprob){token, is_own ? -(float)(hash % 1000) / 64
                                               : -(float)(hash % 100 + entry.index) / 8};
}

void fake_engine_append(const struct fake_engine *engine, uint32_t index, uint32_t token)
{
    const struct step_row *row = step_row(&engine->step, index);
    struct step_out *out = step_out(&engine->step, index);
    uint32_t count = call_logprob_entries(&row->sampling);
    struct call_logprob *entries = step_logprobs(&engine->step, index, out->produced * count);
    uint32_t position = row->first_position + row->tokens_count + out->produced;
    for (uint32_t i = 0; i < count; i++) {
        entries[i] = fake_engine_logprob(engine, row->sampling.seed, position,
                                         (struct fake_entry){token, i});
    }
    step_out_tokens(&engine->step, index)[out->produced++] = token;
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
    uint64_t before = position == 0 ? 0 : *place(engine, row, position - 1);
    uint64_t hash = fake_engine_next(engine, engine->salts[row], position, before, token);
    *place(engine, row, position) = hash;
    return hash;
}

/* True when the row needs another token. */
static bool goes_on(const struct fake_engine *engine, uint32_t index)
{
    const struct step_row *row = step_row(&engine->step, index);
    uint32_t produced = step_out(&engine->step, index)->produced;
    return produced < row->decode_steps &&
           !fake_engine_is_stop(&row->sampling,
                                step_out_tokens(&engine->step, index)[produced - 1]);
}

/* Feeds what is known and not yet fed. Returns the hash at the last position. */
static uint64_t feed_known(const struct fake_engine *engine, uint32_t index)
{
    const struct step_row *row = step_row(&engine->step, index);
    const struct step_out *out = step_out(&engine->step, index);
    const uint32_t *sampled = step_out_tokens(&engine->step, index);
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
    return hash;
}

static void sample_next(const struct fake_engine *engine, uint32_t index, uint64_t hash)
{
    const struct step_row *row = step_row(&engine->step, index);
    struct step_out *out = step_out(&engine->step, index);
    uint32_t position = row->first_position + row->tokens_count + out->produced;
    out->digest = row->wants_digest ? mix(out->digest, hash) : 0;
    uint32_t token = sample(engine, hash, position, &row->sampling);
    bool is_wrong = engine->is_wrong && step_header(&engine->step)->is_doubted;
    fake_engine_append(engine, index, (token + is_wrong) % engine->vocab_tokens);
}

static uint32_t draft(const struct fake_engine *engine, uint32_t index, uint32_t *tokens)
{
    const struct step_row *row = step_row(&engine->step, index);
    uint32_t produced = step_out(&engine->step, index)->produced;
    uint32_t most = row->decode_steps - produced - 1;
    const struct draft_text text = {step_past(&engine->step, index), row->past_count,
                                    step_out_tokens(&engine->step, index), produced};
    return draft_find(&text, tokens, most < row->drafts ? most : row->drafts);
}

/* Feeds the row's next tokens, and samples if it decodes. All of a draft is fed before any of it is
 * judged, as engines do. */
static void run_round(const struct fake_engine *engine, uint32_t index)
{
    const struct step_row *row = step_row(&engine->step, index);
    struct step_out *out = step_out(&engine->step, index);
    const uint32_t *sampled = step_out_tokens(&engine->step, index);
    uint32_t tokens[STEP_DRAFTS_MAX], count, at = 0;
    uint64_t hashes[1 + STEP_DRAFTS_MAX];
    hashes[0] = feed_known(engine, index);
    if (row->decode_steps == 0) {
        return;
    }
    uint32_t position = row->first_position + row->tokens_count + out->produced;
    count = draft(engine, index, tokens);
    for (uint32_t i = 0; i < count; i++) {
        hashes[i + 1] = feed(engine, index, position + i, tokens[i]);
    }
    sample_next(engine, index, hashes[0]);
    while (at < count && goes_on(engine, index) && sampled[out->produced - 1] == tokens[at]) {
        sample_next(engine, index, hashes[++at]);
    }
    out->drafted += count;
    out->agreed += at;
    out->refused += at < count && sampled[out->produced - 1] != tokens[at];
}

/* Moves between tiers run from last to first: the core may not rely on their order. */
static void run_moves(const struct fake_engine *engine)
{
    const struct step_move *moves = step_moves(&engine->step);
    uint32_t count = step_header(&engine->step)->moves_count;
    ASSERT(count <= engine->step.layout.moves_max);
    for (uint32_t pass = 0; pass < STEP_PHASES; pass++) {
        for (uint32_t i = 0; i < count; i++) {
            const struct step_move *move =
                &moves[pass == STEP_PHASE_WITHIN ? i : count - 1 - i];
            ASSERT(move->from < engine->blocks && move->to < engine->blocks);
            if (step_move_phase(move, engine->device_blocks) == pass) {
                memcpy(engine->kv + (uint64_t)move->to * engine->block_tokens,
                       engine->kv + (uint64_t)move->from * engine->block_tokens,
                       engine->block_tokens * sizeof *engine->kv);
            }
        }
    }
}

static void end_doubt(const struct fake_engine *engine)
{
    if (step_header(&engine->step)->is_doubted) {
        step_progress(&engine->step)->doubt =
            engine->is_wrong ? STEP_DOUBT_REFUTED : STEP_DOUBT_HELD;
    }
}

/* Keeps the rows that need another round. */
static void choose_rows(struct fake_engine *engine)
{
    const struct step_header *header = step_header(&engine->step);
    uint32_t decoding = 0, kept = 0;
    for (uint32_t i = 0; i < engine->rows_count; i++) {
        decoding += step_row(&engine->step, engine->rows[i])->decode_steps > 0;
        if (goes_on(engine, engine->rows[i])) {
            engine->rows[kept++] = engine->rows[i];
        }
    }
    while (kept < header->rows_active && engine->standby < header->rows_count) {
        ASSERT(step_row(&engine->step, engine->standby)->tokens_count == 1);
        ASSERT(step_row(&engine->step, engine->standby)->decode_steps > 0);
        engine->rows[kept++] = engine->standby++;
    }
    bool ends = step_early_stop(&engine->step) == STEP_STOP_ROW && kept < decoding;
    engine->rows_count = ends ? 0 : kept;
}

void fake_engine_begin(struct fake_engine *engine)
{
    const struct step_header *header = step_header(&engine->step);
    ASSERT(header->rows_active <= header->rows_count);
    ASSERT(header->rows_active <= FAKE_ENGINE_ROWS_MAX);
    run_moves(engine);
    for (uint32_t i = 0; i < header->rows_count; i++) {
        const struct step_row *row = step_row(&engine->step, i);
        ASSERT(row->drafts <= STEP_DRAFTS_MAX);
        ASSERT(row->drafts == 0 || (i < header->rows_active && row->decode_steps > 0));
        *step_out(&engine->step, i) = (struct step_out){.result = STEP_ROW_OK};
    }
    step_progress_begin(&engine->step);
    engine->rows_count = engine->standby = header->rows_active;
    for (uint32_t i = 0; i < engine->rows_count; i++) {
        engine->rows[i] = i;
    }
    engine->round = 0;
    engine->rounds =
        engine->steps_per_plan > 0 ? engine->steps_per_plan : engine->step.layout.steps_max;
}

bool fake_engine_round(struct fake_engine *engine)
{
    if (engine->rows_count == 0) {
        return false;
    }
    for (uint32_t i = 0; i < engine->rows_count; i++) {
        run_round(engine, engine->rows[i]);
    }
    step_progress_round(&engine->step, ++engine->round);
    if (engine->round == engine->rounds || step_early_stop(&engine->step) == STEP_STOP_ROUND) {
        engine->rows_count = 0;
    } else {
        choose_rows(engine);
    }
    if (engine->rows_count == 0) {
        end_doubt(engine);
    }
    return true;
}

void fake_engine_run(void *context)
{
    struct fake_engine *engine = context;
    fake_engine_begin(engine);
    while (fake_engine_round(engine)) {
    }
}

void fake_engine_forget(struct fake_engine *engine)
{
    memset(engine->kv, 0xee, (uint64_t)engine->blocks * engine->block_tokens * sizeof *engine->kv);
}

uint32_t fake_engine_oracle(const struct fake_engine *engine, uint32_t *tokens, uint32_t prompt,
                            uint32_t max, const struct call_sampling *sampling)
{
    uint64_t hash = 0;
    for (uint32_t i = 0; i < prompt; i++) {
        hash = fake_engine_next(engine, engine->salts[0], i, hash, tokens[i]);
    }
    for (uint32_t produced = 0; produced < max; produced++) {
        uint32_t token = sample(engine, hash, prompt + produced, sampling);
        tokens[prompt + produced] = token;
        if (fake_engine_is_stop(sampling, token)) {
            return produced + 1;
        }
        hash = fake_engine_next(engine, engine->salts[0], prompt + produced, hash, token);
    }
    return max;
}
