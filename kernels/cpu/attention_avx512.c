/* SPDX-License-Identifier: MIT
 *
 * What: attention, AVX-512 (kernels/ops.h defines the result). The AVX2 kernels do the work if the
 * tokens of a vector may not be neighbours (KV blocks of 8, 24, ... tokens), or if the lanes of a
 * head are no multiple of a vector.
 */
#include "kernels/cpu/avx512.h"

#define VECTOR_LANES 16
#include "kernels/cpu/attention_tile.h"

void kernels_scores_avx512(const struct kernels_attention *attention)
{
    if (attention->block_tokens % VECTOR_LANES != 0) {
        kernels_scores_avx2(attention);
    } else {
        attention_walk(attention, (struct tile_work){.score = score_queries});
    }
}

void kernels_weigh_avx512(const struct kernels_attention *attention)
{
    if (kernels_head_lanes(attention->head_dim) % VECTOR_LANES != 0) {
        kernels_weigh_avx2(attention);
    } else {
        outs_clear(attention);
        attention_walk(attention, (struct tile_work){.weigh = weigh_together});
    }
}
