/* SPDX-License-Identifier: MIT */
/*
 * What: the GPU engine; see engine.h. A step is
 *
 *   record    what the host knows of the step, uploaded in one piece        record.c
 *   moves     KV blocks, each before a row needs it                         move.c
 *   rounds    forward pass, sample, advance, without the host               forward.c, product.c
 *   outs      how far the step is, downloaded after each round              record.c
 *
 * Rounds are queued a little ahead, so the device never waits for the host, and a step that ends
 * early leaves at most one round without rows. While the host waits, it counts finished rounds as
 * heartbeats, publishes their tokens, and copies the core's early stop to where the device reads
 * it.
 */
#include <stdio.h>
#include <time.h>

#include "config/base/assert.h"
#include "kernels/cuda/engine_state.h"
#include "kernels/cuda/plan.h"
#include "kernels/rope.h"

#define NAP_NS 20000
/* Rounds that are queued before it is known whether the step goes on: one that runs, and one that
 * the device begins at once while the host queues the next. What comes of the last of them when the
 * step has ended is nothing: no kernel finds a slot. */
#define ROUNDS_AHEAD 2u

/* ---- boot ---- */

static void take_swap_streams(struct gpu_engine *e, struct arena *arena)
{
    uint64_t each = e->settings.kv_host_blocks;
    e->out.swaps = arena_take(arena, 2 * each, sizeof *e->out.swaps);
    e->out.list = arena_take(arena, 2 * each, sizeof *e->out.list);
    e->in.swaps = e->out.swaps + each;
    e->in.list = e->out.list + each;
}

static void take_host(struct gpu_engine *e, struct arena *arena, float **rope)
{
    const struct kernels_settings *t = &e->settings;
    const struct model_shape *s = &e->weights.shape;
    e->events = arena_take(arena, t->steps_per_plan, sizeof *e->events);
    e->host = arena_take(arena, 1, e->record.bytes);
    e->early_stop = arena_take(arena, 1, sizeof *e->early_stop);
    e->staging = arena_take(arena, 1, GPU_STAGING_BYTES);
    take_swap_streams(e, arena);
    e->left = arena_take(arena, t->kv_blocks, sizeof *e->left);
    *rope = arena_take(arena, t->context_tokens, (uint64_t)s->rope_dim * sizeof(float));
    e->kv_host = arena_take(arena, t->kv_host_blocks, e->kv.block_bytes);
}

static void set_kv(struct gpu_engine *e)
{
    const struct model_shape *s = &e->weights.shape;
    e->kv.block_bytes = gpu_kv_block_bytes(&e->settings, s);
    e->kv.tables = e->at + e->record.tables;
    e->kv.tables_stride = e->settings.blocks_per_call;
    e->kv.type = e->settings.kv_type == KERNELS_KV_F16 ? GPU_F16 : GPU_F32;
    e->kv.kv_heads = s->kv_heads;
    e->kv.head_dim = s->head_dim;
    e->kv.block_tokens = e->settings.kv_block_tokens;
}

static enum status fill_device(struct gpu_engine *e, const struct gpu_engine_parts *parts,
                               float *rope, struct config_error *error)
{
    const struct model_shape *s = &e->weights.shape;
    uint32_t context = e->settings.context_tokens;
    const struct gpu_loading loading = {e->queue, parts->source, e->staging, GPU_STAGING_BYTES,
                                        e->heartbeat};
    TRY(gpu_weights_load(&e->weights, &loading, parts->gguf, error));
    kernels_rope_fill(rope, s, e->weights.rope_factors, context);
    gpu_upload(e->queue, e->rope, rope, (uint64_t)context * s->rope_dim * sizeof(float));
    for (uint32_t i = 0; i < e->settings.steps_per_plan; i++) {
        gpu_create_event(e->queue, &e->events[i]);
    }
    gpu_open_beside(&e->out.queue, e->queue);
    gpu_open_beside(&e->in.queue, e->queue);
    gpu_join(e->queue, &e->out.queue);
    gpu_join(e->queue, &e->in.queue);
    TRY(gpu_check(e->queue, error));
    return gpu_products_start(e, error);
}

enum status gpu_engine_init(struct gpu_engine **engine, const struct gpu_engine_parts *parts,
                            struct config_error *error)
{
    const struct kernels_settings *settings = parts->settings;
    const struct model_shape *shape = &parts->gguf->shape;
    struct gpu_queue *queue = parts->queue;
    struct arena *arena = parts->arena;
    ASSERT(settings->step_tokens >= settings->batch_calls);
    float *rope = NULL;
    TRY(gpu_plan_check(parts->gguf, settings, queue->shared_bytes_max, parts->source->name,
                       error));
    gpu_pin(queue, arena->base, arena->size_bytes);
    struct gpu_engine *e = arena_take(arena, 1, sizeof *e);
    e->settings = *settings;
    e->queue = queue;
    e->blas = parts->blas;
    e->heartbeat = parts->heartbeat;
    e->on_round = parts->on_round;
    e->weights.shape = *shape;
    gpu_engine_place(e, shape, gpu_take(queue, 1, gpu_engine_bytes(settings, shape)));
    /* Activations: the library reads padding too, some of which is never written. */
    gpu_clear(queue, e->x.at, queue->memory + queue->used_bytes - e->x.at);
    set_kv(e);
    take_host(e, arena, &rope);
    *engine = e;
    return fill_device(e, parts, rope, error);
}

void gpu_engine_stop(struct gpu_engine *engine)
{
    for (uint32_t i = 0; i < engine->settings.steps_per_plan; i++) {
        gpu_destroy_event(engine->queue, engine->events[i]);
    }
    gpu_close(&engine->out.queue);
    gpu_close(&engine->in.queue);
}

/* ---- a step ---- */

/* A round after the one in which the step ended brings nothing new, and is not told. */
static void tell_round(const struct gpu_engine *e)
{
    uint32_t before = *step_rounds(e->step);
    if (gpu_record_take(e) == STATUS_OK && *step_rounds(e->step) > before &&
        e->on_round.tell != NULL) {
        e->on_round.tell(e->on_round.context);
    }
}

/* False: the device has failed. */
static bool await_round(struct gpu_engine *e, uint32_t round)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    while (!gpu_is_past(e->queue, e->events[round])) {
        if (e->queue->result != DRIVER_SUCCESS) {
            return false;
        }
        __atomic_store_n(e->early_stop, step_early_stop(e->step), __ATOMIC_RELAXED);
        nanosleep(&nap, NULL);
    }
    return true;
}

/* A heartbeat for each round that is done; none while the device still works on it. */
static void run_rounds(struct gpu_engine *e, uint32_t rounds)
{
    uint32_t queued = 0;
    for (uint32_t round = 0; round < rounds; round++) {
        for (; queued < rounds && queued < round + ROUNDS_AHEAD; queued++) {
            gpu_round_queue(e, queued);
        }
        if (!await_round(e, round)) {
            return;
        }
        *e->heartbeat += 1;
        tell_round(e);
        if (gpu_record_has_ended(e)) {
            return;
        }
    }
}

enum status gpu_engine_run(struct gpu_engine *engine, const struct step *step)
{
    engine->step = step;
    engine->round = engine->at + engine->record.round;
    step_progress_begin(step);
    gpu_record_send(engine);
    gpu_moves_queue(engine);
    uint32_t rounds = engine->places_count > 0 ? gpu_rounds_of(engine) : 0;
    if (rounds == 0) {
        gpu_record_receive(engine);
    }
    run_rounds(engine, rounds);
    engine->round = 0;
    gpu_join(engine->queue, &engine->out.queue);
    gpu_join(engine->queue, &engine->in.queue);
    TRY(gpu_wait(engine->queue));
    return gpu_record_take(engine);
}
