/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: paged KV for tests: rows whose KV blocks lie anywhere in the pool, in no order. Numbers
 * that were never written are NaN, in every type. Twins use the layout that device/kernels.h
 * states.
 */
#include "selftest/unit/cuda/gpu_rig.h"

#include "kernels/cuda/device/number.h"

enum { KV_ROWS = 4, KV_TABLE = 160, KV_LAYERS = 2, KV_PAD_BYTES = 32 };

static inline uint32_t number_bytes(uint32_t type)
{
    return type == GPU_F32 ? 4 : 2;
}

/* Rows of `tokens` tokens; no block is in two tables, and some are in none. */
static inline struct gpu_kv kv_make(uint32_t type, uint32_t kv_heads, uint32_t head_dim,
                                    uint32_t block_tokens, uint32_t tokens)
{
    uint32_t per_row = gpu_ceil(tokens, block_tokens), blocks = KV_ROWS * per_row + 3;
    uint32_t *tables = rig_take(KV_ROWS * KV_TABLE * sizeof *tables), order[KV_ROWS * KV_TABLE + 3];
    assert_true(per_row <= KV_TABLE);
    for (uint32_t i = 0; i < blocks; i++) {
        uint32_t at = rig_random(i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    for (uint32_t i = 0; i < KV_ROWS * per_row; i++) {
        tables[i / per_row * KV_TABLE + i % per_row] = order[i];
    }
    uint64_t bytes = (uint64_t)KV_LAYERS * 2 * kv_heads * block_tokens * head_dim;
    bytes = (bytes * number_bytes(type) + 15) / 16 * 16 + KV_PAD_BYTES;
    return (struct gpu_kv){
        .blocks = rig_address(rig_take(blocks * bytes)),
        .block_bytes = bytes,
        .tables = rig_address(tables),
        .tables_stride = KV_TABLE,
        .type = type,
        .layer = 1,
        .kv_heads = kv_heads,
        .head_dim = head_dim,
        .block_tokens = block_tokens,
    };
}

/* Channel 0 of a token's key (which = 0) or value (1). */
static inline uint8_t *kv_at(const struct gpu_kv *kv, uint32_t row, uint32_t token, uint32_t which,
                             uint32_t kv_head)
{
    const uint32_t *tables = (const uint32_t *)kv->tables;
    uint64_t block = tables[row * KV_TABLE + token / kv->block_tokens];
    uint64_t head_numbers = (uint64_t)kv->block_tokens * kv->head_dim;
    uint64_t layer_numbers = 2 * kv->kv_heads * head_numbers;
    uint64_t number = kv->layer * layer_numbers + which * kv->kv_heads * head_numbers +
                      kv_head * head_numbers + token % kv->block_tokens * kv->head_dim;
    return (uint8_t *)kv->blocks + block * kv->block_bytes + number * number_bytes(kv->type);
}

/* Random keys and values of the first `tokens` tokens of a row. */
static inline void kv_fill(const struct gpu_kv *kv, uint32_t row, uint32_t tokens)
{
    for (uint32_t t = 0; t < tokens; t++) {
        for (uint32_t head = 0; head < 2 * kv->kv_heads; head++) {
            uint8_t *at = kv_at(kv, row, t, head % 2, head / 2);
            for (uint32_t c = 0; c < kv->head_dim; c++) {
                gpu_store(at, kv->type, c, 2 * rig_number());
            }
        }
    }
}
