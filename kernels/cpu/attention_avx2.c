/* SPDX-License-Identifier: MIT
 *
 * What: attention, AVX2 (kernels/ops.h defines the result).
 */
#include "kernels/cpu/attention_tile.h"

void kernels_scores_avx2(const struct kernels_attention *attention)
{
    attention_walk(attention, (struct tile_work){.score = score_queries});
}

void kernels_weigh_avx2(const struct kernels_attention *attention)
{
    outs_clear(attention);
    attention_walk(attention, (struct tile_work){.weigh = weigh_together});
}
