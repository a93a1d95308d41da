/* SPDX-License-Identifier: MIT */
/*
 * What: the list of a model's tensors: config/model/layer.def for each layer, and the four of the
 * model.
 * Bounds: a quadratic search over at most GGUF_TENSORS_MAX names. BOOT_ONLY.
 */
#include "config/model/tensors.h"

#include <stdio.h>

#include "config/base/assert.h"

uint32_t model_tensors_count(const struct model_shape *shape)
{
    return MODEL_TENSORS + shape->layers * MODEL_LAYER_TENSORS;
}

/* False: this model has no such tensor. */
static bool find_of_layer(struct model_tensor *tensor, const struct model_shape *s)
{
    const char *name = "";
    bool wanted = true;
    switch ((enum model_layer_tensor)tensor->kind) {
#define LAYER_MATRIX(noun, outputs_, columns_)          \
    case MODEL_LAYER_##noun:                            \
        name = #noun ".weight";                         \
        tensor->outputs = outputs_;                     \
        tensor->columns = columns_;                     \
        break;
#define LAYER_VECTOR(noun, file, count, wanted_)        \
    case MODEL_LAYER_##noun:                            \
        name = file;                                    \
        wanted = wanted_;                               \
        tensor->columns = count;                        \
        break;
#include "config/model/layer.def"
#undef LAYER_MATRIX
#undef LAYER_VECTOR
    case MODEL_LAYER_TENSORS:
        ASSERT(!"a tensor of the list");
    }
    snprintf(tensor->name, sizeof tensor->name, "blk.%u.%s", tensor->layer, name);
    return wanted;
}

/* The same for the others: tied output, no RoPE factors. */
static bool find_of_model(struct model_tensor *tensor, const struct model_shape *s)
{
    const char *name = "";
    bool wanted = true;
    tensor->columns = s->dim;
    switch ((enum model_whole_tensor)tensor->kind) {
    case MODEL_token_embd:
        name = "token_embd";
        tensor->outputs = s->vocab_tokens;
        break;
    case MODEL_output_norm:
        name = "output_norm";
        break;
    case MODEL_output:
        name = "output";
        wanted = !s->tied_output;
        tensor->outputs = s->vocab_tokens;
        break;
    case MODEL_rope_freqs:
        name = "rope_freqs";
        wanted = s->has_rope_factors;
        tensor->columns = s->rope_dim / 2;
        break;
    case MODEL_TENSORS:
        ASSERT(!"a tensor of the list");
    }
    snprintf(tensor->name, sizeof tensor->name, "%s.weight", name);
    return wanted;
}

bool model_tensor_find(struct model_tensor *tensor, const struct gguf *gguf, uint32_t index)
{
    bool wanted;
    *tensor = (struct model_tensor){.layer = MODEL_LAYER_NONE, .kind = index};
    if (index < MODEL_TENSORS) {
        wanted = find_of_model(tensor, &gguf->shape);
    } else {
        tensor->layer = (index - MODEL_TENSORS) / MODEL_LAYER_TENSORS;
        tensor->kind = (index - MODEL_TENSORS) % MODEL_LAYER_TENSORS;
        wanted = find_of_layer(tensor, &gguf->shape);
    }
    tensor->tensor = wanted ? gguf_tensor_find(gguf, tensor->name) : NULL;
    return wanted;
}
