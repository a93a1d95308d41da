/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the list of a model's tensors: which it has, what shape each must be, and what the file has
 * of it. Planning, checking, placing and reading walk this list, in every engine. Private to
 * kernels/.
 */
#include "config/gguf.h"

enum kernels_layer_tensor {
#define LAYER_MATRIX(name, outputs, columns) KERNELS_LAYER_##name,
#define LAYER_VECTOR(name, file, count, wanted) KERNELS_LAYER_##name,
#include "config/layer.def"
#undef LAYER_MATRIX
#undef LAYER_VECTOR
    KERNELS_LAYER_TENSORS
};
enum kernels_model_tensor {
    KERNELS_MODEL_token_embd,
    KERNELS_MODEL_output_norm,
    KERNELS_MODEL_output,
    KERNELS_MODEL_rope_freqs,
    KERNELS_MODEL_TENSORS
};
#define KERNELS_LAYER_NONE UINT32_MAX

/* One tensor of the list. */
struct kernels_tensor {
    const struct gguf_tensor *tensor;   /* NULL: the file lacks it */
    char name[GGUF_NAME_BYTES];
    uint32_t layer;                     /* KERNELS_LAYER_NONE: of the model as a whole */
    uint32_t kind;                      /* enum kernels_layer_tensor, or _model_tensor */
    uint64_t outputs, columns;          /* outputs 0: a vector */
};

/* Entries of the list. */
uint32_t kernels_tensors_count(const struct model_shape *shape);
/* Entry `index`; false: not part of this model. */
bool kernels_tensor_find(struct kernels_tensor *tensor, const struct gguf *gguf, uint32_t index);
/* Is the type one that can be read at all, of a matrix or of a vector? The tensor is there. */
bool kernels_tensor_type_is_known(const struct kernels_tensor *tensor);
/* BOOT_ONLY. It is there and has the shape; else the error names both. */
MUST_CHECK enum status kernels_tensor_check(const struct kernels_tensor *tensor,
                                            const char *source, struct config_error *error);
/* BOOT_ONLY. The same for every tensor of the model. */
MUST_CHECK enum status kernels_tensors_check(const struct gguf *gguf, const char *source,
                                             struct config_error *error);
