/* SPDX-License-Identifier: MIT */
#pragma once
/* What: what mkmodel is asked for. */
#include <stdbool.h>
#include <stdint.h>

#include "tools/command_line.h"

struct shape {
    uint32_t layers, dim, heads, kv_heads, ffn, context, vocab;
    uint32_t head_dim;              /* 0: not given */
};
struct family {
    const char *name;
    bool qkv_bias, qk_norm;
};
enum rope { ROPE_PLAIN, ROPE_LINEAR, ROPE_LLAMA3, ROPES };

struct settings {
    const char *out, *preset;
    const char *chat_template;      /* a file; NULL: none */
    struct argument_texts control;
    const struct family *family;
    enum rope rope;
    uint32_t type;                  /* a quant's */
    uint64_t seed;
    uint32_t rope_base;
    bool tied, sparse;
    struct shape shape;
};

static inline uint32_t head_dim_of(const struct shape *shape)
{
    return shape->head_dim != 0 ? shape->head_dim : shape->dim / shape->heads;
}
