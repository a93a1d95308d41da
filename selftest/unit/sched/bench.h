/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a scheduler on a bench: call table, exchange, KV pool of both tiers and step record around
 * it, a clock that the test turns, and the fake engine, whose tokens betray every mistake.
 */
#include "selftest/unit/test.h"

#include "sched/engine/job.h"
#include "sched/sched.h"
#include "selftest/fake/fake_engine.h"

enum {
    BENCH_CALLS = 48, BENCH_CONTEXT = 96, BENCH_BLOCK_TOKENS = 4, BENCH_BLOCKS_MAX = 1024,
    BENCH_BLOCKS_PER_CALL = BENCH_CONTEXT / BENCH_BLOCK_TOKENS, BENCH_VOCAB = 50,
    BENCH_BATCH_MAX = 16, BENCH_STANDBY_MAX = 8,
    BENCH_ROWS_MAX = BENCH_BATCH_MAX + BENCH_STANDBY_MAX,
    BENCH_STEPS_MAX = 8, BENCH_PREFILL_MAX = 32, BENCH_COMMANDS = 64,
    BENCH_UNIT = 1000,              /* microseconds of a unit of time */
    BENCH_NODES = 104, BENCH_FLOW_ROWS = 8, BENCH_PIECES = 416, BENCH_LITERALS = 256,
    BENCH_VALUES = 4096,            /* tokens of a workflow's rows */
    BENCH_RECALL = 48,              /* of a program's earlier calls, for drafts: at most */
};

static bool bench_repeats;         /* texts of the engine; where there are drafts */
static uint32_t bench_check_apart = 1;  /* of so many looks at all invariants one is taken */

struct bench {
    struct sched sched;
    struct call_table calls;
    struct workflow_table workflows;        /* as many as settings.workflow says */
    struct exchange exchange;
    struct kvmem kv;
    struct step step;
    struct stats stats;
    uint64_t now_us;
    struct fake_engine engine;
    uint64_t kv_bytes[BENCH_BLOCKS_MAX * BENCH_BLOCK_TOKENS];
    bool busy;
    bool has_begun;                 /* the step in flight has run its moves */
};

enum { BENCH_ENTRIES = 3 };          /* log probabilities of a token */

static inline struct sched_settings bench_settings(enum sched_policy policy)
{
    return (struct sched_settings){
        .policy = policy, .engines = 1, .queues = 4, .calls = BENCH_CALLS,
        .quantum_us = 2 * BENCH_UNIT, .quantum_growth = 2, .steps_per_plan = 1,
        .active_programs = SCHED_ACTIVE_ALL,
        .batch_calls = 2, .prefill_tokens = BENCH_PREFILL_MAX,
        .context_tokens = BENCH_CONTEXT, .vocab_tokens = BENCH_VOCAB,
        .program_idle_us = 1000000 * (uint64_t)BENCH_UNIT, .programs = 8, .classes = 4};
}

/* Asserts every invariant. */
static inline void bench_check(const struct bench *bench)
{
    static uint32_t looks;
    if (looks++ % bench_check_apart == 0) {
        sched_check(&bench->sched);
    }
}

/* No host tier; what ends stays cached until the room is needed. */
static inline struct kvmem_settings bench_kv(uint32_t device_blocks)
{
    return (struct kvmem_settings){
        .device_blocks = device_blocks, .block_tokens = BENCH_BLOCK_TOKENS, .calls = BENCH_CALLS,
        .blocks_per_call = BENCH_BLOCKS_PER_CALL, .retain_device_us = UINT64_MAX / 4,
        .retain_host_us = UINT64_MAX / 4, .retain_drop_us = UINT64_MAX / 4};
}

/* NULL, or where it keeps programs for another core. */
static struct arena *bench_kept;

/* A scheduler of one engine over what stands on the bench. */
static inline void bench_init_sched(struct bench *bench, struct sched *sched,
                                    const struct sched_settings *settings, struct arena *arena)
{
    struct sched_engine_wiring engine = {.kv = &bench->kv, .step = bench->step};
    const struct sched_wiring wiring = {.calls = &bench->calls, .exchange = &bench->exchange,
                                        .stats = &bench->stats, .workflows = &bench->workflows,
                                        .engines = &engine, .kept = bench_kept};
    sched_init(sched, settings, &wiring, arena);
}

static inline struct bench *bench_start_kv(const struct sched_settings *settings,
                                           const struct kvmem_settings *kv)
{
    static struct bench bench;
    bench_repeats = settings->speculate > 0;
    struct arena *arena = test_arena();
    assert_true(kv->device_blocks + kv->host_blocks <= BENCH_BLOCKS_MAX);
    memset(&bench, 0, sizeof bench);
    bench.now_us = 1;
    call_table_init(&bench.calls, BENCH_CALLS, BENCH_CONTEXT, arena, arena);
    call_logprobs_init(&bench.calls, BENCH_CONTEXT, BENCH_ENTRIES, arena);
    const struct workflow_limits flows = {
        .workflows = settings->workflow.workflows, .nodes = BENCH_NODES, .pieces = BENCH_PIECES,
        .tokens = BENCH_LITERALS, .rows = BENCH_FLOW_ROWS, .value_tokens = BENCH_VALUES};
    workflow_table_init(&bench.workflows, &flows, arena, arena);
    exchange_init(&bench.exchange,
                  &(struct exchange_counts){.commands = BENCH_COMMANDS, .calls = BENCH_CALLS,
                                            .workflows = settings->workflow.workflows},
                  arena);
    struct kvmem_settings kv_settings = *kv;
    kv_settings.holders = settings->programs;
    kvmem_init(&bench.kv, &kv_settings, arena);
    bench.step.layout = (struct step_layout){
        .rows_max = BENCH_ROWS_MAX, .steps_max = BENCH_STEPS_MAX,
        .tokens_max = BENCH_PREFILL_MAX + BENCH_ROWS_MAX, .blocks_per_call = BENCH_BLOCKS_PER_CALL,
        .moves_max = kvmem_moves_max(kv->device_blocks), .logprobs_max = BENCH_ENTRIES,
        .past_max = 2 * BENCH_RECALL + BENCH_CONTEXT};
    step_layout_init(&bench.step.layout);
    bench.step.base = arena_take(arena, 1, bench.step.layout.total_bytes);
    bench.engine = (struct fake_engine){.step = bench.step, .kv = bench.kv_bytes,
                                        .blocks = BENCH_BLOCKS_MAX,
                                        .device_blocks = kv->device_blocks,
                                        .block_tokens = BENCH_BLOCK_TOKENS,
                                        .vocab_tokens = BENCH_VOCAB,
                                        .steps_per_plan = settings->steps_per_plan,
                                        .repeats = bench_repeats};
    bench_init_sched(&bench, &bench.sched, settings, arena);
    fake_engine_forget(&bench.engine);
    if (bench_kept == NULL) {
        sched_check(&bench.sched);      /* else it is whole once what was kept is taken up */
    }
    return &bench;
}

static inline struct bench *bench_start(const struct sched_settings *settings, uint32_t blocks)
{
    struct kvmem_settings kv = bench_kv(blocks);
    return bench_start_kv(settings, &kv);
}

/* sched's side of the one engine. */
static inline struct sched_engine *bench_engine(const struct bench *bench)
{
    return &bench->sched.engines[0];
}

static inline struct call *bench_at(struct bench *bench, uint32_t call)
{
    return &bench->calls.calls[call];
}

/* What the program of the call has there. */
static inline struct sched_member *bench_member(struct bench *bench, uint32_t call)
{
    return &bench_engine(bench)->members[bench_at(bench, call)->program];
}

/* The first call of a queue, and the one behind a call; CALL_NONE: there is none. */
static inline uint32_t bench_first(const struct bench *bench, uint32_t queue)
{
    return bench_engine(bench)->lanes[0].queues[queue].lists[CALL_LIST_ALL].head;
}

static inline uint32_t bench_next(const struct bench *bench, uint32_t call)
{
    return bench->calls.calls[call].links[CALL_LIST_ALL].next;
}

static inline struct sched_job *bench_job(struct bench *bench, uint32_t call)
{
    return sched_job_of(&bench->sched, bench_at(bench, call));
}

static inline void bench_program_id(uint32_t program, uint8_t *id)
{
    memset(id, 0xa5, CALL_PROGRAM_ID_BYTES);
    memcpy(id, &program, sizeof program);
}

/* A slot in INTAKE as net would leave it; the prompt depends on `seed` alone. */
static inline uint32_t bench_take(struct bench *bench, uint32_t program, uint32_t prompt_tokens,
                                  uint32_t max_tokens, uint32_t seed)
{
    uint32_t index = call_take(&bench->calls, 0);
    assert_int_not_equal(index, CALL_NONE);
    struct call *call = bench_at(bench, index);
    bench_program_id(program, call->program_id);
    call->client_call_id = seed;
    call->connection = 0;
    call->deadline_us = UINT64_MAX;
    call->max_tokens = max_tokens;
    call->prompt_tokens = prompt_tokens;
    call->sampling.repeat_penalty = 1.0f;
    for (uint32_t i = 0; i < prompt_tokens; i++) {
        call->tokens[i] = (seed * 7 + i * 3) % BENCH_VOCAB;
    }
    return index;
}

static inline void bench_send(struct bench *bench, uint32_t call)
{
    exchange_command(&bench->exchange, &(struct command){.kind = COMMAND_CALL, .call = call});
}

static inline void bench_intake(struct bench *bench)
{
    sched_intake(&bench->sched, bench->now_us);
    bench_check(bench);
}

/* Takes, sends and admits. */
static inline uint32_t bench_call(struct bench *bench, uint32_t program, uint32_t prompt_tokens,
                                  uint32_t max_tokens)
{
    uint32_t call = bench_take(bench, program, prompt_tokens, max_tokens, program);
    bench_send(bench, call);
    bench_intake(bench);
    return call;
}

static inline void bench_cancel(struct bench *bench, uint32_t call)
{
    bench_at(bench, call)->cancel = true;
    exchange_command(&bench->exchange,
                     &(struct command){.kind = COMMAND_CANCEL, .call = call,
                                       .call_generation = bench_at(bench, call)->generation});
}

static inline struct answer bench_ask(struct bench *bench, struct command *command,
                                      uint32_t program)
{
    command->connection = 3;
    command->connection_generation = 9;
    bench_program_id(program, command->program_id);
    exchange_command(&bench->exchange, command);
    bench_intake(bench);
    return bench->exchange.outbox[ring_pop(&bench->exchange.outbox_ring)];
}

static inline struct answer bench_program_in(struct bench *bench, enum command_kind kind,
                                             uint64_t domain, uint32_t program)
{
    struct command command = {.kind = kind, .domain = domain};
    return bench_ask(bench, &command, program);
}

/* Starts a program of this class. */
static inline void bench_class(struct bench *bench, uint64_t domain, uint32_t program,
                               const char *name)
{
    struct command command = {.kind = COMMAND_PROGRAM_START, .domain = domain};
    assert_true(strlen(name) <= CALL_CLASS_BYTES);
    memcpy(command.class_name, name, strlen(name));
    assert_status(STATUS_OK, bench_ask(bench, &command, program).status);
}

static inline struct answer bench_program(struct bench *bench, enum command_kind kind,
                                          uint32_t program)
{
    return bench_program_in(bench, kind, 0, program);
}

/* Plans and submits. False: nothing to run. */
static inline bool bench_launch(struct bench *bench)
{
    assert_false(bench->busy);
    bool planned = sched_engine_plan(bench_engine(bench), bench->now_us);
    bench_check(bench);
    if (!planned) {
        return false;
    }
    kvmem_bind(&bench->kv, &bench->step, bench_engine(bench)->planned,
               bench_engine(bench)->planned_count);
    sched_engine_launched(bench_engine(bench), bench->now_us);
    bench_check(bench);
    bench->busy = true;
    return true;
}

/* One round of the step in flight. False: it has had its last one. */
static inline bool bench_round(struct bench *bench)
{
    assert_true(bench->busy);
    if (!bench->has_begun) {
        fake_engine_begin(&bench->engine);
        bench->has_begun = true;
    }
    return fake_engine_round(&bench->engine);
}

/* The rounds that are left. */
static inline void bench_compute(struct bench *bench)
{
    while (bench_round(bench)) {
    }
}

/* The worker tells of a round. */
static inline void bench_progress(struct bench *bench)
{
    sched_engine_progress(bench_engine(bench), bench->now_us);
    bench_check(bench);
}

/* Refuted, the step is in flight until bench_lose(). */
static inline enum sched_verdict bench_hear(struct bench *bench, uint64_t duration_us)
{
    assert_true(bench->busy);
    bench->now_us += duration_us;
    enum sched_verdict verdict = sched_engine_settle(bench_engine(bench), bench->now_us);
    bench->busy = verdict == SCHED_REFUTED;
    bench->has_begun = bench->has_begun && bench->busy;
    assert_int_equal(bench_engine(bench)->step_in_flight, bench->busy);
    bench_check(bench);
    return verdict;
}

static inline void bench_settle(struct bench *bench, uint64_t duration_us)
{
    assert_int_equal(bench_hear(bench, duration_us), SCHED_BELIEVED);
}

/* One whole step of one unit. */
static inline bool bench_step(struct bench *bench)
{
    if (!bench_launch(bench)) {
        return false;
    }
    bench_compute(bench);
    bench_settle(bench, BENCH_UNIT);
    return true;
}

/* The worker dies: all that it had in its memory is gone. */
static inline void bench_lose(struct bench *bench)
{
    fake_engine_forget(&bench->engine);
    bench->busy = bench->has_begun = false;
    sched_engine_lost(bench_engine(bench), bench->now_us);
    bench_check(bench);
}

/* net's part: looks at every call that has news. */
static inline void bench_drain(struct bench *bench)
{
    while (!ring_is_empty(&bench->exchange.emit_ring)) {
        uint32_t index = bench->exchange.emit[ring_pop(&bench->exchange.emit_ring)];
        bench_at(bench, index)->in_emit_ring = false;
    }
}

static inline void bench_free(struct bench *bench, uint32_t call)
{
    bench_drain(bench);
    call_release(&bench->calls, call);
}

/* What an undisturbed engine says after the first `known` tokens of the call: up to `max` tokens,
 * written behind them; returns how many. */
static inline uint32_t bench_oracle(const struct call *call, uint32_t known, uint32_t max,
                                    uint32_t *tokens)
{
    const struct fake_engine oracle = {.vocab_tokens = BENCH_VOCAB,
                                       .repeats = bench_repeats};
    memcpy(tokens, call->tokens, known * sizeof *tokens);
    return fake_engine_oracle(&oracle, tokens, known, max, &call->sampling);
}

/* Are the call's tokens the ones that its prompt asks for, whatever happened on the way? */
static inline bool bench_tokens_are_right(const struct call *call)
{
    uint32_t tokens[BENCH_CONTEXT];
    uint32_t count = bench_oracle(call, call->prompt_tokens, call->generated_tokens, tokens);
    return count == call->generated_tokens &&
           memcmp(tokens, call->tokens, (call->prompt_tokens + count) * sizeof *tokens) == 0;
}
