/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the GPU engine: takes a step record (config/base/step.h) and runs it on a GPU, all rounds
 * without the host: moves of KV blocks, the forward pass of every row, sampling, standby rows.
 *
 * Promise: that of the CPU engine (kernels/kernels.h), for a given build, kind of GPU, and library
 * or none: a row's tokens and digests depend on the row only, whether it runs alone, in any batch,
 * in chunks, after a move or after a recompute.
 *
 *   own products    one order for any number of rows (kernels/cuda/device/product.h). With the same
 *                   inputs and weights that are floats, the bits of the CPU engine's products
 *   the library's   one order for a shape, and one shape (kernels/cuda/product.c)
 *
 * The input of a product of halves is rounded to their type. By that rounding logits differ from
 * the CPU engine's: decision 0040 has the figures.
 *
 * Weights that are levels stay levels in the device's memory. A product rounds each to F16 where it
 * multiplies it, and is always our own.
 *
 * Memory: all of it is taken at boot, on the device and on the host, as gpu_plan_memory() says
 * (kernels/cuda/plan.h).
 */
#include "config/base/step.h"
#include "kernels/cuda/weights.h"
#include "kernels/kernels.h"

struct gpu_engine;                  /* lies in the engine's arena */

/* What an engine is made of. */
struct gpu_engine_parts {
    const struct kernels_settings *settings;
    const struct gguf *gguf;            /* the model, read from `source` */
    const struct gguf_source *source;
    struct gpu_queue *queue;            /* has reserved memory for the weights and the engine */
    struct blas *blas;                  /* opened, not started; NULL: products are our own */
    struct arena *arena;                /* mapped, nothing taken yet; becomes pinned as a whole */
    volatile uint64_t *heartbeat;       /* grows with each piece of the weights and each round */
    struct kernels_listener on_round;   /* hears of each round (kernels/kernels.h) */
};

/* BOOT_ONLY. Loads the weights and tries the library, if there is one. */
MUST_CHECK enum status gpu_engine_init(struct gpu_engine **engine,
                                       const struct gpu_engine_parts *parts,
                                       struct config_error *error);
/* Runs one step to its end. Not STATUS_OK: the device has failed, no result of the step counts, and
 * the process must be started anew. The record is the core's and trusted. */
MUST_CHECK enum status gpu_engine_run(struct gpu_engine *engine, const struct step *step);
void gpu_engine_stop(struct gpu_engine *engine);
