/* SPDX-License-Identifier: MIT
 *
 * What: the CPU engine's memory and its start. One list (memory_needs) says what is taken, for the
 * plan and for the arena. kernels/round/round.c runs steps.
 */
#include "kernels/engine_state.h"

#include <math.h>

#include "config/base/bounds.h"
#include "kernels/rope.h"

/* Everything that the engine takes: walked once to plan and once to take. */
struct need {
    const char *owner;
    uint64_t count, size_bytes;
    void **memory;
};
#define NEEDS_MAX 23
struct needs {
    struct need list[NEEDS_MAX];
    uint32_t count;
};

static void need_add(struct needs *needs, struct need need)
{
    ASSERT(needs->count < NEEDS_MAX);
    needs->list[needs->count++] = need;
}

static void need_add_buffer(struct needs *needs, const char *owner, struct kernels_buffer *buffer,
                            uint64_t rows, uint32_t width)
{
    buffer->stride = kernels_stride_floats(width);
    need_add(needs, (struct need){owner, rows, buffer->stride * 4, (void **)&buffer->at});
}

static void need_add_rounded(struct needs *needs, struct kernels *k)
{
    uint64_t rows = k->tile_rows;
    rows = rows > k->settings.batch_calls ? rows : k->settings.batch_calls;
    uint64_t stride = kernels_rounded_stride(kernels_columns_max(&k->shape));
    k->rounded.stride = stride;
    need_add(needs, (struct need){"kernels levels", rows, stride, (void **)&k->rounded.levels});
    need_add(needs, (struct need){"kernels level blocks", rows, kernels_quant_blocks_bytes(stride),
                                  (void **)&k->rounded.blocks});
    need_add(needs, (struct need){"kernels bfloats", rows, stride * sizeof(float),
                                  (void **)&k->rounded.bfloats});
}

static void need_add_buffers(struct needs *needs, struct kernels *k)
{
    const struct model_shape *s = &k->shape;
    uint32_t q_width = s->heads * s->head_dim;
    uint32_t kv_width = s->kv_heads * s->head_dim;
    uint64_t rows = k->tile_rows, calls = k->settings.batch_calls;
    need_add_buffer(needs, "kernels residual", &k->x, rows, s->dim);
    need_add_buffer(needs, "kernels normed", &k->normed, rows, s->dim);
    need_add_buffer(needs, "kernels queries", &k->q, rows, q_width);
    need_add_buffer(needs, "kernels keys", &k->k, rows, kv_width);
    need_add_buffer(needs, "kernels values", &k->v, rows, kv_width);
    need_add_buffer(needs, "kernels attended", &k->attended, rows, q_width);
    need_add_buffer(needs, "kernels gate", &k->gate, rows, s->ffn_dim);
    need_add_buffer(needs, "kernels up", &k->up, rows, s->ffn_dim);
    need_add_buffer(needs, "kernels gathered", &k->gathered, calls, s->dim);
    need_add_buffer(needs, "kernels logits", &k->logits, calls, s->vocab_tokens);
    need_add_rounded(needs, k);
}

/* Bytes of one thread's scratch, laid out in this order. Places it unless `scratch` is NULL. */
static uint64_t scratch_place(struct kernels_scratch *scratch, const struct kernels *k, uint8_t *at)
{
    const struct model_shape *s = &k->shape;
    uint64_t queries = (uint64_t)kernels_bundle_rows(s) * kernels_group(s);
    uint64_t stride = k->rounded.stride;
    const uint64_t floats[] = {
        KERNELS_NORM_ROWS * k->normed.stride,
        k->scores_floats,
        queries * kernels_head_lanes(s->head_dim),
        queries,
        kernels_stride_floats(s->vocab_tokens),         /* weights */
        s->vocab_tokens,                                /* ranking */
        KERNELS_NORM_ROWS * stride / 4,                 /* levels */
        KERNELS_NORM_ROWS * kernels_quant_blocks_bytes(stride) / 4,
        KERNELS_NORM_ROWS * stride,                     /* bfloats */
        KERNELS_CHUNK_PANELS * KERNELS_CHUNK_MOST * KERNELS_PANEL_LANES,    /* widened */
    };
    float *parts[sizeof floats / sizeof *floats];
    uint64_t end = 0;
    for (uint32_t i = 0; i < sizeof floats / sizeof *floats; i++) {
        parts[i] = (float *)(void *)(at + end);
        end += (floats[i] * 4 + ARENA_ALIGN_BYTES - 1) / ARENA_ALIGN_BYTES * ARENA_ALIGN_BYTES;
    }
    if (scratch != NULL) {
        *scratch = (struct kernels_scratch){
            .normed = parts[0],
            .scores = parts[1],
            .heads = parts[2],
            .sums = parts[3],
            .sampler = {k->ops, s->vocab_tokens, parts[4], (uint32_t *)(void *)parts[5]},
            .rounded = {(int8_t *)parts[6], (struct kernels_quant_block *)(void *)parts[7],
                        parts[8], stride},
            .tuning = kernels_tuning_find(parts[9]),
        };
    }
    return end;
}

static void kv_sizes(struct kernels *k)
{
    const struct model_shape *s = &k->shape;
    k->keys_bytes = kernels_kv_keys_bytes(k->settings.kv_type, s->head_dim,
                                          k->settings.kv_block_tokens);
    k->values_bytes = kernels_kv_values_bytes(k->settings.kv_type, s->head_dim,
                                              k->settings.kv_block_tokens);
    k->kv_block_bytes = (k->keys_bytes + k->values_bytes) * s->layers * s->kv_heads;
}

/* Room for the longest row in any case, and for the longest bundle up to KERNELS_SCORES_FLOATS. */
static uint64_t scores_floats(const struct kernels *k)
{
    uint64_t row = kernels_group(&k->shape) * kernels_scores_stride(k->settings.context_tokens);
    uint64_t bundle = kernels_bundle_rows(&k->shape) * row;
    uint64_t most = row > KERNELS_SCORES_FLOATS ? row : KERNELS_SCORES_FLOATS;
    return bundle < most ? bundle : most;
}

static struct needs memory_needs(struct kernels *k, uint8_t **scratch)
{
    const struct kernels_settings *t = &k->settings;
    struct needs needs = {.count = 0};
    kv_sizes(k);
    k->scores_floats = scores_floats(k);
    k->tile_rows = lesser(t->step_tokens, KERNELS_TILE_ROWS);
    need_add(&needs, (struct need){"kernels kv blocks", t->kv_blocks, k->kv_block_bytes,
                                   (void **)&k->kv});
    need_add(&needs, (struct need){"kernels host kv blocks", t->kv_host_blocks, k->kv_block_bytes,
                                   (void **)&k->kv_host});
    need_add(&needs, (struct need){"kernels rope table", t->context_tokens,
                                   (uint64_t)k->shape.rope_dim * 4, (void **)&k->rope});
    need_add(&needs, (struct need){"kernels feeds", t->step_tokens, sizeof *k->slots,
                                   (void **)&k->slots});
    need_add(&needs, (struct need){"kernels places", t->batch_calls, sizeof *k->places,
                                   (void **)&k->places});
    need_add(&needs, (struct need){"kernels attend order", k->tile_rows, sizeof *k->attend_order,
                                   (void **)&k->attend_order});
    need_add(&needs, (struct need){"kernels bundles", k->tile_rows, sizeof *k->bundles,
                                   (void **)&k->bundles});
    need_add_buffers(&needs, k);
    need_add(&needs, (struct need){"kernels scratches", t->threads, sizeof *k->scratch,
                                   (void **)&k->scratch});
    need_add(&needs, (struct need){"kernels scratch", t->threads, scratch_place(NULL, k, NULL),
                                   (void **)scratch});
    return needs;
}

void kernels_plan_memory(struct memory_plan *plan, const struct kernels_settings *settings,
                         const struct model_shape *shape)
{
    struct kernels kernels = {.settings = *settings, .shape = *shape};
    uint8_t *scratch;
    memory_plan_add(plan, MEMORY_ENGINE, "kernels engine", 1, sizeof kernels);
    struct needs needs = memory_needs(&kernels, &scratch);
    for (uint32_t i = 0; i < needs.count; i++) {
        const struct need *need = &needs.list[i];
        memory_plan_add(plan, MEMORY_ENGINE, need->owner, need->count, need->size_bytes);
    }
    kernels_threads_plan_memory(plan, settings->threads);
}

/* As many panels as whole heads fill. */
static uint32_t head_panels(const struct model_shape *shape)
{
    uint32_t heads = 1;
    while (heads * shape->head_dim % KERNELS_PANEL_LANES != 0) {
        heads *= 2;
    }
    return heads * shape->head_dim / KERNELS_PANEL_LANES;
}

/* What a thread must have together: whole heads to normalize or to quantise them, or to rotate
 * pairs that lie apart. Adjacent pairs are whole in any panel. */
static void panels_together(struct kernels *k)
{
    bool levels = k->settings.kv_type == KERNELS_KV_Q8;
    bool adjacent = k->shape.family->rope_pairs == ROPE_ADJACENT && !k->shape.family->qk_norm;
    k->rotate_panels = adjacent && !levels ? 1 : head_panels(&k->shape);
    k->value_panels = levels ? head_panels(&k->shape) : 1;
}

enum status kernels_init(struct kernels **kernels, const struct kernels_settings *settings,
                         const struct kernels_weights *weights, struct arena *arena,
                         volatile uint64_t *heartbeat)
{
    ASSERT(settings->kv_block_tokens % KERNELS_OCTET == 0);
    ASSERT(settings->step_tokens >= settings->batch_calls);
    struct kernels *k = arena_take(arena, 1, sizeof *k);
    k->settings = *settings;
    k->shape = weights->shape;
    k->weights = weights;
    k->ops = kernels_ops(settings->simd);
    k->heartbeat = heartbeat;
    k->phase_work_min = KERNELS_PHASE_WORK_MIN;
    k->cached_bytes_max = KERNELS_CACHED_BYTES_MAX;
    k->attention_scale = 1.0f / sqrtf((float)weights->shape.head_dim);
    panels_together(k);
    uint8_t *scratch = NULL;
    struct needs needs = memory_needs(k, &scratch);
    for (uint32_t i = 0; i < needs.count; i++) {
        const struct need *need = &needs.list[i];
        *need->memory = arena_take(arena, need->count, need->size_bytes);
    }
    for (uint32_t i = 0; i < settings->threads; i++) {
        scratch += scratch_place(&k->scratch[i], k, scratch);
    }
    kernels_rope_fill(k->rope, &k->shape, weights->rope_factors, settings->context_tokens);
    *kernels = k;
    return kernels_threads_init(&k->threads, settings->threads, kernels_work, k, arena);
}

void kernels_stop(struct kernels *kernels)
{
    kernels_threads_stop(&kernels->threads);
}

void kernels_tell_rounds(struct kernels *kernels, const struct kernels_listener *listener)
{
    kernels->on_round = *listener;
}

const float *kernels_logits(const struct kernels *kernels, uint32_t row)
{
    ASSERT(row < kernels->settings.batch_calls);
    return kernels->logits.at + row * kernels->logits.stride;
}
