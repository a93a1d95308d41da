/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the room that keys and values of a head take in a KV block (kernels/ops.h: struct
 * kernels_attention says what lies where), and what the levels of keys and queries mean.
 */
#include "kernels/weights/format.h"
#include "kernels/half.h"
#include "kernels/kernels.h"

#define KERNELS_OCTET 8u                /* tokens or channels of one AVX2 vector */

static inline uint32_t kernels_head_lanes(uint32_t head_dim)
{
    return (head_dim + KERNELS_OCTET - 1) / KERNELS_OCTET * KERNELS_OCTET;
}

/* Numbers that a head has of the keys, or values, of a KV block. */
static inline uint64_t kernels_kv_numbers(uint32_t head_dim, uint32_t block_tokens)
{
    return (uint64_t)kernels_head_lanes(head_dim) * block_tokens;
}

/* Bytes of the keys, and of the values, with all that levels need: whole cache lines. */
static inline uint64_t kernels_kv_keys_bytes(enum kernels_kv_type type, uint32_t head_dim,
                                             uint32_t block_tokens)
{
    uint64_t token = kernels_kv_key_bytes(type, kernels_head_lanes(head_dim));
    return (token * block_tokens + 63) / 64 * 64;
}
static inline uint64_t kernels_kv_values_bytes(enum kernels_kv_type type, uint32_t head_dim,
                                               uint32_t block_tokens)
{
    uint64_t token = kernels_kv_value_bytes(type, kernels_head_lanes(head_dim));
    return (token * block_tokens + 63) / 64 * 64;
}

/* Where the steps of a block's keys begin; the middles follow. */
static inline uint64_t kernels_key_steps_at(uint32_t head_dim, uint32_t block_tokens)
{
    return kernels_kv_numbers(head_dim, block_tokens) / 8 * 9;
}

/* What a key's levels mean: a level is so many steps away from the middle. */
struct kernels_key_frame {
    uint16_t step, middle;      /* halves */
};
#define KERNELS_KEY_LEVEL_MAX 255

/* What a query's levels mean: a channel is about level * scale. The sum of the channels is what a
 * key's middle is multiplied by. */
struct kernels_query_frame {
    float scale, sum;
};
#define KERNELS_QUERY_LEVEL_MAX 8191    /* so that no score overflows: GGUF_HEAD_DIM_MAX channels */

/* The middle is the half nearest to that of the range, the step a 255th of the way from there to
 * the farther end: a half, too. Zeros are positive. */
static inline struct kernels_key_frame kernels_key_frame_of(float low, float high)
{
    uint16_t middle = kernels_half_of(0.5f * low + 0.5f * high + 0.0f);
    float at = kernels_half_to_float(middle);
    float reach = high - at > at - low ? high - at : at - low;
    uint16_t step = kernels_half_of(reach / KERNELS_KEY_LEVEL_MAX + 0.0f);
    return (struct kernels_key_frame){step, middle};
}

/* Levels for each unit away from the middle; 0: all levels are zero. */
static inline float kernels_key_inverse(struct kernels_key_frame frame)
{
    float step = kernels_half_to_float(frame.step);
    return step > 0 ? 1 / step : 0;
}
