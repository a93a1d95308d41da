/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the list of a model's tensors: which it has, what shape each must be, and what the file has
 * of it. The scan checks the file by it; engines plan, place and read by it.
 */
#include "config/model/gguf.h"

enum model_layer_tensor {
#define LAYER_MATRIX(name, outputs, columns) MODEL_LAYER_##name,
#define LAYER_VECTOR(name, file, count, wanted) MODEL_LAYER_##name,
#include "config/model/layer.def"
#undef LAYER_MATRIX
#undef LAYER_VECTOR
    MODEL_LAYER_TENSORS
};
enum model_whole_tensor {
    MODEL_token_embd,
    MODEL_output_norm,
    MODEL_output,
    MODEL_rope_freqs,
    MODEL_TENSORS
};
#define MODEL_LAYER_NONE UINT32_MAX

/* One tensor of the list. */
struct model_tensor {
    const struct gguf_tensor *tensor;   /* NULL: the file lacks it, which a scan refuses */
    char name[GGUF_NAME_BYTES];
    uint32_t layer;                     /* MODEL_LAYER_NONE: of the model as a whole */
    uint32_t kind;                      /* enum model_layer_tensor, or _whole_tensor */
    uint64_t outputs, columns;          /* outputs 0: a vector */
};

/* Entries of the list. */
uint32_t model_tensors_count(const struct model_shape *shape);
/* Entry `index`; false: not part of this model. BOOT_ONLY. */
bool model_tensor_find(struct model_tensor *tensor, const struct gguf *gguf, uint32_t index);
