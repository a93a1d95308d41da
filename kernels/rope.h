/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the angles of rotary position embedding (RoPE), one table for every engine. */
#include "config/model/gguf.h"

/* table (context_tokens, rope_dim / 2, {cos, sin}). The angle of pair i at position p is
 * p * base^(-2i / rope_dim), divided by the model's scale and by factors[i] (NULL: 1).
 * BOOT_ONLY. */
void kernels_rope_fill(float *table, const struct model_shape *shape, const float *factors,
                       uint32_t context_tokens);
