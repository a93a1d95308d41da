/* SPDX-License-Identifier: MIT */
/*
 * What: an engine: the chain of hashes of selftest/fake/fake_engine.h over KV of its own, and what
 * can go wrong with the results of a step. Before a row runs, every position that it reads is
 * checked.
 *
 * Invariants of this side: a step's moves run when it is submitted; a free block is poisoned, so a
 * row that reads it afterwards is found out; a position that another engine has computed is
 * nowhere in this one's KV.
 */
#include <string.h>

#include "kvmem/block.h"
#include "selftest/sim/sim.h"

#define POISON UINT64_C(0xdead4b1dead4b1de)

static uint64_t *kv_of(struct sim *sim, struct sim_engine *engine, uint32_t block)
{
    return engine->kv + (uint64_t)block * sim->limits.kv_block_tokens;
}

static const struct kvmem *kvmem_of(const struct sim *sim, const struct sim_engine *engine)
{
    return &sim->loop.engines[engine->index].kv;
}

uint64_t sim_salt(const struct sim *sim, uint64_t domain, const uint8_t *program_id)
{
    uint64_t salt = fnv_add(FNV_START, &domain, sizeof domain);
    return sim->loop.sched.settings.sharing == SCHED_SHARING_DOMAIN
               ? salt : fnv_add(salt, program_id, CALL_PROGRAM_ID_BYTES);
}

uint64_t sim_call_domain(const struct sim *sim, uint32_t slot)
{
    uint32_t workflow = sim->loop.calls.calls[slot].workflow;
    return workflow != CALL_NONE ? sim->flow_domains[workflow] : sim->slot_domains[slot];
}

/* The blocks of the device, then those of the canary, then the host's. */
static uint32_t device_blocks_of(const struct sim *sim)
{
    return sim->limits.kv_blocks + sim->limits.canary_blocks;
}

static uint32_t blocks_of(const struct sim *sim)
{
    return device_blocks_of(sim) + sim->limits.kv_host_blocks;
}

void sim_engine_forget(struct sim *sim, struct sim_engine *engine)
{
    uint32_t blocks = blocks_of(sim);
    for (uint64_t i = 0; i < (uint64_t)blocks * sim->limits.kv_block_tokens; i++) {
        engine->kv[i] = POISON;
    }
    memset(engine->poisoned, true, blocks * sizeof *engine->poisoned);
}

void sim_engine_build(struct sim *sim, struct sim_engine *engine)
{
    ASSERT(blocks_of(sim) <= SIM_BLOCKS_MAX);
    ASSERT(sim->limits.kv_block_tokens <= SIM_BLOCK_TOKENS);
    engine->fake = (struct fake_engine){
        .step = step_at(&sim->step, engine->index), .kv = engine->kv,
        .device_blocks = device_blocks_of(sim), .blocks = blocks_of(sim),
        .declared = &sim->declared, .block_tokens = sim->limits.kv_block_tokens,
        .vocab_tokens = sim->limits.vocab_tokens,
        .repeats = sim->loop.sched.settings.speculate > 0};
}

/* ---- checks before a step runs --------------------------------------------------------------- */

/* Every position before the row's first one must hold the hash of the call's own tokens. */
static void check_history(struct sim *sim, struct sim_engine *engine, uint32_t index)
{
    const struct step *step = &engine->fake.step;
    const struct step_row *row = step_row(step, index);
    const struct call *call = &sim->loop.calls.calls[row->call];
    uint32_t block_tokens = sim->limits.kv_block_tokens;
    uint64_t hash = 0;
    for (uint32_t at = 0; at < row->first_position; at++) {
        uint32_t block = step_blocks(step, index)[at / block_tokens];
        hash = fake_engine_next(&engine->fake, engine->fake.salts[index], at, hash,
                                call->tokens[at]);
        SIM_REQUIRE(sim, block < sim->limits.kv_blocks, INVARIANT_KV,
                    "row %u computes in block %u, which is the host's", index, block);
        uint64_t held = kv_of(sim, engine, block)[at % block_tokens];
        SIM_REQUIRE(sim, held == hash, INVARIANT_KV,
                    "row %u, call %u: position %u in block %u of engine %u holds %s", index,
                    row->call, at, block, engine->index,
                    held == POISON ? "poison" : "something else");
    }
}

/* The row must hold the tokens that the repetition penalty counts. */
static void check_penalty(struct sim *sim, const struct step_row *row, const struct call *call)
{
    uint32_t end = row->first_position + row->tokens_count;
    uint32_t wanted = end < CALL_REPEAT_TOKENS ? end : CALL_REPEAT_TOKENS;
    bool is_off = row->decode_steps == 0 || row->sampling.repeat_penalty == 1.0f;
    wanted = is_off ? 0 : wanted;
    SIM_REQUIRE(sim, row->history_count == wanted &&
                         memcmp(row->history, call->tokens + end - wanted,
                                wanted * sizeof *row->history) == 0,
                INVARIANT_TOKENS, "row of call %u: its history is not the call's", row->call);
}

/* The row must hold its biases, and what penalties count: all that the call has generated. */
static void check_adjustments(struct sim *sim, const struct step *step, uint32_t index,
                              const struct call *call)
{
    const struct step_row *row = step_row(step, index);
    bool counts = row->decode_steps > 0 && call_counts_tokens(&call->sampling);
    uint32_t wanted = counts ? call->generated_tokens : 0;
    SIM_REQUIRE(sim, row->generated_count == wanted &&
                         memcmp(step_generated(step, index), call->tokens + call->prompt_tokens,
                                wanted * sizeof(uint32_t)) == 0,
                INVARIANT_TOKENS, "row of call %u: it counts other tokens", row->call);
    SIM_REQUIRE(sim, memcmp(row->biases, call->biases,
                            call->sampling.biases_count * sizeof *row->biases) == 0,
                INVARIANT_TOKENS, "row of call %u: its biases are not the call's", row->call);
}

/* A row with drafts must hold all that is known of its call, after a bounded number of tokens that
 * it recalls, and be none of the standbys; all rows together have no more drafts than the batch
 * has room. */
static void check_drafts(struct sim *sim, const struct step *step)
{
    uint32_t places = step_header(step)->rows_active;
    for (uint32_t i = 0; i < step_header(step)->rows_count; i++) {
        const struct step_row *row = step_row(step, i);
        const struct call *call = &sim->loop.calls.calls[row->call];
        uint32_t known = call->prompt_tokens + call->generated_tokens;
        uint32_t recalled = row->past_count - known;    /* huge where that is less */
        places += row->drafts;
        SIM_REQUIRE(sim, row->drafts == 0 ||
                             (i < step_header(step)->rows_active &&
                              recalled <= sim->limits.recalled_tokens &&
                              memcmp(step_past(step, i) + recalled, call->tokens,
                                     known * sizeof(uint32_t)) == 0),
                    INVARIANT_TOKENS, "row of call %u: drafts, and not its tokens", row->call);
    }
    SIM_REQUIRE(sim, places <= sim->limits.batch_calls, INVARIANT_TOKENS,
                "%u rows and tokens of drafts, in a batch of %u", places,
                sim->limits.batch_calls);
}

/* No move may fill a free block. */
static void check_moves(struct sim *sim, const struct sim_engine *engine)
{
    const struct step *step = &engine->fake.step;
    for (uint32_t i = 0; i < step_header(step)->moves_count; i++) {
        uint32_t to = step_moves(step)[i].to;
        SIM_REQUIRE(sim, kvmem_of(sim, engine)->blocks[to].state != KVMEM_FREE, INVARIANT_KV,
                    "a move fills block %u, which is free", to);
    }
}

static void check_rows(struct sim *sim, struct sim_engine *engine)
{
    const struct step *step = &engine->fake.step;
    check_moves(sim, engine);
    check_drafts(sim, step);
    for (uint32_t i = 0; i < step_header(step)->rows_count; i++) {
        const struct step_row *row = step_row(step, i);
        const struct call *call = &sim->loop.calls.calls[row->call];
        sim_mix(sim, (uint64_t)row->call << 32 | row->first_position);
        sim_mix(sim, (uint64_t)row->tokens_count << 32 | row->decode_steps);
        engine->fake.salts[i] = sim_salt(sim, sim_call_domain(sim, row->call), call->program_id);
        check_penalty(sim, row, call);
        check_adjustments(sim, step, i, call);
    }
}

/* True for a block of the canary, which kvmem does not know. */
static bool is_aside(const struct sim *sim, uint32_t block)
{
    return block >= sim->limits.kv_blocks && block < device_blocks_of(sim);
}

/* Poisons the blocks that are free since the last look. */
static void poison_free(struct sim *sim, struct sim_engine *engine)
{
    const struct kvmem *kv = kvmem_of(sim, engine);
    for (uint32_t block = 0; block < kv->blocks_count; block++) {
        bool is_free = kv->blocks[block].state == KVMEM_FREE && !is_aside(sim, block);
        if (is_free && !engine->poisoned[block]) {
            for (uint32_t i = 0; i < sim->limits.kv_block_tokens; i++) {
                kv_of(sim, engine, block)[i] = POISON;
            }
        }
        engine->poisoned[block] = is_free;
    }
}

static uint64_t hash_bytes(uint64_t hash, const void *bytes, uint64_t count)
{
    const uint8_t *at = bytes;
    for (; count >= sizeof(uint64_t); count -= sizeof(uint64_t), at += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 32;
    }
    return fnv_add(hash, at, count);
}

/* Hash of what the core may not change while the step is in flight: all but `early_stop`. */
static uint64_t hash_record(const struct step *step)
{
    const struct step_header *header = step_header(step);
    uint64_t hash = hash_bytes(FNV_START, header, offsetof(struct step_header, early_stop));
    hash = hash_bytes(hash, step_moves(step), header->moves_count * sizeof(struct step_move));
    hash = hash_bytes(hash, step_row(step, 0), header->rows_count * sizeof(struct step_row));
    hash = hash_bytes(hash, step_tokens(step), header->tokens_count * sizeof(uint32_t));
    for (uint32_t i = 0; i < header->rows_count; i++) {
        hash = hash_bytes(hash, step_blocks(step, i),
                          step_row(step, i)->blocks_count * sizeof(uint32_t));
    }
    return hash;
}

static void begin_planned(struct sim *sim, struct sim_engine *engine)
{
    invariants_note_plan(sim, engine->index);
    sim_lockstep_plan(sim, engine->index);
    check_rows(sim, engine);
    fake_engine_begin(&engine->fake);
    for (uint32_t i = 0; i < step_header(&engine->fake.step)->rows_count; i++) {
        check_history(sim, engine, i);
    }
    poison_free(sim, engine);
}

void sim_engine_begin(struct sim *sim, struct sim_engine *engine)
{
    const struct step_header *header = step_header(&engine->fake.step);
    engine->is_own = header->sequence == 0;
    engine->fake.is_wrong = header->is_doubted && sim_fault(sim, SIM_FAULT_DOUBT);
    if (engine->is_own) {
        engine->fake.salts[0] = 0;
        fake_engine_begin(&engine->fake);
    } else {
        begin_planned(sim, engine);
    }
    engine->record = hash_record(&engine->fake.step);
}

/* ---- results --------------------------------------------------------------------------------- */

static void spoil_row(struct sim *sim, struct sim_engine *engine, uint32_t index)
{
    const struct step *step = &engine->fake.step;
    const struct step_row *row = step_row(step, index);
    struct step_out *out = step_out(step, index);
    enum status status = STATUS_DEVICE_FAILED;
    bool is_nan = sim_fault(sim, SIM_FAULT_NAN);
    if (is_nan) {
        *out = (struct step_out){.result = STEP_ROW_NOT_FINITE};
        status = STATUS_DEVICE_NUMERIC;
    } else if (sim_fault(sim, SIM_FAULT_LIE)) {
        switch (sim_choose(sim, 3)) {
        case 0: out->result = 2 + sim_choose(sim, 7); break;
        case 1: out->produced = row->decode_steps + 1 + sim_choose(sim, 1000); break;
        default:
            out->produced = out->produced > 0 ? out->produced : 1;
            step_out_tokens(step, index)[sim_choose(sim, out->produced)] =
                sim->limits.vocab_tokens + sim_choose(sim, 2);
        }
    } else {
        return;
    }
    sim_say(sim, "row %u is spoilt: %s", index, is_nan ? "not finite" : "nonsense");
    const struct call *call = &sim->loop.calls.calls[row->call];
    if (call->workflow != CALL_NONE) {
        sim_flow_excuse(sim, sim->loop.workflows.workflows[call->workflow].flow_id, status);
    } else {
        sim_oracle_excuse(sim, row->sampling.seed, status);
    }
}

enum naive_fault sim_engine_fault(const struct sim *sim, uint32_t engine, uint32_t row)
{
    const struct step *step = &sim->engines[engine].fake.step;
    const struct step_out *out = step_out(step, row);
    if (out->result != STEP_ROW_OK) {
        return out->result == STEP_ROW_NOT_FINITE ? NAIVE_FAULT_NAN : NAIVE_FAULT_SILENT;
    }
    if (out->produced > step_row(step, row)->decode_steps) {
        return NAIVE_FAULT_COUNT;
    }
    for (uint32_t i = 0; i < out->produced; i++) {
        if (step_out_tokens(step, row)[i] >= sim->limits.vocab_tokens) {
            return NAIVE_FAULT_TOKEN;
        }
    }
    return NAIVE_FAULT_NONE;
}

bool sim_engine_is_believable(const struct sim *sim, const struct sim_engine *engine)
{
    if (engine->fake.is_wrong) {
        return false;
    }
    for (uint32_t i = 0; i < step_header(&engine->fake.step)->rows_count; i++) {
        enum naive_fault fault = sim_engine_fault(sim, engine->index, i);
        if (fault != NAIVE_FAULT_NONE && fault != NAIVE_FAULT_NAN) {
            return false;
        }
    }
    return true;
}

static uint64_t *place_of(struct sim *sim, struct sim_engine *engine, uint32_t index,
                          uint32_t position)
{
    uint32_t block_tokens = sim->limits.kv_block_tokens;
    uint32_t block = step_blocks(&engine->fake.step, index)[position / block_tokens];
    return kv_of(sim, engine, block) + position % block_tokens;
}

/* Writes the KV of the row's newest token, which no round has fed. */
static void feed_last(struct sim *sim, struct sim_engine *engine, uint32_t index, uint32_t token)
{
    const struct step_row *row = step_row(&engine->fake.step, index);
    uint32_t produced = step_out(&engine->fake.step, index)->produced;
    uint32_t position = row->first_position + row->tokens_count + produced - 1;
    *place_of(sim, engine, index, position) =
        fake_engine_next(&engine->fake, engine->fake.salts[index], position,
                         *place_of(sim, engine, index, position - 1), token);
}

/* An engine may go on after a stop; the tokens after it count for nothing. */
static void overrun(struct sim *sim, struct sim_engine *engine, uint32_t index)
{
    const struct step_row *row = step_row(&engine->fake.step, index);
    struct step_out *out = step_out(&engine->fake.step, index);
    const uint32_t *tokens = step_out_tokens(&engine->fake.step, index);
    bool has_stopped = out->produced > 0 && out->produced < row->decode_steps &&
                       fake_engine_is_stop(&row->sampling, tokens[out->produced - 1]);
    if (has_stopped && sim_fault(sim, SIM_FAULT_OVERRUN)) {
        uint32_t more = sim_between(sim, 1, row->decode_steps - out->produced);
        for (uint32_t i = 0; i < more; i++) {
            feed_last(sim, engine, index, tokens[out->produced - 1]);
            fake_engine_append(&engine->fake, index, sim_choose(sim, sim->limits.vocab_tokens));
        }
        sim_say(sim, "row %u goes on for %u tokens behind its stop", index, more);
    }
}

static void spoil_own(struct sim *sim, struct sim_engine *engine)
{
    struct step_out *out = step_out(&engine->fake.step, 0);
    if (step_row(&engine->fake.step, 0)->wants_digest) {
        sim_say(sim, "the canary comes out otherwise");
        out->digest++;
    } else {
        sim_say(sim, "a declared prefix comes to nothing");
        out->result = sim_choose(sim, 2) == 0 ? STEP_ROW_NOT_FINITE : 2;
    }
}

void sim_engine_end(struct sim *sim, struct sim_engine *engine)
{
    bool is_heard = !engine->is_own && !engine->is_left;
    uint32_t rows = is_heard ? step_header(&engine->fake.step)->rows_count : 0;
    SIM_REQUIRE(sim, engine->record == hash_record(&engine->fake.step), INVARIANT_RECORD,
                "the step record was written while its step was in flight");
    for (uint32_t i = 0; i < rows; i++) {
        overrun(sim, engine, i);
        spoil_row(sim, engine, i);
    }
    if (engine->is_own && sim_fault(sim, SIM_FAULT_CANARY)) {
        spoil_own(sim, engine);
    }
}
