/* SPDX-License-Identifier: MIT */
/*
 * What: the GPU engine; see engine.h. A step is
 *
 *   record    what the host knows of it, uploaded at once                   record.c
 *   moves     KV blocks, before any row runs                                move.c
 *   rounds    forward pass, sample, advance, without the host               pass.c
 *   outs      how it ended, downloaded at once                              record.c
 *
 * While it waits the host counts rounds that are done, which is what the heartbeat tells, and hands
 * the core's haste on to where the device reads it.
 */
#include <stdio.h>
#include <time.h>

#include "appliance/base/assert.h"
#include "kernels/cuda/engine_state.h"
#include "kernels/rope.h"

#define STAGING_BYTES (UINT64_C(8) << 20)   /* weights on their way to the device */
#define GPU_FEEDS_MAX 65535u                /* a dimension of a grid */
#define NAP_NS        20000

/* ---- memory ---- */

static uint32_t kv_type(const struct kernels_settings *settings)
{
    return settings->kv_halves ? GPU_F16 : GPU_F32;
}

static uint64_t kv_block_bytes(const struct kernels_settings *settings,
                               const struct model_shape *s)
{
    uint64_t number = settings->kv_halves ? 2 : 4;
    uint64_t bytes = number * s->layers * 2 * s->kv_heads * s->head_dim * settings->kv_block_tokens;
    return gpu_taken_bytes(1, bytes);
}

/* Walked with a device to take, and without to count. */
struct taking {
    struct gpu_queue *queue;
    uint64_t bytes;
};

static uint64_t take(struct taking *taking, uint64_t count, uint64_t bytes)
{
    taking->bytes += gpu_taken_bytes(count, bytes);
    return taking->queue != NULL ? gpu_take(taking->queue, count, bytes) : 0;
}

static struct gpu_buffer take_buffer(struct taking *taking, uint64_t rows, uint32_t width)
{
    return (struct gpu_buffer){take(taking, rows, (uint64_t)width * sizeof(float)), width};
}

static void take_all(struct gpu_engine *e, const struct model_shape *s, struct taking *taking)
{
    const struct kernels_settings *t = &e->settings;
    uint64_t feeds = t->step_tokens, calls = t->batch_calls;
    e->record = gpu_record_of(t);
    e->at = take(taking, 1, e->record.end);
    e->kv.blocks = take(taking, t->kv_blocks, kv_block_bytes(t, s));
    e->rope = take(taking, t->context_tokens, (uint64_t)s->rope_dim * sizeof(float));
    e->partials = take(taking, calls * s->heads * gpu_splits(t), (s->head_dim + 2) * sizeof(float));
    e->sample_weights = take(taking, calls, (uint64_t)s->vocab_tokens * sizeof(float));
    e->x = take_buffer(taking, feeds, s->dim);
    e->normed = take_buffer(taking, feeds, s->dim);
    e->q = take_buffer(taking, feeds, s->heads * s->head_dim);
    e->k = take_buffer(taking, feeds, s->kv_heads * s->head_dim);
    e->v = take_buffer(taking, feeds, s->kv_heads * s->head_dim);
    e->attended = take_buffer(taking, feeds, s->heads * s->head_dim);
    e->gate = take_buffer(taking, feeds, s->ffn_dim);
    e->up = take_buffer(taking, feeds, s->ffn_dim);
    e->delta = take_buffer(taking, feeds, s->dim);
    e->gathered = take_buffer(taking, calls, s->dim);
    e->logits = take_buffer(taking, calls, s->vocab_tokens);
}

uint64_t gpu_engine_bytes(const struct kernels_settings *settings, const struct model_shape *shape)
{
    struct gpu_engine engine = {.settings = *settings};
    struct taking taking = {0};
    take_all(&engine, shape, &taking);
    return taking.bytes;
}

void gpu_engine_plan(struct plan *plan, const struct kernels_settings *settings,
                     const struct model_shape *shape)
{
    plan_add(plan, TIER_ENGINE, "gpu engine", 1, sizeof(struct gpu_engine));
    plan_add(plan, TIER_ENGINE, "gpu events", settings->steps_per_plan, sizeof(void *));
    plan_add(plan, TIER_ENGINE, "gpu step", 1, gpu_record_of(settings).end);
    plan_add(plan, TIER_ENGINE, "gpu haste", 1, sizeof(uint32_t));
    plan_add(plan, TIER_ENGINE, "gpu staging", 1, STAGING_BYTES);
    plan_add(plan, TIER_ENGINE, "gpu rope table", settings->context_tokens,
             (uint64_t)shape->rope_dim * sizeof(float));
    plan_add(plan, TIER_ENGINE, "gpu host kv blocks", settings->kv_host_blocks,
             kv_block_bytes(settings, shape));
}

/* ---- boot ---- */

static void take_host(struct gpu_engine *e, struct arena *arena, float **rope)
{
    const struct kernels_settings *t = &e->settings;
    const struct model_shape *s = &e->weights.shape;
    e->events = arena_take(arena, t->steps_per_plan, sizeof *e->events);
    e->host = arena_take(arena, 1, e->record.end);
    e->haste = arena_take(arena, 1, sizeof *e->haste);
    e->staging = arena_take(arena, 1, STAGING_BYTES);
    *rope = arena_take(arena, t->context_tokens, (uint64_t)s->rope_dim * sizeof(float));
    e->kv_host = arena_take(arena, t->kv_host_blocks, e->kv.block_bytes);
}

static void set_kv(struct gpu_engine *e)
{
    const struct model_shape *s = &e->weights.shape;
    e->kv.block_bytes = kv_block_bytes(&e->settings, s);
    e->kv.tables = e->at + e->record.tables;
    e->kv.tables_stride = e->settings.blocks_per_call;
    e->kv.type = kv_type(&e->settings);
    e->kv.kv_heads = s->kv_heads;
    e->kv.head_dim = s->head_dim;
    e->kv.block_tokens = e->settings.kv_block_tokens;
}

/* Of all kernels the one that attends in tiles takes the most shared memory. */
static enum status check_launches(const struct gpu_queue *queue,
                                  const struct kernels_settings *settings,
                                  const struct model_shape *s, struct config_error *error)
{
    uint32_t bytes = gpu_attention_bytes(s->head_dim, 2);
    if (bytes > queue->shared_bytes_max) {
        snprintf(error->text, sizeof error->text,
                 "heads of %u channels need %u bytes of shared memory; this GPU has %u",
                 s->head_dim, bytes, queue->shared_bytes_max);
        return STATUS_CONFIG_MODEL;
    }
    if (settings->step_tokens > GPU_FEEDS_MAX) {
        snprintf(error->text, sizeof error->text,
                 "steps of %u tokens; a GPU takes at most %u: sched.prefill_tokens is too large",
                 settings->step_tokens, GPU_FEEDS_MAX);
        return STATUS_CONFIG_OPTION;
    }
    return STATUS_OK;
}

static enum status fill_device(struct gpu_engine *e, const struct gguf *gguf,
                               const struct gguf_source *source, float *rope,
                               struct config_error *error)
{
    const struct model_shape *s = &e->weights.shape;
    uint32_t context = e->settings.context_tokens;
    TRY(gpu_weights_load(&e->weights, e->queue, gguf, source, e->staging, STAGING_BYTES, error));
    kernels_rope_fill(rope, s, e->weights.rope_factors, context);
    gpu_upload(e->queue, e->rope, rope, (uint64_t)context * s->rope_dim * sizeof(float));
    for (uint32_t i = 0; i < e->settings.steps_per_plan; i++) {
        gpu_create_event(e->queue, &e->events[i]);
    }
    return gpu_check(e->queue, error);
}

enum status gpu_engine_init(struct gpu_engine **engine, const struct kernels_settings *settings,
                            const struct gguf *gguf, const struct gguf_source *source,
                            struct gpu_queue *queue, struct arena *arena,
                            volatile uint64_t *heartbeat, struct config_error *error)
{
    ASSERT(settings->step_tokens >= settings->batch_calls);
    struct taking taking = {.queue = queue};
    float *rope = NULL;
    TRY(check_launches(queue, settings, &gguf->shape, error));
    gpu_pin(queue, arena->base, arena->size_bytes);
    struct gpu_engine *e = arena_take(arena, 1, sizeof *e);
    e->settings = *settings;
    e->queue = queue;
    e->heartbeat = heartbeat;
    e->weights.shape = gguf->shape;
    take_all(e, &gguf->shape, &taking);
    set_kv(e);
    take_host(e, arena, &rope);
    *engine = e;
    return fill_device(e, gguf, source, rope, error);
}

void gpu_engine_stop(struct gpu_engine *engine)
{
    for (uint32_t i = 0; i < engine->settings.steps_per_plan; i++) {
        gpu_destroy_event(engine->queue, engine->events[i]);
    }
}

/* ---- a step ---- */

/* A round that is done is a sign of life; none is given while the device owes one. */
static void watch_rounds(struct gpu_engine *e, uint32_t rounds)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    for (uint32_t round = 0; round < rounds; round++) {
        while (!gpu_is_past(e->queue, e->events[round])) {
            if (e->queue->result != DRIVER_SUCCESS) {
                return;
            }
            __atomic_store_n(e->haste, step_haste(e->step), __ATOMIC_RELAXED);
            nanosleep(&nap, NULL);
        }
        *e->heartbeat += 1;
    }
}

enum status gpu_engine_run(struct gpu_engine *engine, const struct step *step)
{
    engine->step = step;
    gpu_record_send(engine);
    for (enum step_pass pass = STEP_PASS_OUT; pass < STEP_PASSES; pass++) {
        gpu_moves_queue(engine, pass);
    }
    uint32_t rounds = engine->places_count > 0 ? gpu_rounds_of(engine) : 0;
    for (uint32_t round = 0; round < rounds; round++) {
        gpu_round_queue(engine, round);
    }
    gpu_record_receive(engine);
    watch_rounds(engine, rounds);
    TRY(gpu_wait(engine->queue));
    return gpu_record_settle(engine);
}
