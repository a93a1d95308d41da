/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: two small tiers, a step record to bind, and the life of a call in one line each: ask and
 * commit, a step, settle. Every operation is followed by kvmem_check().
 */
#include "selftest/unit/test.h"

#include "kvmem/block.h"

enum {
    DEVICE = 10, HOST = 4, BLOCK_TOKENS = 4, CALLS = 5, BLOCKS_PER_CALL = 6, TOKENS_MAX = 128,
    SECOND = 1000000,
    HOLDERS = 4, HOLDER_IDLE = 0, HOLDER_WANTED = 1,
};

struct rig {
    struct kvmem kv;
    struct step step;
};

static inline struct kvmem_settings rig_settings(uint32_t device, uint32_t host)
{
    return (struct kvmem_settings){
        .device_blocks = device, .host_blocks = host, .block_tokens = BLOCK_TOKENS,
        .calls = CALLS, .blocks_per_call = BLOCKS_PER_CALL, .holders = HOLDERS,
        .retain_device_us = 10 * SECOND, .retain_host_us = 100 * SECOND,
        .retain_drop_us = 1000 * (uint64_t)SECOND};
}

static inline struct rig *rig_start(const struct kvmem_settings *settings)
{
    static struct rig rig;
    struct arena *arena = test_arena();
    kvmem_init(&rig.kv, settings, arena);
    kvmem_need(&rig.kv, HOLDER_WANTED, KVMEM_WANTED);
    rig.step.layout = (struct step_layout){
        .rows_max = CALLS, .steps_max = 4, .tokens_max = 64,
        .blocks_per_call = settings->blocks_per_call,
        .moves_max = kvmem_moves_max(settings->device_blocks)};
    step_layout_init(&rig.step.layout);
    rig.step.base = arena_take(arena, 1, rig.step.layout.total_bytes);
    kvmem_check(&rig.kv);
    return &rig;
}

static inline struct rig *rig_fresh(uint32_t device, uint32_t host)
{
    struct kvmem_settings settings = rig_settings(device, host);
    return rig_start(&settings);
}

/* `count` tokens that start at `first`: two runs are equal where their firsts are. */
static inline const uint32_t *rig_tokens(uint32_t first)
{
    static uint32_t tokens[4][TOKENS_MAX];
    static uint32_t turn;
    uint32_t *run = tokens[turn++ % 4];
    for (uint32_t i = 0; i < TOKENS_MAX; i++) {
        run[i] = first + i;
    }
    return run;
}

static inline void rig_bind(struct rig *rig)
{
    kvmem_bind(&rig->kv, &rig->step, NULL, 0);
    kvmem_check(&rig->kv);
}

/* A step without rows; returns how many moves it made. */
static inline uint32_t rig_step(struct rig *rig)
{
    rig_bind(rig);
    kvmem_moved(&rig->kv);
    kvmem_check(&rig->kv);
    return step_header(&rig->step)->moves_count;
}

static inline struct kvmem_answer rig_ask_under(struct rig *rig, uint32_t call, uint64_t salt,
                                                const uint32_t *tokens, uint32_t count)
{
    const struct kvmem_question question = {
        .call = call, .salt = salt, .tokens = tokens, .count = count};
    return kvmem_ask(&rig->kv, &question);
}

static inline struct kvmem_answer rig_ask(struct rig *rig, uint32_t call, const uint32_t *tokens,
                                          uint32_t count)
{
    return rig_ask_under(rig, call, 0, tokens, count);
}

/* Number of positions that a call of `count` such tokens would find. Looking is no use of them. */
static inline uint32_t rig_found(struct rig *rig, uint32_t first, uint32_t count)
{
    return rig_ask(rig, CALLS - 2, rig_tokens(first), count).positions;
}

static inline void rig_commit(struct rig *rig, const struct kvmem_answer *answer,
                              uint32_t positions)
{
    assert_true(kvmem_fits(&rig->kv, answer, positions));
    kvmem_commit(&rig->kv, answer, positions);
    kvmem_check(&rig->kv);
}

/* The call takes what is there for it; returns how many positions that is. */
static inline uint32_t rig_take_under(struct rig *rig, uint32_t call, uint64_t salt,
                                      const uint32_t *tokens, uint32_t count)
{
    const struct kvmem_answer answer = rig_ask_under(rig, call, salt, tokens, count);
    rig_commit(rig, &answer, answer.positions);
    return answer.positions;
}

static inline uint32_t rig_take(struct rig *rig, uint32_t call, const uint32_t *tokens,
                                uint32_t count)
{
    return rig_take_under(rig, call, 0, tokens, count);
}

/* Room for `positions`, for a call that has blocks, or finds nothing. */
static inline void rig_grow(struct rig *rig, uint32_t call, uint32_t positions)
{
    const uint32_t token = 0;
    struct kvmem_answer answer = rig_ask(rig, call, &token, 1);
    rig_commit(rig, &answer, positions);
    answer = rig_ask(rig, call, &token, 1);
    assert_int_equal(kvmem_missing(&rig->kv, &answer, positions), 0);
}

/* A call without blocks, and with tokens of its own, gets room for `positions`. */
static inline void rig_fill(struct rig *rig, uint32_t call, uint32_t first, uint32_t positions)
{
    assert_int_equal(rig_take(rig, call, rig_tokens(first), positions), 0);
    rig_grow(rig, call, positions);
}

static inline void rig_settle(struct rig *rig, uint32_t call, const uint32_t *tokens,
                              uint32_t positions)
{
    kvmem_settle(&rig->kv, call, tokens, positions);
    kvmem_check(&rig->kv);
}

/* Used by a party that may be back, and by one for which a call waits. */
static inline struct kvmem_use retained(uint64_t now_us)
{
    return (struct kvmem_use){HOLDER_IDLE, false, now_us};
}

static inline struct kvmem_use saved(uint64_t now_us)
{
    return (struct kvmem_use){HOLDER_WANTED, true, now_us};
}

static inline void rig_keep(struct rig *rig, uint32_t call, const uint32_t *tokens,
                            uint32_t positions, struct kvmem_use use)
{
    kvmem_keep(&rig->kv, call, tokens, positions, use);
    kvmem_check(&rig->kv);
    assert_int_equal(kvmem_call_blocks(&rig->kv, call), 0);
}

static inline void rig_drop(struct rig *rig, uint32_t call)
{
    kvmem_drop(&rig->kv, call);
    kvmem_check(&rig->kv);
    assert_int_equal(kvmem_call_blocks(&rig->kv, call), 0);
}

/* The call takes what is there and computes the rest; returns how many positions were there. */
static inline uint32_t rig_run(struct rig *rig, uint32_t call, const uint32_t *tokens,
                               uint32_t count)
{
    const struct kvmem_answer answer = rig_ask(rig, call, tokens, count);
    rig_commit(rig, &answer, count);
    rig_step(rig);
    rig_settle(rig, call, tokens, count);
    return answer.positions;
}

/* A call ran, and has left its contents. */
static inline void rig_leave(struct rig *rig, uint32_t first, uint32_t count,
                             struct kvmem_use use)
{
    const uint32_t *tokens = rig_tokens(first);
    rig_run(rig, CALLS - 1, tokens, count);
    rig_keep(rig, CALLS - 1, tokens, count, use);
}

static inline uint32_t rig_block(const struct rig *rig, uint32_t call, uint32_t index)
{
    return kvmem_table_of(&rig->kv, call)[index];
}
