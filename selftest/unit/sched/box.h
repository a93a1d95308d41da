/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a scheduler of several engines on a bench (bench.h, which has the rest of the box). Each
 * engine has a KV pool, a step record and a fake engine of its own.
 */
#include "selftest/unit/sched/bench.h"

enum { BOX_ENGINES_MAX = 4 };

struct box {
    struct bench *bench;            /* whose own KV and engine are not used */
    struct box_seat {
        struct kvmem kv;
        struct step step;
        struct fake_engine engine;
        uint64_t kv_bytes[BENCH_BLOCKS_MAX * BENCH_BLOCK_TOKENS];
        bool busy;
    } seats[BOX_ENGINES_MAX];
    uint32_t engines;
};

/* Beside the bench's own. */
static inline struct arena *box_arena(bool fresh)
{
    static _Alignas(ARENA_ALIGN_BYTES) uint8_t memory[8u << 20];
    static struct arena arena;
    if (fresh) {
        arena_init(&arena, memory, sizeof memory);
    }
    return &arena;
}

static inline void box_init_seat(struct box *box, uint32_t index,
                                 const struct sched_settings *settings, uint32_t blocks)
{
    struct box_seat *seat = &box->seats[index];
    struct kvmem_settings kv = bench_kv(blocks);
    kv.holders = settings->programs;
    kvmem_init(&seat->kv, &kv, box_arena(false));
    seat->step.layout = box->bench->step.layout;
    seat->step.base = arena_take(box_arena(false), 1, seat->step.layout.total_bytes);
    seat->engine = (struct fake_engine){
        .step = seat->step, .kv = seat->kv_bytes, .blocks = BENCH_BLOCKS_MAX,
        .device_blocks = blocks, .block_tokens = BENCH_BLOCK_TOKENS, .vocab_tokens = BENCH_VOCAB,
        .steps_per_plan = settings->steps_per_plan};
    fake_engine_forget(&seat->engine);
}

/* All engines serve. */
static inline struct box *box_start(const struct sched_settings *settings, uint32_t blocks)
{
    static struct box box;
    struct sched_settings one = *settings;
    memset(&box, 0, sizeof box);
    one.engines = 1;
    box.bench = bench_start(&one, blocks);
    box.engines = settings->engines;
    box_arena(true);
    assert_true(box.engines <= BOX_ENGINES_MAX);
    struct sched_engine_wiring engines[BOX_ENGINES_MAX];
    for (uint32_t i = 0; i < box.engines; i++) {
        box_init_seat(&box, i, settings, blocks);
        engines[i] = (struct sched_engine_wiring){.kv = &box.seats[i].kv,
                                                  .step = box.seats[i].step};
    }
    const struct sched_wiring wiring = {
        .calls = &box.bench->calls, .exchange = &box.bench->exchange, .stats = &box.bench->stats,
        .workflows = &box.bench->workflows, .engines = engines};
    sched_init(&box.bench->sched, settings, &wiring, box_arena(false));
    for (uint32_t i = 0; i < box.engines; i++) {
        sched_engine_serves(&box.bench->sched.engines[i], true, box.bench->now_us);
    }
    sched_check(&box.bench->sched);
    return &box;
}

static inline struct sched_engine *box_engine(struct box *box, uint32_t index)
{
    assert_true(index < box->engines);
    return &box->bench->sched.engines[index];
}

/* False: it has nothing to run. */
static inline bool box_launch(struct box *box, uint32_t index)
{
    struct sched_engine *engine = box_engine(box, index);
    struct box_seat *seat = &box->seats[index];
    assert_false(seat->busy);
    seat->busy = sched_engine_plan(engine, box->bench->now_us);
    sched_check(&box->bench->sched);
    if (seat->busy) {
        kvmem_bind(&seat->kv, &seat->step, engine->planned, engine->planned_count);
        sched_engine_launched(engine, box->bench->now_us);
        sched_check(&box->bench->sched);
    }
    return seat->busy;
}

static inline void box_settle(struct box *box, uint32_t index)
{
    struct box_seat *seat = &box->seats[index];
    assert_true(seat->busy);
    fake_engine_begin(&seat->engine);
    while (fake_engine_round(&seat->engine)) {
    }
    seat->busy = false;
    assert_int_equal(sched_engine_settle(box_engine(box, index), box->bench->now_us),
                     SCHED_BELIEVED);
    sched_check(&box->bench->sched);
}

/* A step of each engine that has something to run, all at once. False: none has. */
static inline bool box_step(struct box *box)
{
    bool any = false;
    for (uint32_t i = 0; i < box->engines; i++) {
        any = (box->seats[i].busy || box_launch(box, i)) || any;
    }
    box->bench->now_us += BENCH_UNIT;
    for (uint32_t i = 0; i < box->engines; i++) {
        if (box->seats[i].busy) {
            box_settle(box, i);
        }
    }
    return any;
}

static inline void box_serve(struct box *box, uint32_t index, bool serves)
{
    sched_engine_serves(box_engine(box, index), serves, box->bench->now_us);
    sched_check(&box->bench->sched);
}

/* The worker dies. */
static inline void box_lose(struct box *box, uint32_t index)
{
    fake_engine_forget(&box->seats[index].engine);
    box->seats[index].busy = false;
    sched_engine_lost(box_engine(box, index), box->bench->now_us);
    box_serve(box, index, false);
}

static inline struct sched_settings box_settings(enum sched_balance balance, uint32_t engines)
{
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    settings.engines = engines;
    settings.balance = balance;
    settings.balance_tokens = 16;
    settings.service = SCHED_SERVICE_LIVE;
    settings.sharing = SCHED_SHARING_PROGRAM;
    return settings;
}

static inline struct box *box_start_by(enum sched_balance balance, uint32_t engines)
{
    const struct sched_settings settings = box_settings(balance, engines);
    return box_start(&settings, 64);
}

static inline uint32_t box_engine_of(struct box *box, uint32_t call)
{
    return bench_at(box->bench, call)->engine;
}

static inline const struct program *box_program_of(struct box *box, uint32_t call)
{
    return &box->bench->sched.programs[bench_at(box->bench, call)->program];
}

static inline void box_run_all(struct box *box)
{
    while (box_step(box)) {
    }
    assert_true(sched_is_idle(&box->bench->sched));
}
