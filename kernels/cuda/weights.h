/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the weights of a model in the memory of a GPU: matrices as they lie in the file, rows of
 * outputs; norms, biases and RoPE factors as floats. The list is config/tensors.h.
 */
#include "kernels/cuda/queue.h"
#include "config/tensors.h"

struct gpu_matrix {
    uint64_t at;                /* (outputs, columns) */
    uint32_t outputs, columns;
    uint32_t type;              /* enum gpu_type */
};

struct gpu_layer {
#define LAYER_MATRIX(name, outputs, columns) struct gpu_matrix name;
#define LAYER_VECTOR(name, file, count, wanted) uint64_t name;  /* float (count); 0: not wanted */
#include "config/layer.def"
#undef LAYER_MATRIX
#undef LAYER_VECTOR
};

struct gpu_weights {
    struct model_shape shape;
    struct gpu_matrix token_embd;   /* (vocab_tokens, dim) */
    struct gpu_matrix output;       /* the same when the output is tied */
    uint64_t output_norm;           /* float (dim) */
    float rope_factors[GGUF_HEAD_DIM_MAX / 2]; /* of the host: the table is made there; 1: none */
    struct gpu_layer layers[GGUF_LAYERS_MAX];
};

/* Device bytes that the weights take. */
uint64_t gpu_weights_bytes(const struct gguf *gguf);
/* BOOT_ONLY. Refuses types that the kernels do not read by name, copies through `staging`
 * (pinned). Whether weights are finite is told by the first logits. */
MUST_CHECK enum status gpu_weights_load(struct gpu_weights *weights, struct gpu_queue *queue,
                                        const struct gguf *gguf, const struct gguf_source *source,
                                        void *staging, uint64_t staging_bytes,
                                        struct config_error *error);
