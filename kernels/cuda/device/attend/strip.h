/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a strip of GPU_STRIP_TOKENS tokens of a split, a chunk for each warp, and what the queries
 * of a thread block get of it:
 *
 *   stage     the strip's keys come as they are, 16 bytes at a time; later its values, to the same
 *             place
 *   scores    a lane has a token, and several queries at a time: a key is read once for them
 *   weights   what comes before a chunk is the largest of the chunks before it, so all chunks of a
 *             strip are weighed at once
 *   outs      a CUDA thread has a channel, and several queries at a time: so is a value
 *
 * Invariant: a query sees no token after its own position. What lies there is undefined, so it is
 * left out instead of weighed with zero.
 */
#include "kernels/cuda/device/attend/stage.h"
#include "kernels/cuda/device/reduce.h"
#include "kernels/exp.h"

/* ---- scores ---------------------------------------------------------------------------------- */

struct numbers {
    uint32_t type, first, count;        /* count: at most GPU_NUMBERS */
};

GPU_INLINE void channels_add(const struct work *w, const uint8_t *key, const float *q,
                             struct numbers numbers, float scores[TOGETHER])
{
    float of_key[GPU_NUMBERS];
    gpu_numbers_load(key, numbers.type, numbers.first, numbers.count, of_key);
    GPU_UNROLL
    for (uint32_t i = 0; i < TOGETHER; i++) {
        scores[i] = gpu_numbers_chain(q + i * w->width + numbers.first, of_key, numbers.count,
                                      scores[i]);
    }
}

/* Of one token and the queries from `first` on: chains over the channels. */
GPU_INLINE void scores_make(const struct work *w, uint32_t type, uint32_t first, uint32_t token,
                            float scores[TOGETHER])
{
    const uint8_t *key = w->stage + token * w->stride;
    const float *q = w->q + first * w->width;
    uint32_t dim = w->a->kv.head_dim, c = 0;
    for (; c + GPU_NUMBERS <= dim; c += GPU_NUMBERS) {
        const struct numbers all = {type, c, GPU_NUMBERS};
        channels_add(w, key, q, all, scores);
    }
    if (c < dim) {
        const struct numbers rest = {type, c, dim - c};
        channels_add(w, key, q, rest, scores);
    }
}

/* Scores go to where weights will be; and the largest of each chunk. Ends with a barrier. */
GPU_INLINE void strip_score(const struct work *w, uint32_t type, struct strip strip)
{
    uint32_t warp = threadIdx.x / GPU_WARP, token = threadIdx.x;
    bool is_there = token < strip.tokens;
    for (uint32_t first = 0; first < w->queries; first += TOGETHER) {
        float scores[TOGETHER] = {0.0f};
        if (is_there) {
            scores_make(w, type, first, token, scores);
        }
        GPU_UNROLL
        for (uint32_t i = 0; i < TOGETHER; i++) {
            bool sees = is_there && strip.first + token < w->seen[first + i];
            float largest = gpu_warp_largest(sees ? scores[i] : -INFINITY);
            w->weights[(first + i) * GPU_STRIP_TOKENS + token] = scores[i];
            if (threadIdx.x % GPU_WARP == 0) {
                w->chunk_largest[(first + i) * WARPS + warp] = largest;
            }
        }
    }
    __syncthreads();
}

/* ---- weights --------------------------------------------------------------------------------- */

/* The largest score of all that comes before this warp's chunk. */
GPU_INLINE float largest_before(const struct work *w, uint32_t query, uint32_t warp)
{
    float largest = w->largest[query];
    for (uint32_t i = 0; i < warp; i++) {
        largest = fmaxf(largest, w->chunk_largest[query * WARPS + i]);
    }
    return largest;
}

/* A chunk for each warp. One of which a query sees nothing changes nothing: its sum is 0, and what
 * comes before it does not shrink. Ends with a barrier. */
GPU_INLINE void strip_weigh(const struct work *w, struct strip strip)
{
    uint32_t warp = threadIdx.x / GPU_WARP, token = threadIdx.x;
    for (uint32_t query = 0; query < w->queries && warp * GPU_CHUNK_TOKENS < strip.tokens;
         query++) {
        float *weights = w->weights + query * GPU_STRIP_TOKENS, scale = w->a->scale;
        bool sees_any = strip.first + warp * GPU_CHUNK_TOKENS < w->seen[query];
        bool sees = token < strip.tokens && strip.first + token < w->seen[query];
        float before = largest_before(w, query, warp);
        float largest = fmaxf(before, w->chunk_largest[query * WARPS + warp]);
        float weight = sees ? kernels_exp((weights[token] - largest) * scale) : 0.0f;
        float sum = gpu_warp_sum(weight);
        weights[token] = weight;
        if (threadIdx.x % GPU_WARP == 0) {
            w->chunk_sum[query * WARPS + warp] = sum;
            w->shrink[query * WARPS + warp] =
                sees_any ? kernels_exp((before - largest) * scale) : 1.0f;
        }
    }
    __syncthreads();
}

/* ---- outs ------------------------------------------------------------------------------------ */

/* What a CUDA thread adds up: a channel of the queries from `first` on, over a strip of which they
 * see all, or not. */
struct item {
    uint32_t type;                      /* of the values */
    uint32_t first, channel;
    bool sees_all;
};

/* Adds so many tokens, at most GPU_FOUR, of the item's chains. */
GPU_INLINE void tokens_add(const struct work *w, struct item item, struct strip tokens,
                           uint32_t strip_first, float outs[TOGETHER])
{
    float values[GPU_FOUR];
    GPU_UNROLL
    for (uint32_t t = 0; t < GPU_FOUR; t++) {
        const uint8_t *row = w->stage + (tokens.first + t) * w->stride;
        values[t] = t < tokens.tokens ? gpu_load(row, item.type, item.channel) : 0.0f;
    }
    GPU_UNROLL
    for (uint32_t i = 0; i < TOGETHER; i++) {
        uint32_t query = item.first + i;
        float weights[GPU_FOUR];
        gpu_four_load(w->weights + query * GPU_STRIP_TOKENS + tokens.first, weights);
        GPU_UNROLL
        for (uint32_t t = 0; t < GPU_FOUR; t++) {
            bool sees = t < tokens.tokens &&
                        (item.sees_all || strip_first + tokens.first + t < w->seen[query]);
            outs[i] = sees ? fmaf(weights[t], values[t], outs[i]) : outs[i];
        }
    }
}

/* The item's chains over the tokens of one chunk, counted from the strip's first. */
GPU_INLINE void chunk_add(const struct work *w, struct item item, struct strip chunk,
                          uint32_t strip_first, float outs[TOGETHER])
{
    uint32_t t = chunk.first, end = chunk.first + chunk.tokens;
    for (; t + GPU_FOUR <= end; t += GPU_FOUR) {
        const struct strip four = {t, GPU_FOUR};
        tokens_add(w, item, four, strip_first, outs);
    }
    if (t < end) {
        const struct strip rest = {t, end - t};
        tokens_add(w, item, rest, strip_first, outs);
    }
}

GPU_INLINE void item_add(const struct work *w, struct item item, struct strip strip)
{
    float *out = w->out + item.first * w->width + item.channel;
    float outs[TOGETHER];
    GPU_UNROLL
    for (uint32_t i = 0; i < TOGETHER; i++) {
        outs[i] = out[i * w->width];
    }
    for (uint32_t warp = 0; warp * GPU_CHUNK_TOKENS < strip.tokens; warp++) {
        struct strip chunk;
        chunk.first = warp * GPU_CHUNK_TOKENS;
        chunk.tokens = gpu_smaller(GPU_CHUNK_TOKENS, strip.tokens - chunk.first);
        GPU_UNROLL
        for (uint32_t i = 0; i < TOGETHER; i++) {
            outs[i] *= w->shrink[(item.first + i) * WARPS + warp];
        }
        chunk_add(w, item, chunk, strip.first, outs);
    }
    GPU_UNROLL
    for (uint32_t i = 0; i < TOGETHER; i++) {
        out[i * w->width] = outs[i];
    }
}

/* Adds the strip to what comes before it. Ends with a barrier. */
GPU_INLINE void strip_add(const struct work *w, uint32_t type, struct strip strip)
{
    uint32_t dim = w->a->kv.head_dim, groups = gpu_ceil(w->queries, TOGETHER);
    for (uint32_t i = threadIdx.x; i < groups * dim; i += blockDim.x) {
        struct item item = {type, i / dim * TOGETHER, i % dim, true};
        if (strip.first + strip.tokens <= w->seen[0]) {     /* the first query sees least */
            item_add(w, item, strip);
        } else {
            item.sees_all = false;
            item_add(w, item, strip);
        }
    }
    for (uint32_t query = threadIdx.x; query < w->queries; query += blockDim.x) {
        float sum = w->sum[query], largest = w->largest[query];
        for (uint32_t warp = 0; warp * GPU_CHUNK_TOKENS < strip.tokens; warp++) {
            sum = fmaf(sum, w->shrink[query * WARPS + warp], w->chunk_sum[query * WARPS + warp]);
            largest = fmaxf(largest, w->chunk_largest[query * WARPS + warp]);
        }
        w->sum[query] = sum;
        w->largest[query] = largest;
    }
    __syncthreads();
}
