/* SPDX-License-Identifier: MIT */
/*
 * What: the worker and its engine: the chain of hashes of selftest/fake/fake_engine.h, in virtual
 * time, with everything that can go wrong with a worker. Before a row runs, every position that it
 * reads is checked.
 *
 * Invariants of this side: a step's moves run when it is submitted, its rounds when their time has
 * come, so early stop finds it half done; a worker that dies takes all KV of both tiers along; a
 * free block is poisoned, so a row that reads it afterwards is found out.
 */
#include <string.h>

#include "kvmem/block.h"
#include "selftest/sim/sim.h"

#define START_US_MAX    (2 * SIM_SECOND_US)     /* a new worker reads nothing: weights are there */
#define KILLED_US_MAX   (30 * SIM_SECOND_US)    /* until the keeper ends a worker that hangs */
#define SLOW_FACTOR     100
#define NEVER_US        (UINT64_MAX / 4)
#define POISON          UINT64_C(0xdead4b1dead4b1de)

/* There is one so far. */
static struct sim_engine *engine_of(struct sim *sim, uint32_t index)
{
    SIM_REQUIRE(sim, index == 0, INVARIANT_WORLD, "engine %u, which there is not", index);
    return &sim->engine;
}

static uint64_t *kv_of(struct sim *sim, uint32_t block)
{
    return sim->engine.kv + (uint64_t)block * sim->limits.kv_block_tokens;
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

static void start(struct sim *sim)
{
    struct sim_engine *engine = &sim->engine;
    uint32_t blocks = blocks_of(sim);
    for (uint64_t i = 0; i < (uint64_t)blocks * sim->limits.kv_block_tokens; i++) {
        engine->kv[i] = POISON;
    }
    memset(engine->poisoned, true, blocks * sizeof *engine->poisoned);
    engine->worker = SIM_WORKER_STARTS;
    engine->due_us = sim->now_us + 1 + sim_time(sim, START_US_MAX);
}

void sim_engine_init(struct sim *sim)
{
    struct sim_engine *engine = &sim->engine;
    ASSERT(blocks_of(sim) <= SIM_BLOCKS_MAX);
    ASSERT(sim->limits.kv_block_tokens <= SIM_BLOCK_TOKENS);
    fake_engine_declare(&sim->declared, &sim->prefixes);
    engine->fake = (struct fake_engine){
        .step = sim->step, .kv = engine->kv, .device_blocks = device_blocks_of(sim),
        .blocks = blocks_of(sim), .declared = &sim->declared,
        .block_tokens = sim->limits.kv_block_tokens, .vocab_tokens = sim->limits.vocab_tokens};
    engine->heartbeat = 0;
    engine->by_hand = engine->is_own = engine->owes_step = false;
    engine->rounds_to_live = 0;
    start(sim);
}

/* ---- checks before a step runs --------------------------------------------------------------- */

/* Every position before the row's first one must hold the hash of the call's own tokens. */
static void check_history(struct sim *sim, uint32_t index)
{
    const struct step_row *row = step_row(&sim->step, index);
    const struct call *call = &sim->loop.calls.calls[row->call];
    uint32_t block_tokens = sim->limits.kv_block_tokens;
    uint64_t hash = 0;
    for (uint32_t at = 0; at < row->first_position; at++) {
        uint32_t block = step_blocks(&sim->step, index)[at / block_tokens];
        hash = fake_engine_next(&sim->engine.fake, sim->engine.fake.salts[index], at, hash,
                                call->tokens[at]);
        SIM_REQUIRE(sim, block < sim->limits.kv_blocks, INVARIANT_KV,
                    "row %u computes in block %u, which is the host's", index, block);
        SIM_REQUIRE(sim, kv_of(sim, block)[at % block_tokens] == hash, INVARIANT_KV,
                    "row %u, call %u: position %u in block %u holds %s", index, row->call, at,
                    block, kv_of(sim, block)[at % block_tokens] == POISON ? "poison"
                                                                          : "something else");
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

/* No move may fill a free block. */
static void check_moves(struct sim *sim)
{
    for (uint32_t i = 0; i < step_header(&sim->step)->moves_count; i++) {
        const struct step_move *move = &step_moves(&sim->step)[i];
        SIM_REQUIRE(sim, sim->loop.engines[0].kv.blocks[move->to].state != KVMEM_FREE, INVARIANT_KV,
                    "a move fills block %u, which is free", move->to);
    }
}

static void check_rows(struct sim *sim)
{
    const struct step_header *header = step_header(&sim->step);
    check_moves(sim);
    for (uint32_t i = 0; i < header->rows_count; i++) {
        const struct step_row *row = step_row(&sim->step, i);
        const struct call *call = &sim->loop.calls.calls[row->call];
        sim_mix(sim, (uint64_t)row->call << 32 | row->first_position);
        sim_mix(sim, (uint64_t)row->tokens_count << 32 | row->decode_steps);
        sim->engine.fake.salts[i] = sim_salt(sim, sim_call_domain(sim, row->call),
                                             call->program_id);
        check_penalty(sim, row, call);
    }
}

/* True for a block of the canary, which kvmem does not know. */
static bool is_aside(const struct sim *sim, uint32_t block)
{
    return block >= sim->limits.kv_blocks && block < device_blocks_of(sim);
}

/* Poisons the blocks that are free since the last look. */
static void poison_free(struct sim *sim)
{
    const struct kvmem *kv = &sim->loop.engines[0].kv;
    for (uint32_t block = 0; block < kv->blocks_count; block++) {
        bool is_free = kv->blocks[block].state == KVMEM_FREE && !is_aside(sim, block);
        if (is_free && !sim->engine.poisoned[block]) {
            for (uint32_t i = 0; i < sim->limits.kv_block_tokens; i++) {
                kv_of(sim, block)[i] = POISON;
            }
        }
        sim->engine.poisoned[block] = is_free;
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
static uint64_t hash_record(const struct sim *sim)
{
    const struct step_header *header = step_header(&sim->step);
    uint64_t hash = hash_bytes(FNV_START, header, offsetof(struct step_header, early_stop));
    hash = hash_bytes(hash, step_moves(&sim->step), header->moves_count * sizeof(struct step_move));
    hash = hash_bytes(hash, step_row(&sim->step, 0), header->rows_count * sizeof(struct step_row));
    hash = hash_bytes(hash, step_tokens(&sim->step), header->tokens_count * sizeof(uint32_t));
    for (uint32_t i = 0; i < header->rows_count; i++) {
        hash = hash_bytes(hash, step_blocks(&sim->step, i),
                          step_row(&sim->step, i)->blocks_count * sizeof(uint32_t));
    }
    return hash;
}

/* ---- a step ---------------------------------------------------------------------------------- */

static uint64_t draw_round_us(struct sim *sim)
{
    if (sim->engine.by_hand) {
        return NEVER_US;
    }
    uint64_t round_us = 1 + sim_time(sim, sim->swarm.round_us_max);
    return sim_fault(sim, SIM_FAULT_SLOW) ? round_us * SLOW_FACTOR : round_us;
}

static void begin_planned(struct sim *sim)
{
    invariants_note_plan(sim);
    sim_lockstep_plan(sim);
    check_rows(sim);
    fake_engine_begin(&sim->engine.fake);
    for (uint32_t i = 0; i < step_header(&sim->step)->rows_count; i++) {
        check_history(sim, i);
    }
    poison_free(sim);
}

void sim_engine_submit(void *self, uint32_t index)
{
    struct sim *sim = self;
    struct sim_engine *engine = engine_of(sim, index);
    SIM_REQUIRE(sim, engine->worker == SIM_WORKER_IDLE, INVARIANT_WORLD,
                "a step for a worker that has one");
    engine->is_own = step_header(&sim->step)->sequence == 0;
    engine->owes_step = !engine->is_own;
    if (engine->is_own) {
        engine->fake.salts[0] = 0;
        fake_engine_begin(&engine->fake);
    } else {
        begin_planned(sim);
    }
    engine->record = hash_record(sim);
    engine->round_us = draw_round_us(sim);
    engine->rounds_to_live =
        sim_fault(sim, SIM_FAULT_DEATH) ? 1 + sim_choose(sim, sim->limits.steps_per_plan) : 0;
    engine->worker = SIM_WORKER_RUNS;
    engine->due_us = sim->now_us + engine->round_us;
    if (sim_fault(sim, SIM_FAULT_HANG)) {
        engine->worker = SIM_WORKER_HANGS;
        engine->due_us = sim->now_us + sim_time(sim, KILLED_US_MAX);
        sim_say(sim, "worker hangs");
    }
    sim_say(sim, "step %llu: %u rows and %u standbys, %u moves",
            (unsigned long long)step_header(&sim->step)->sequence,
            step_header(&sim->step)->rows_active,
            step_header(&sim->step)->rows_count - step_header(&sim->step)->rows_active,
            step_header(&sim->step)->moves_count);
}

static void spoil_row(struct sim *sim, uint32_t index)
{
    const struct step_row *row = step_row(&sim->step, index);
    struct step_out *out = step_out(&sim->step, index);
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
            step_out_tokens(&sim->step, index)[sim_choose(sim, out->produced)] =
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

/* The fault that the core must find in the row's outputs. */
enum naive_fault sim_engine_fault(const struct sim *sim, uint32_t index)
{
    const struct step_out *out = step_out(&sim->step, index);
    if (out->result != STEP_ROW_OK) {
        return out->result == STEP_ROW_NOT_FINITE ? NAIVE_FAULT_NAN : NAIVE_FAULT_SILENT;
    }
    if (out->produced > step_row(&sim->step, index)->decode_steps) {
        return NAIVE_FAULT_COUNT;
    }
    for (uint32_t i = 0; i < out->produced; i++) {
        if (step_out_tokens(&sim->step, index)[i] >= sim->limits.vocab_tokens) {
            return NAIVE_FAULT_TOKEN;
        }
    }
    return NAIVE_FAULT_NONE;
}

static uint64_t *place_of(struct sim *sim, uint32_t index, uint32_t position)
{
    uint32_t block_tokens = sim->limits.kv_block_tokens;
    return kv_of(sim, step_blocks(&sim->step, index)[position / block_tokens]) +
           position % block_tokens;
}

/* Writes the KV of the row's newest token, which no round has fed. */
static void feed_last(struct sim *sim, uint32_t index, uint32_t token)
{
    const struct step_row *row = step_row(&sim->step, index);
    uint32_t position =
        row->first_position + row->tokens_count + step_out(&sim->step, index)->produced - 1;
    *place_of(sim, index, position) =
        fake_engine_next(&sim->engine.fake, sim->engine.fake.salts[index], position,
                         *place_of(sim, index, position - 1), token);
}

/* An engine may go on after a stop; the tokens after it count for nothing. */
static void overrun(struct sim *sim, uint32_t index)
{
    const struct step_row *row = step_row(&sim->step, index);
    struct step_out *out = step_out(&sim->step, index);
    uint32_t *tokens = step_out_tokens(&sim->step, index);
    bool has_stopped = out->produced > 0 && out->produced < row->decode_steps &&
                       fake_engine_is_stop(&row->sampling, tokens[out->produced - 1]);
    if (has_stopped && sim_fault(sim, SIM_FAULT_OVERRUN)) {
        uint32_t more = sim_between(sim, 1, row->decode_steps - out->produced);
        for (uint32_t i = 0; i < more; i++) {
            feed_last(sim, index, tokens[out->produced - 1]);
            tokens[out->produced++] = sim_choose(sim, sim->limits.vocab_tokens);
        }
        sim_say(sim, "row %u goes on for %u tokens behind its stop", index, more);
    }
}

static void spoil_own(struct sim *sim)
{
    struct step_out *out = step_out(&sim->step, 0);
    if (step_row(&sim->step, 0)->wants_digest) {
        sim_say(sim, "the canary comes out otherwise");
        out->digest++;
    } else {
        sim_say(sim, "a declared prefix comes to nothing");
        out->result = sim_choose(sim, 2) == 0 ? STEP_ROW_NOT_FINITE : 2;
    }
}

static void end_step(struct sim *sim)
{
    SIM_REQUIRE(sim, sim->engine.record == hash_record(sim), INVARIANT_RECORD,
                "the step record was written while its step was in flight");
    for (uint32_t i = 0; i < step_header(&sim->step)->rows_count && !sim->engine.is_own; i++) {
        overrun(sim, i);
        spoil_row(sim, i);
    }
    if (sim->engine.is_own && sim_fault(sim, SIM_FAULT_CANARY)) {
        spoil_own(sim);
    }
    sim->engine.worker = SIM_WORKER_DONE;
}

static void die(struct sim *sim)
{
    sim_say(sim, "worker dies");
    sim->engine.worker = SIM_WORKER_DIED;
}

static void run_round(struct sim *sim)
{
    struct sim_engine *engine = &sim->engine;
    bool goes_on = fake_engine_round(&engine->fake) && engine->fake.rows_count > 0;
    if (engine->rounds_to_live > 0 && --engine->rounds_to_live == 0) {
        die(sim);
    } else if (goes_on) {
        engine->due_us += engine->round_us;
    } else {
        end_step(sim);
    }
}

static void come_up(struct sim *sim)
{
    if (sim_fault(sim, SIM_FAULT_DEATH)) {
        die(sim);
    } else {
        sim->engine.worker = SIM_WORKER_IDLE;
    }
}

bool sim_engine_advance(struct sim *sim)
{
    struct sim_engine *engine = &sim->engine;
    enum sim_worker before = engine->worker;
    bool has_round = false;
    while (engine->worker == SIM_WORKER_RUNS && engine->due_us <= sim->now_us) {
        run_round(sim);
        has_round = true;
    }
    if (engine->worker == SIM_WORKER_STARTS && engine->due_us <= sim->now_us) {
        come_up(sim);
    } else if ((engine->worker == SIM_WORKER_HANGS || engine->worker == SIM_WORKER_CONDEMNED) &&
               engine->due_us <= sim->now_us) {
        die(sim);
    } else if (engine->worker == SIM_WORKER_IDLE && sim_fault(sim, SIM_FAULT_DEATH)) {
        die(sim);
    }
    return has_round || engine->worker != before;
}

uint64_t sim_engine_next_us(const struct sim *sim)
{
    enum sim_worker worker = sim->engine.worker;
    bool waits = worker == SIM_WORKER_IDLE || worker == SIM_WORKER_DONE ||
                 worker == SIM_WORKER_DIED;
    return waits ? UINT64_MAX : sim->engine.due_us;
}

void sim_engine_by_hand(struct sim *sim, bool by_hand)
{
    sim->engine.by_hand = by_hand;
    if (!by_hand) {
        sim->engine.round_us = 1;
        sim_engine_round(sim);
    }
}

void sim_engine_round(struct sim *sim)
{
    if (sim->engine.worker == SIM_WORKER_RUNS) {
        sim->engine.due_us = sim->now_us;
    }
}

void sim_engine_kill(struct sim *sim)
{
    die(sim);
}

void sim_engine_condemn(void *self, uint32_t index)
{
    struct sim *sim = self;
    struct sim_engine *engine = engine_of(sim, index);
    sim_say(sim, "worker is condemned");
    engine->worker = SIM_WORKER_CONDEMNED;
    engine->due_us = sim->now_us + 1 + sim_time(sim, KILLED_US_MAX);
}

static bool is_believable(const struct sim *sim)
{
    for (uint32_t i = 0; i < step_header(&sim->step)->rows_count; i++) {
        enum naive_fault fault = sim_engine_fault(sim, i);
        if (fault != NAIVE_FAULT_NONE && fault != NAIVE_FAULT_NAN) {
            return false;
        }
    }
    return true;
}

static enum world_engine poll(struct sim *sim, struct sim_engine *engine)
{
    switch (engine->worker) {
    case SIM_WORKER_STARTS:
    case SIM_WORKER_CONDEMNED:
        return WORLD_ENGINE_DOWN;
    case SIM_WORKER_IDLE:
        engine->heartbeat++;
        return WORLD_ENGINE_IDLE;
    case SIM_WORKER_RUNS:
        engine->heartbeat++;
        return WORLD_ENGINE_BUSY;
    case SIM_WORKER_HANGS:
        return WORLD_ENGINE_BUSY;
    case SIM_WORKER_DONE:
        engine->heartbeat++;            /* a step is a sign of life */
        engine->worker = SIM_WORKER_IDLE;
        engine->owes_step = engine->owes_step && !is_believable(sim);
        sim->counts.steps += !engine->is_own && !engine->owes_step;
        return WORLD_ENGINE_DONE;
    case SIM_WORKER_DIED:
        break;
    }
    sim->counts.losses++;
    sim->counts.steps_lost += engine->owes_step;
    engine->owes_step = false;
    start(sim);
    return WORLD_ENGINE_LOST;
}

enum world_engine sim_engine_poll(void *self, uint32_t index)
{
    struct sim *sim = self;
    enum world_engine result = poll(sim, engine_of(sim, index));
    sim_mix(sim, (uint64_t)result);
    sim_lockstep_poll(sim, result);
    return result;
}

uint64_t sim_engine_heartbeat(void *self, uint32_t index)
{
    sim_lockstep_compare(self);
    return engine_of(self, index)->heartbeat;
}
