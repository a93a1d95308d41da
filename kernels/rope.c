/* SPDX-License-Identifier: MIT */
/* What: the angles of RoPE, computed as doubles and rounded once. A file of its own because two
 * engines call it. */
#include "kernels/rope.h"

#include <math.h>

void kernels_rope_fill(float *table, const struct model_shape *shape, const float *factors,
                       uint32_t context_tokens)
{
    uint32_t pairs = shape->rope_dim / 2;
    for (uint32_t i = 0; i < pairs; i++) {
        double frequency = pow(shape->rope_base, -2.0 * i / shape->rope_dim) / shape->rope_scale;
        if (factors != NULL) {
            frequency /= factors[i];
        }
        for (uint32_t p = 0; p < context_tokens; p++) {
            float *at = table + ((uint64_t)p * pairs + i) * 2;
            at[0] = (float)cos(p * frequency);
            at[1] = (float)sin(p * frequency);
        }
    }
}
