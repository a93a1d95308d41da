/* SPDX-License-Identifier: MIT */
/*
 * What: what counts of the tokens that a round has sampled (config/base/step.h: drafts). One thread
 * block; a CUDA thread has every 256th row, and goes along its draft: each token counts as if the
 * row had come there round by round. So do its digest and its result.
 */
#include "kernels/cuda/device/goes_on.h"

#define FNV_START UINT64_C(0xcbf29ce484222325)      /* config/base/fnv.h */
#define FNV_PRIME UINT64_C(0x100000001b3)

/* Byte by byte: only the canary's row needs it. */
GPU_INLINE uint64_t digest_add(uint64_t digest, const float *logits, uint32_t count)
{
    for (uint64_t i = 0; i < count * sizeof *logits; i++) {
        digest = (digest ^ ((const uint8_t *)logits)[i]) * FNV_PRIME;
    }
    return digest;
}

/* The row has sampled the token of place `p`. */
GPU_INLINE void token_add(const struct gpu_settle *args, const struct gpu_row *row, uint32_t p,
                          struct gpu_out *out, uint32_t *tokens)
{
    const float *logits = (const float *)args->logits + p * args->logits_stride;
    if (row->wants_digest != 0) {
        out->digest = digest_add(out->produced == 0 ? FNV_START : out->digest, logits,
                                 args->vocab_tokens);
    }
    tokens[out->produced++] = ((const struct gpu_place *)args->places)[p].token;
}

/* How many tokens of a draft were fed after the row's own. */
GPU_INLINE uint32_t count_fed(const struct gpu_row *row, const struct gpu_place *places)
{
    uint32_t fed = 0;
    while (fed < row->drafts && places[row->draft_place + fed].slot != GPU_NONE) {
        fed++;
    }
    return fed;
}

/* The row whose own place is `p`. */
GPU_INLINE struct gpu_out row_settle(const struct gpu_settle *args, uint32_t p)
{
    const struct gpu_place *places = (const struct gpu_place *)args->places;
    const struct gpu_row *row = (const struct gpu_row *)args->rows + places[p].row;
    struct gpu_out out = ((const struct gpu_out *)args->outs)[places[p].row];
    uint32_t *tokens = (uint32_t *)args->out_tokens + (uint64_t)places[p].row * args->steps_max;
    const struct gpu_out failed = {GPU_ROW_NOT_FINITE, 0, 0, 0, 0, 0};
    const uint32_t fed = count_fed(row, places);
    for (uint32_t at = 0; ; at++) {
        const uint32_t now = at == 0 ? p : row->draft_place + at - 1;
        const uint32_t guess = at < fed ? tokens[out.produced] : GPU_NONE;
        if (places[now].token == GPU_NONE) {
            return failed;
        }
        token_add(args, row, now, &out, tokens);
        if (places[now].token != guess || !gpu_row_goes_on(row, &out, tokens)) {
            out.drafted += fed;
            out.agreed += at;
            out.refused += at < fed && places[now].token != guess;
            return out;
        }
    }
}

GPU_KERNEL(settle)
{
    const struct gpu_place *places = (const struct gpu_place *)args.places;
    for (uint32_t p = threadIdx.x; p < args.own_count; p += blockDim.x) {
        if (places[p].slot != GPU_NONE) {
            ((struct gpu_out *)args.outs)[places[p].row] = row_settle(&args, p);
        }
    }
}
