/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: an engine with its model and one step record, for benchmarks that run it without sockets
 * and scheduler. The caller fills steps: engine_step_begin(), a row for each call, engine_run().
 */
#include <string.h>

#include "tools/bench/model.h"

struct engine {
    struct bench_model model;
    struct kernels *kernels;
    struct kernels_settings settings;
    struct step step;
    uint32_t block_stride;      /* 0: 1 */
    uint64_t heartbeat;
    struct arena arena;
};

/* The work of a row. Its KV blocks are those from blocks_first on, each times block_stride; the
 * first blocks_shared of them are those from 0 on, as are those of other rows. */
struct engine_row {
    uint32_t tokens_count, first_position, decode_steps;
    uint32_t blocks_first, blocks_shared;
    struct call_sampling sampling;
};

/* `moves` is the most KV blocks that a step may move. */
static inline void engine_start(struct engine *engine, const struct kernels_settings *settings,
                                uint32_t moves)
{
    struct memory_plan plan = {0};
    engine->settings = *settings;
    kernels_plan_memory(&plan, settings, &engine->model.gguf.shape);
    arena_reserve(&engine->arena, &plan, MEMORY_ENGINE);
    if (kernels_init(&engine->kernels, settings, engine->model.weights, &engine->arena,
                     &engine->heartbeat) != STATUS_OK) {
        fail("the engine does not start");
    }
    engine->step.layout = (struct step_layout){
        .rows_max = settings->batch_calls, .steps_max = settings->steps_per_plan,
        .tokens_max = settings->step_tokens, .blocks_per_call = settings->blocks_per_call,
        .moves_max = moves};
    step_layout_init(&engine->step.layout);
    engine->step.base = aligned_alloc(64, engine->step.layout.total_bytes);
    if (engine->step.base == NULL) {
        fail("no memory");
    }
}

static inline void engine_step_begin(struct engine *engine)
{
    memset(engine->step.base, 0, engine->step.layout.total_bytes);
}

static inline uint32_t engine_block(const struct engine *engine, uint32_t number)
{
    return engine->block_stride > 1
               ? (uint32_t)((uint64_t)number * engine->block_stride % engine->settings.kv_blocks)
               : number;
}

/* Returns where the row's tokens go. */
static inline uint32_t *engine_row_add(struct engine *engine, const struct engine_row *asked)
{
    struct step_header *header = step_header(&engine->step);
    uint32_t index = header->rows_count++, block_tokens = engine->settings.kv_block_tokens;
    uint32_t end = asked->first_position + asked->tokens_count + asked->decode_steps;
    header->rows_active++;
    *step_row(&engine->step, index) = (struct step_row){
        .first_position = asked->first_position,
        .tokens_count = asked->tokens_count,
        .tokens_first = header->tokens_count,
        .decode_steps = asked->decode_steps,
        .blocks_count = (end + block_tokens - 1) / block_tokens,
        .sampling = asked->sampling,
    };
    for (uint32_t i = 0; i < step_row(&engine->step, index)->blocks_count; i++) {
        uint32_t first = i < asked->blocks_shared ? 0 : asked->blocks_first;
        step_blocks(&engine->step, index)[i] = engine_block(engine, first + i);
    }
    header->tokens_count += asked->tokens_count;
    return step_tokens(&engine->step) + header->tokens_count - asked->tokens_count;
}

static inline void engine_run(struct engine *engine)
{
    kernels_run(engine->kernels, &engine->step);
}
