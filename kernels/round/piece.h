/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: pieces of KV blocks. A piece is what a KV head of a layer has of a block: its keys, or its
 * values.
 *
 * In memory the pieces of a head follow each other in the order of their blocks. What attention
 * reads of neighbouring blocks is then one stream, and a whole context of one call often is one;
 * of blocks that lie anywhere, each piece is a short stream, as it would be if a block's pieces lay
 * together (decision 0118).
 */
#include "kernels/engine_state.h"

struct kernels_piece {
    uint8_t *at;
    uint64_t bytes;
};

/* Pieces of a block: the keys and then the values of each KV head of each layer. */
static inline uint32_t kernels_pieces(const struct kernels *k)
{
    return k->shape.layers * k->shape.kv_heads * 2;
}

static inline bool kernels_is_host(const struct kernels *k, uint32_t block)
{
    return block >= k->settings.kv_blocks;
}

static inline struct kernels_piece kernels_piece(const struct kernels *k, uint32_t block,
                                                 uint32_t index)
{
    bool is_host = kernels_is_host(k, block);
    uint64_t blocks = is_host ? k->settings.kv_host_blocks : k->settings.kv_blocks;
    uint64_t before = is_host ? block - k->settings.kv_blocks : block;
    uint64_t head_bytes = blocks * (k->keys_bytes + k->values_bytes);
    uint8_t *head = (is_host ? k->kv_host : k->kv) + index / 2 * head_bytes;
    ASSERT(before < blocks && index < kernels_pieces(k));
    if (index % 2 == 0) {
        return (struct kernels_piece){head + before * k->keys_bytes, k->keys_bytes};
    }
    head += blocks * k->keys_bytes;
    return (struct kernels_piece){head + before * k->values_bytes, k->values_bytes};
}

/* The keys, and the values, of a KV head. */
static inline struct kernels_piece kernels_keys(const struct kernels *k, uint32_t block,
                                                uint32_t layer, uint32_t kv_head)
{
    return kernels_piece(k, block, (layer * k->shape.kv_heads + kv_head) * 2);
}
static inline struct kernels_piece kernels_values(const struct kernels *k, uint32_t block,
                                                  uint32_t layer, uint32_t kv_head)
{
    return kernels_piece(k, block, (layer * k->shape.kv_heads + kv_head) * 2 + 1);
}
