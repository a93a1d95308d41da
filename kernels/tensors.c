/* SPDX-License-Identifier: MIT */
/*
 * What: the list of a model's tensors: config/layer.def for each layer, and the four of the model.
 * Bounds: a quadratic search over at most GGUF_TENSORS_MAX names. BOOT_ONLY.
 */
#include "kernels/tensors.h"

#include <stdio.h>
#include <string.h>

#include "appliance/base/assert.h"

uint32_t kernels_tensors_count(const struct model_shape *shape)
{
    return KERNELS_MODEL_TENSORS + shape->layers * KERNELS_LAYER_TENSORS;
}

/* False: this model has no such tensor. */
static bool find_of_layer(struct kernels_tensor *tensor, const struct model_shape *s)
{
    const char *name = "";
    bool wanted = true;
    switch ((enum kernels_layer_tensor)tensor->kind) {
#define LAYER_MATRIX(noun, outputs_, columns_)          \
    case KERNELS_LAYER_##noun:                          \
        name = #noun ".weight";                         \
        tensor->outputs = outputs_;                     \
        tensor->columns = columns_;                     \
        break;
#define LAYER_VECTOR(noun, file, count, wanted_)        \
    case KERNELS_LAYER_##noun:                          \
        name = file;                                    \
        wanted = wanted_;                               \
        tensor->columns = count;                        \
        break;
#include "config/layer.def"
#undef LAYER_MATRIX
#undef LAYER_VECTOR
    case KERNELS_LAYER_TENSORS:
        ASSERT(!"a tensor of the list");
    }
    snprintf(tensor->name, sizeof tensor->name, "blk.%u.%s", tensor->layer, name);
    return wanted;
}

/* The same for the others: tied output, no RoPE factors. */
static bool find_of_model(struct kernels_tensor *tensor, const struct model_shape *s)
{
    const char *name = "";
    bool wanted = true;
    tensor->columns = s->dim;
    switch ((enum kernels_model_tensor)tensor->kind) {
    case KERNELS_MODEL_token_embd:
        name = "token_embd";
        tensor->outputs = s->vocab_tokens;
        break;
    case KERNELS_MODEL_output_norm:
        name = "output_norm";
        break;
    case KERNELS_MODEL_output:
        name = "output";
        wanted = !s->tied_output;
        tensor->outputs = s->vocab_tokens;
        break;
    case KERNELS_MODEL_rope_freqs:
        name = "rope_freqs";
        wanted = s->has_rope_factors;
        tensor->columns = s->rope_dim / 2;
        break;
    case KERNELS_MODEL_TENSORS:
        ASSERT(!"a tensor of the list");
    }
    snprintf(tensor->name, sizeof tensor->name, "%s.weight", name);
    return wanted;
}

bool kernels_tensor_find(struct kernels_tensor *tensor, const struct gguf *gguf, uint32_t index)
{
    bool wanted;
    *tensor = (struct kernels_tensor){.layer = KERNELS_LAYER_NONE, .kind = index};
    if (index < KERNELS_MODEL_TENSORS) {
        wanted = find_of_model(tensor, &gguf->shape);
    } else {
        tensor->layer = (index - KERNELS_MODEL_TENSORS) / KERNELS_LAYER_TENSORS;
        tensor->kind = (index - KERNELS_MODEL_TENSORS) % KERNELS_LAYER_TENSORS;
        wanted = find_of_layer(tensor, &gguf->shape);
    }
    tensor->tensor = wanted ? gguf_tensor_find(gguf, tensor->name) : NULL;
    return wanted;
}

bool kernels_tensor_type_is_known(const struct kernels_tensor *slot)
{
    uint32_t type = slot->tensor->type;
    bool vector = slot->outputs == 0;
    return type == GGUF_F32 || (!vector && gguf_type_block(type).values > 0);
}

static enum status refuse(struct config_error *error, const char *source,
                          const struct kernels_tensor *slot, const char *has)
{
    char needs[48];
    if (slot->outputs == 0) {
        snprintf(needs, sizeof needs, "%llu", (unsigned long long)slot->columns);
    } else {
        snprintf(needs, sizeof needs, "%llu x %llu", (unsigned long long)slot->columns,
                 (unsigned long long)slot->outputs);
    }
    snprintf(error->text, sizeof error->text, "%s: tensor %s: %s, needs %s", source, slot->name,
             has, needs);
    return STATUS_CONFIG_MODEL;
}

enum status kernels_tensor_check(const struct kernels_tensor *slot, const char *source,
                              struct config_error *error)
{
    const struct gguf_tensor *tensor = slot->tensor;
    if (tensor == NULL) {
        return refuse(error, source, slot, "missing");
    }
    uint32_t dims = slot->outputs == 0 ? 1 : 2;
    bool fits = tensor->dims_count >= dims && tensor->dims[0] == slot->columns &&
                (dims == 1 || tensor->dims[1] == slot->outputs);
    for (uint32_t d = dims; d < tensor->dims_count; d++) {
        fits = fits && tensor->dims[d] == 1;
    }
    if (!fits) {
        char has[96] = "has ";
        for (uint32_t d = 0; d < tensor->dims_count && d < 4; d++) {
            snprintf(has + strlen(has), sizeof has - strlen(has), "%s%llu", d ? " x " : "",
                     (unsigned long long)tensor->dims[d]);
        }
        return refuse(error, source, slot, has);
    }
    if (!kernels_tensor_type_is_known(slot)) {
        char has[48];
        snprintf(has, sizeof has, "is %s and not %s", gguf_type_name(tensor->type),
                 slot->outputs == 0 ? "F32" : "a type of weights");
        return refuse(error, source, slot, has);
    }
    if (slot->columns % gguf_type_block(tensor->type).values != 0) {
        char has[48];
        snprintf(has, sizeof has, "is %s with broken blocks", gguf_type_name(tensor->type));
        return refuse(error, source, slot, has);
    }
    return STATUS_OK;
}

enum status kernels_tensors_check(const struct gguf *gguf, const char *source,
                                  struct config_error *error)
{
    for (uint32_t i = 0; i < kernels_tensors_count(&gguf->shape); i++) {
        struct kernels_tensor tensor;
        if (kernels_tensor_find(&tensor, gguf, i)) {
            TRY(kernels_tensor_check(&tensor, source, error));
        }
    }
    return STATUS_OK;
}
