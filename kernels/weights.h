/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the weights of a Llama-architecture model, packed for the kernels. Private to kernels/ (and
 * its tests); others hold the pointer that kernels_weights_load() gave them.
 *
 * Vectors (norms, RoPE factors) are floats, padded with zeros to whole panels.
 */
#include "kernels/kernels.h"
#include "kernels/matrix.h"

/* Every matrix: WEIGHT_MATRIX(name in the file, outputs, columns) with `s` the model's shape. */
#define KERNELS_LAYER_MATRICES                                                  \
    WEIGHT_MATRIX(attn_q, (uint64_t)s->heads * s->head_dim, s->dim)             \
    WEIGHT_MATRIX(attn_k, (uint64_t)s->kv_heads * s->head_dim, s->dim)          \
    WEIGHT_MATRIX(attn_v, (uint64_t)s->kv_heads * s->head_dim, s->dim)          \
    WEIGHT_MATRIX(attn_output, s->dim, (uint64_t)s->heads * s->head_dim)        \
    WEIGHT_MATRIX(ffn_gate, s->ffn_dim, s->dim)                                 \
    WEIGHT_MATRIX(ffn_up, s->ffn_dim, s->dim)                                   \
    WEIGHT_MATRIX(ffn_down, s->dim, s->ffn_dim)

struct kernels_layer {
#define WEIGHT_MATRIX(name, outputs, columns) struct kernels_matrix name;
    KERNELS_LAYER_MATRICES
#undef WEIGHT_MATRIX
    float *attn_norm, *ffn_norm;        /* (dim) */
};

struct kernels_weights {
    struct model_shape shape;
    struct kernels_matrix token_embd;   /* (vocab_tokens, dim) */
    struct kernels_matrix output;       /* the same panels when the output is tied */
    float *output_norm;                 /* (dim) */
    float *rope_factors;                /* (rope_dim / 2), or NULL */
    struct kernels_layer *layers;       /* [shape.layers] */
};
