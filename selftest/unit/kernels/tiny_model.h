/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a small random model for tests, as a file in memory (header struct by hand, tensor bytes
 * generated), and an engine with its step record around it. Odd sizes on purpose.
 */
#include <math.h>
#include <stdio.h>

#include "config/model/tensors.h"
#include "kernels/engine_state.h"

#define TINY_FILE_BYTES (1u << 20)
/* Tokens of a prompt, as an initializer. */
#define TINY_PROMPT {1,  17, 42, 9, 63, 74, 0,  5,  5, 31, \
                     28, 50, 11, 2, 70, 36, 12, 8, 66}

struct tiny {
    struct gguf gguf;
    struct gguf_source source;
    _Alignas(64) uint8_t bytes[TINY_FILE_BYTES];
};

static inline uint32_t tiny_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

/* Uniform in [-1, 1). */
static inline float tiny_uniform(uint64_t *state)
{
    return (float)(tiny_random(state) & 0xffffff) / 8388608.0f - 1.0f;
}

/* Enough for tests: finite numbers only, truncated. */
static inline uint16_t tiny_half(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    int32_t exponent = (int32_t)(bits >> 23 & 255) - 112;
    if (exponent <= 0) {
        return (uint16_t)((bits >> 16 & 0x8000) | (uint32_t)(fabsf(value) * 0x1p24f));
    }
    return (uint16_t)((bits >> 16 & 0x8000) | (uint32_t)exponent << 10 | (bits >> 13 & 1023));
}

/* Random bytes as levels, and halves that make weights of about `scale`. */
static inline void tiny_fill_blocks(uint8_t *to, enum gguf_type type, uint64_t count, float scale,
                                    uint64_t *state)
{
    const struct gguf_block block = gguf_type_block(type);
    const float unit = type == GGUF_Q8_0   ? 1.0f / 127
                       : type == GGUF_Q4_0 ? 1.0f / 8
                       : type == GGUF_Q4_K ? 1.0f / (15 * 63)
                                           : 1.0f / (32 * 127);
    const uint32_t half_at = type == GGUF_Q6_K ? 208 : 0;
    for (uint64_t i = 0; i < count / block.values; i++, to += block.bytes) {
        for (uint32_t j = 0; j < block.bytes; j++) {
            to[j] = (uint8_t)tiny_random(state);
        }
        uint16_t half = tiny_half(scale * unit * (1.0f + 0.5f * tiny_uniform(state)));
        memcpy(to + half_at, &half, 2);
        if (type == GGUF_Q4_K) {        /* minima: weights on both sides of zero */
            half = tiny_half(scale / 2 / 63);
            memcpy(to + 2, &half, 2);
        }
    }
}

struct tiny_range {
    float scale;                    /* the most that a weight differs from `offset` */
    float offset;                   /* of F32 only */
};

static inline void tiny_fill(uint8_t *to, enum gguf_type type, uint64_t count,
                             struct tiny_range range, uint64_t *state)
{
    float scale = range.scale;
    if (type == GGUF_F32) {
        for (uint64_t i = 0; i < count; i++) {
            float value = range.offset + scale * tiny_uniform(state);
            memcpy(to + i * 4, &value, 4);
        }
    } else if (type == GGUF_F16) {
        for (uint64_t i = 0; i < count; i++) {
            uint16_t half = tiny_half(scale * tiny_uniform(state));
            memcpy(to + i * 2, &half, 2);
        }
    } else if (type == GGUF_BF16) {
        for (uint64_t i = 0; i < count; i++) {
            float value = scale * tiny_uniform(state);
            uint32_t bits;
            memcpy(&bits, &value, 4);
            uint16_t high = (uint16_t)(bits >> 16);
            memcpy(to + i * 2, &high, 2);
        }
    } else {
        tiny_fill_blocks(to, type, count, scale, state);
    }
}

static inline float tiny_half_at(const uint8_t *at)
{
    return kernels_half_to_float((uint16_t)(at[0] | at[1] << 8));
}

/* Six bits of Q4_K's twelve bytes, as the format's description says. */
static inline uint32_t tiny_six_bits(const uint8_t *q, uint32_t j, bool minimum)
{
    if (j < 4) {
        return q[j + (minimum ? 4 : 0)] & 63u;
    }
    uint32_t low = minimum ? q[j + 4] >> 4 : q[j + 4] & 15u;
    return low | (uint32_t)(q[j - (minimum ? 0 : 4)] >> 6) << 4;
}

/* Weight i of a quantisation block of the file, decoded independently of the engine's. */
static inline double tiny_block_weight(const uint8_t *block, enum gguf_type type, uint32_t i)
{
    double d = tiny_half_at(block);
    if (type == GGUF_Q8_0) {
        return d * (int8_t)block[2 + i];
    }
    if (type == GGUF_Q4_0) {
        return d * ((i < 16 ? block[2 + i] & 15 : block[2 + i - 16] >> 4) - 8);
    }
    if (type == GGUF_Q4_K) {
        uint8_t byte = block[16 + i / 64 * 32 + i % 32];
        uint32_t level = i % 64 < 32 ? byte & 15u : byte >> 4;
        return d * tiny_six_bits(block + 4, i / 32, false) * level -
               (double)tiny_half_at(block + 2) * tiny_six_bits(block + 4, i / 32, true);
    }
    uint32_t n = i / 128, l = i % 32, quarter = i % 128 / 32;
    uint8_t low = block[64 * n + l + (quarter & 1 ? 32 : 0)];
    uint8_t high = block[128 + 32 * n + l];
    int32_t level = (quarter < 2 ? low & 15 : low >> 4) | (high >> 2 * quarter & 3) << 4;
    return (double)tiny_half_at(block + 208) * (int8_t)block[192 + i / 16] * (level - 32);
}

/* Weight i of a tensor's bytes. */
static inline double tiny_weight(const uint8_t *bytes, enum gguf_type type, uint64_t i)
{
    const struct gguf_block block = gguf_type_block(type);
    const uint8_t *at = bytes + i / block.values * block.bytes;
    uint32_t bits = 0;
    float value;
    switch (type) {
    case GGUF_F32:
        memcpy(&value, at, 4);
        return value;
    case GGUF_F16:
        return tiny_half_at(at);
    case GGUF_BF16:
        bits = (uint32_t)at[0] << 16 | (uint32_t)at[1] << 24;
        memcpy(&value, &bits, 4);
        return value;
    case GGUF_Q8_0: case GGUF_Q4_0: case GGUF_Q4_K: case GGUF_Q6_K:
        break;
    }
    return tiny_block_weight(at, type, (uint32_t)(i % block.values));
}

static const enum gguf_type tiny_types[] = {
#define GGUF_TYPE(name, number, values, bytes) GGUF_##name,
    GGUF_TYPES
#undef GGUF_TYPE
};
#define TINY_TYPES (sizeof tiny_types / sizeof tiny_types[0])

static inline struct gguf_tensor *tiny_tensor(struct tiny *tiny, const struct model_tensor *what,
                                              enum gguf_type type, uint64_t *state)
{
    uint64_t columns = what->columns, rows = what->outputs;
    struct gguf_tensor *tensor = &tiny->gguf.tensors[tiny->gguf.tensors_count++];
    snprintf(tensor->name, sizeof tensor->name, "%s", what->name);
    tensor->type = type;
    tensor->dims_count = rows == 0 ? 1 : 2;
    tensor->dims[0] = columns;
    tensor->dims[1] = rows == 0 ? 1 : rows;
    tensor->dims[2] = tensor->dims[3] = 1;
    tensor->offset = tiny->source.size_bytes;
    uint64_t count = columns * tensor->dims[1];
    tensor->bytes = count / columns * gguf_row_bytes(type, columns);
    if (tensor->offset + tensor->bytes > TINY_FILE_BYTES) {
        abort();
    }
    struct tiny_range range = {.scale = 1.5f / sqrtf((float)columns)};
    if (rows == 0) {
        range = (struct tiny_range){.scale = 0.2f, .offset = 1.0f};
    }
    tiny_fill(tiny->bytes + tensor->offset, type, count, range, state);
    tiny->source.size_bytes += (tensor->bytes + 31) / 32 * 32;
    return tensor;
}

/* Odd sizes where the type allows: no width is a multiple of sixteen. */
static inline struct model_shape tiny_shape(enum gguf_type type, bool tied)
{
    uint32_t columns = gguf_type_block(type).values;
    if (columns == 256) {
        return (struct model_shape){
            .family = &model_families[0],
            .layers = 2, .dim = 256, .heads = 4, .kv_heads = 2, .head_dim = 64, .ffn_dim = 256,
            .vocab_tokens = 75, .context_tokens = 256, .rope_dim = 16, .rope_base = 10000.0f,
            .rope_scale = 1, .norm_epsilon = 1e-5f, .tied_output = tied,
        };
    }
    if (columns == 32) {
        return (struct model_shape){
            .family = &model_families[0],
            .layers = 2, .dim = 64, .heads = 4, .kv_heads = 2, .head_dim = 16, .ffn_dim = 96,
            .vocab_tokens = 75, .context_tokens = 256, .rope_dim = 16, .rope_base = 10000.0f,
            .rope_scale = 1, .norm_epsilon = 1e-5f, .tied_output = tied,
        };
    }
    return (struct model_shape){
        .family = &model_families[0],
        .layers = 2, .dim = 42, .heads = 6, .kv_heads = 2, .head_dim = 12, .ffn_dim = 53,
        .vocab_tokens = 75, .context_tokens = 256, .rope_dim = 8, .rope_base = 10000.0f,
        .rope_scale = 1, .norm_epsilon = 1e-5f, .tied_output = tied, .has_rope_factors = !tied,
    };
}

/* A model of any shape; its matrices cycle through these types. Random numbers come from `seed`. */
static inline void tiny_make_types(struct tiny *tiny, const struct model_shape *shape,
                                   const enum gguf_type *types, uint32_t types_count,
                                   uint64_t seed)
{
    uint64_t state = seed;
    uint32_t matrices = 0;
    memset(tiny, 0, sizeof *tiny);
    tiny->gguf.shape = *shape;
    tiny->gguf.has_model = true;
    for (uint32_t i = 0; i < model_tensors_count(shape); i++) {
        struct model_tensor tensor;
        if (model_tensor_find(&tensor, &tiny->gguf, i)) {
            bool is_matrix = tensor.outputs > 0;
            enum gguf_type type = is_matrix ? types[matrices++ % types_count] : GGUF_F32;
            tiny_tensor(tiny, &tensor, type, &state);
        }
    }
    uint64_t size = tiny->source.size_bytes;
    gguf_source_memory(&tiny->source, tiny->bytes, size, "tiny");
}

static inline void tiny_make_shape(struct tiny *tiny, const struct model_shape *shape,
                                   enum gguf_type type, uint64_t seed)
{
    tiny_make_types(tiny, shape, &type, 1, seed);
}

static inline void tiny_make(struct tiny *tiny, enum gguf_type type, bool tied, uint64_t seed)
{
    struct model_shape shape = tiny_shape(type, tied);
    tiny_make_shape(tiny, &shape, type, seed);
}

static inline struct kernels_weights *tiny_weights(const struct tiny *tiny, struct arena *arena)
{
    static struct kernels_loading loading;
    struct config_error error;
    struct memory_plan plan = {0};
    kernels_weights_plan_memory(&plan, &tiny->gguf, false);
    uint64_t before = arena->used_bytes;
    kernels_loading_begin(&loading, &tiny->gguf, &tiny->source, false, arena);
    if (kernels_loading_finish(&loading, NULL, &error) != STATUS_OK) {
        print_error("%s\n", error.text);
        fail();
    }
    assert_int_equal(arena->used_bytes - before, memory_plan_bytes(&plan, MEMORY_WEIGHTS));
    return loading.weights;
}

/* An engine and one step record. */
struct rig {
    struct kernels *kernels;
    struct kernels_settings settings;
    struct step step;
    uint64_t heartbeat;
};

static inline struct kernels_settings rig_settings(enum kernels_simd simd, uint32_t threads)
{
    return (struct kernels_settings){
        .simd = simd, .threads = threads, .batch_calls = 8, .steps_per_plan = 8, .step_tokens = 80,
        .context_tokens = 128, .kv_block_tokens = 8, .kv_blocks = 128, .blocks_per_call = 16,
        .standby_calls = 6, .past_tokens = 160, .kv_host_blocks = 40,
    };
}

static inline void rig_start(struct rig *rig, const struct kernels_settings *settings,
                             const struct kernels_weights *weights, struct arena *arena)
{
    struct memory_plan plan = {0};
    memset(rig, 0, sizeof *rig);
    rig->settings = *settings;
    kernels_plan_memory(&plan, settings, &weights->shape);
    uint64_t before = arena->used_bytes;
    assert_status(STATUS_OK,
                  kernels_init(&rig->kernels, settings, weights, arena, &rig->heartbeat));
    rig->kernels->phase_work_min = 0;       /* else one thread alone would run so small a model */
    assert_int_equal(arena->used_bytes - before, memory_plan_bytes(&plan, MEMORY_ENGINE));
    rig->step.layout = (struct step_layout){
        .rows_max = settings->batch_calls + settings->standby_calls,
        .steps_max = settings->steps_per_plan, .tokens_max = settings->step_tokens,
        .blocks_per_call = settings->blocks_per_call, .moves_max = 2 * settings->kv_blocks,
        .past_max = settings->past_tokens, .logprobs_max = 3};
    step_layout_init(&rig->step.layout);
    rig->step.base = arena_take(arena, 1, rig->step.layout.total_bytes);
}

static inline void rig_clear(struct rig *rig)
{
    memset(rig->step.base, 0, rig->step.layout.total_bytes);
}

/* Adds a greedy row that runs from the start; rig_blocks() sets its KV blocks. */
static inline struct step_row *rig_row(struct rig *rig, const uint32_t *tokens, uint32_t count,
                                       uint32_t position, uint32_t decode_steps)
{
    struct step_header *header = step_header(&rig->step);
    struct step_row *row = step_row(&rig->step, header->rows_count++);
    header->rows_active++;
    *row = (struct step_row){
        .first_position = position,
        .tokens_count = count,
        .tokens_first = header->tokens_count,
        .decode_steps = decode_steps,
        .blocks_count = rig->settings.blocks_per_call,
        .wants_digest = true,
        .sampling = {.top_p = 1, .repeat_penalty = 1},
    };
    memcpy(step_tokens(&rig->step) + header->tokens_count, tokens, count * sizeof *tokens);
    header->tokens_count += count;
    return row;
}

static inline void rig_blocks(struct rig *rig, uint32_t row, uint32_t first, uint32_t stride)
{
    for (uint32_t i = 0; i < rig->settings.blocks_per_call; i++) {
        step_blocks(&rig->step, row)[i] = (first + i * stride) % rig->settings.kv_blocks;
    }
}
