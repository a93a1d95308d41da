/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: what the GPU engine needs, computed without a GPU, a driver or a library: the boot plans
 * with it in a process that maps none of them, and the engine takes what is planned here.
 */
#include "config/base/arena.h"
#include "config/config.h"
#include "config/model/gguf.h"
#include "kernels/kernels.h"

/* OK: a device whose thread blocks may have `shared_bytes_max` of shared memory can run this. A
 * refusal names the tensor of `source`, or the size, and what was expected. */
MUST_CHECK enum status gpu_plan_check(const struct gguf *gguf,
                                      const struct kernels_settings *settings,
                                      uint32_t shared_bytes_max, const char *source,
                                      struct config_error *error);
/* MEMORY_DEVICE: the weights. */
void gpu_weights_plan_memory(struct memory_plan *plan, const struct gguf *gguf);
/* MEMORY_DEVICE: KV, workspace. MEMORY_ENGINE: the host's part, pinned, with the host tier. */
void gpu_plan_memory(struct memory_plan *plan, const struct kernels_settings *settings,
                     const struct model_shape *shape);
