/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the weights of a model, packed for the kernels. Private to kernels/ and its tests; others
 * hold a pointer only.
 *
 * Vectors (norms, biases, RoPE factors) are floats, padded with zeros to whole panels.
 */
#include "kernels/kernels.h"
#include "kernels/weights/matrix.h"
#include "config/model/tensors.h"

struct kernels_layer {
#define LAYER_MATRIX(name, outputs, columns) struct kernels_matrix name;
#define LAYER_VECTOR(name, file, count, wanted) float *name;    /* NULL: the model has none */
#include "config/model/layer.def"
#undef LAYER_MATRIX
#undef LAYER_VECTOR
};

struct kernels_weights {
    struct model_shape shape;
    struct kernels_matrix token_embd;   /* (vocab_tokens, dim) */
    struct kernels_matrix output;       /* the same panels when the output is tied */
    float *output_norm;                 /* (dim) */
    float *rope_factors;                /* (rope_dim / 2), or NULL */
    struct kernels_layer *layers;       /* [shape.layers] */
};
