/* SPDX-License-Identifier: MIT */
#pragma once
/* What: where a number of KV lies (kernels.h states the layout of KV blocks). */
#include "kernels/cuda/device/number.h"

/* Number 0 of the keys (which = 0) or values (1) of a position, and KV head. */
GPU_INLINE void *gpu_kv_at(const struct gpu_kv *kv, const uint32_t *table, uint32_t position,
                           uint32_t which, uint32_t kv_head)
{
    uint64_t head = ((uint64_t)kv->layer * 2 + which) * kv->kv_heads + kv_head;
    uint64_t number = (head * kv->block_tokens + position % kv->block_tokens) * kv->head_dim;
    uint64_t block = table[position / kv->block_tokens];
    uint64_t bytes = kv->type == GPU_F32 ? sizeof(float) : sizeof(uint16_t);
    return (uint8_t *)kv->blocks + block * kv->block_bytes + number * bytes;
}

GPU_INLINE float *gpu_partial_at(uint64_t partials, const struct gpu_attention *a, uint32_t splits,
                                 uint64_t slot, uint32_t head)
{
    return (float *)partials + (slot * a->heads + head) * splits * (a->kv.head_dim + 2);
}

GPU_INLINE const uint32_t *gpu_kv_table(const struct gpu_kv *kv, uint32_t row)
{
    return (const uint32_t *)kv->tables + row * kv->tables_stride;
}
