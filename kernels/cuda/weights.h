/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the weights of a model in the memory of a GPU: matrices as in the file, a row for each
 * output, but those of levels in panels, as the CPU engine has them (kernels/weights/panel.h);
 * norms, biases and RoPE factors as floats. The list is config/model/tensors.h.
 */
#include "kernels/cuda/queue.h"
#include "config/model/tensors.h"

struct gpu_matrix {
    uint64_t at;                /* (outputs, columns), or panels */
    uint32_t outputs, columns;
    uint32_t type;              /* enum gpu_type */
};

struct gpu_layer {
#define LAYER_MATRIX(name, outputs, columns) struct gpu_matrix name;
#define LAYER_VECTOR(name, file, count, wanted) uint64_t name;  /* float (count); 0: it has none */
#include "config/model/layer.def"
#undef LAYER_MATRIX
#undef LAYER_VECTOR
    /* Matrices of one input, type and extent of memory, as one: a product of all. Outputs 0: they
     * are not. Which it is follows from the model alone. */
    struct gpu_matrix attn_qkv, ffn_gate_up;
};

struct gpu_weights {
    struct model_shape shape;
    struct gpu_matrix token_embd;   /* (vocab_tokens, dim) */
    struct gpu_matrix output;       /* the same when the output is tied */
    uint64_t output_norm;           /* float (dim) */
    float rope_factors[GGUF_HEAD_DIM_MAX / 2]; /* of the host: the table is made there; 1: none */
    struct gpu_layer layers[GGUF_LAYERS_MAX];
};

/* The type on the device for a type in the file. */
enum gpu_type gpu_type_of(enum gguf_type type);
/* Bytes of a matrix that ends with a whole panel. */
uint64_t gpu_matrix_bytes(const struct gpu_matrix *matrix);
/* Bytes of the staging buffer that a panel of levels passes through: the panel, what comes back of
 * it, and its outputs as the file has them. */
uint64_t gpu_panel_staging(const struct model_tensor *tensor);
/* Device bytes of a tensor. */
uint64_t gpu_tensor_bytes(const struct model_tensor *tensor);
bool gpu_is_of_the_host(const struct model_tensor *tensor);
/* Device bytes that the weights take. */
uint64_t gpu_weights_bytes(const struct gguf *gguf);

/* Where weights come from, and the buffer that they pass. */
struct gpu_loading {
    struct gpu_queue *queue;
    const struct gguf_source *source;
    uint8_t *staging;               /* pinned */
    uint64_t staging_bytes;
    volatile uint64_t *heartbeat;   /* grows with each piece */
};
/* BOOT_ONLY. gpu_plan_check() has passed. Copies are read back and compared. That floats and halves
 * are finite is not checked: the first logits show it. */
MUST_CHECK enum status gpu_weights_load(struct gpu_weights *weights,
                                        const struct gpu_loading *loading,
                                        const struct gguf *gguf, struct config_error *error);
