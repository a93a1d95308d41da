/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the GPU engine's state. Private to kernels/cuda: engine.c places it and runs a step,
 * plan.c says where its parts lie, record.c is what host and device tell each other, move.c and
 * pass.c what is queued between.
 */
#include "kernels/cuda/engine.h"

#define GPU_STAGING_BYTES (UINT64_C(8) << 20)   /* weights on their way to the device, and back */

/* The record of a step, on the host and on the device alike: where its parts begin, in bytes. What
 * comes back begins at `round`. */
struct gpu_record {
    uint64_t rows, tables, feeds, tiles, places;
    uint64_t round, outs, out_tokens;
    uint64_t end;
};

/* Activations, of as many feeds as a step can have: float (feeds, width). */
struct gpu_buffer {
    uint64_t at;
    uint32_t width;
};

struct gpu_engine {
    struct kernels_settings settings;
    struct gpu_weights weights;
    struct gpu_queue *queue;
    volatile uint64_t *heartbeat;
    struct CUevent_st **events;         /* [steps_per_plan]: behind each round */
    struct gpu_kv kv;                   /* of layer 0, with the tables of the record */
    uint8_t *kv_host;
    struct gpu_record record;
    uint8_t *host;                      /* the record, pinned */
    uint64_t at;                        /* the record on the device */
    uint32_t *haste;                    /* pinned; the device reads it between two rounds */
    uint8_t *staging;                   /* pinned, for boot */
    uint64_t rope, partials, sample_weights;
    struct gpu_buffer x, normed, q, k, v, attended, gate, up, delta, gathered, logits;
    /* The step. */
    const struct step *step;
    uint32_t feeds_count, tiles_count, places_count;
    uint32_t feeds_single;              /* of rows of one token: the first feeds */
};

static inline uint32_t gpu_splits(const struct kernels_settings *settings)
{
    return gpu_ceil(settings->context_tokens, GPU_SPLIT_TOKENS);
}

/* plan.c: where everything lies that is the engine's on the device, if it begins at `base`; how
 * many bytes that are. */
uint64_t gpu_engine_place(struct gpu_engine *engine, const struct model_shape *shape,
                          uint64_t base);
uint64_t gpu_engine_bytes(const struct kernels_settings *settings,
                          const struct model_shape *shape);
struct gpu_record gpu_record_of(const struct kernels_settings *settings);
uint64_t gpu_kv_block_bytes(const struct kernels_settings *settings,
                            const struct model_shape *shape);

/* record.c: it is uploaded, it comes back (queued); outs and tokens of what came back: a device
 * that counts more than there can be has failed. */
void gpu_record_send(struct gpu_engine *engine);
void gpu_record_receive(struct gpu_engine *engine);
MUST_CHECK enum status gpu_record_settle(const struct gpu_engine *engine);

/* move.c: queues the moves of a pass. */
void gpu_moves_queue(struct gpu_engine *engine, enum step_pass pass);

/* pass.c: how many rounds a step can have; queues one of them, and its event. */
uint32_t gpu_rounds_of(const struct gpu_engine *engine);
void gpu_round_queue(struct gpu_engine *engine, uint32_t round);
