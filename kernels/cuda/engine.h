/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the GPU engine: takes a step record (config/base/step.h) and runs it on a GPU, all
 * rounds without the host: moves of KV blocks, the forward pass of every row, sampling, standbys.
 *
 * Promise: as that of the CPU engine (kernels/kernels.h), for a given build and kind of GPU, and
 * for a library or none: a row's tokens and digests are its own, alone, in any batch, in chunks,
 * after a move and after a recompute.
 *
 *   own products    one order whatever the rows (kernels/cuda/device/forward.h): of the same inputs, and
 *                   weights that are floats, the bits of the CPU engine's products
 *   the library's   one order for a shape, and one shape (kernels/cuda/product.c). What a product
 *                   of halves reads is rounded to their type. Beside the CPU engine's, logits are
 *                   as far away as that rounding makes them: decision 0040 has the figures
 *
 * Weights of Q8_0 are F16 on the device, rounded once, and take the room of those.
 *
 * Memory: all of it is taken at boot, on the device and on the host, as gpu_plan_memory() says
 * (kernels/cuda/plan.h).
 */
#include "config/base/step.h"
#include "kernels/cuda/weights.h"
#include "kernels/kernels.h"

struct gpu_engine;                  /* lies in the engine's arena */

/* BOOT_ONLY. The device has room for the weights and the engine; `arena` is mapped and none of it
 * is taken yet; it becomes pinned as a whole. `blas` is opened, not started; NULL: products are
 * our own. `heartbeat` grows with each piece of the weights and each round that is done. */
MUST_CHECK enum status gpu_engine_init(struct gpu_engine **engine,
                                       const struct kernels_settings *settings,
                                       const struct gguf *gguf, const struct gguf_source *source,
                                       struct gpu_queue *queue, struct blas *blas,
                                       struct arena *arena,
                                       volatile uint64_t *heartbeat, struct config_error *error);
/* Runs one step to its end. Not STATUS_OK: the device has failed, nothing of the step counts, and
 * the process has to be started anew. The record is the core's and trusted. */
MUST_CHECK enum status gpu_engine_run(struct gpu_engine *engine, const struct step *step);
void gpu_engine_stop(struct gpu_engine *engine);
