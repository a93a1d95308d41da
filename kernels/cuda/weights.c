/* SPDX-License-Identifier: MIT */
/*
 * What: from tensors in a file to the memory of a GPU; see weights.h. BOOT_ONLY.
 * Bounds: one tensor at a time goes through the staging buffer, in pieces of it.
 */
#include "kernels/cuda/weights.h"

#include <stdio.h>

#include "appliance/base/assert.h"

static const struct gpu_format {
    enum gguf_type file;
    enum gpu_type type;
} formats[] = {{GGUF_F32, GPU_F32}, {GGUF_F16, GPU_F16}, {GGUF_BF16, GPU_BF16},
               {GGUF_Q8_0, GPU_Q8_0}};

static const struct gpu_format *format_of(uint32_t type)
{
    for (uint32_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        if (formats[i].file == type) {
            return &formats[i];
        }
    }
    return NULL;
}

static struct gpu_matrix *matrix_of(struct gpu_weights *w, const struct model_tensor *t)
{
    if (t->layer == MODEL_LAYER_NONE) {
        return t->kind == MODEL_token_embd ? &w->token_embd : &w->output;
    }
    struct gpu_layer *layer = &w->layers[t->layer];
    switch ((enum model_layer_tensor)t->kind) {
#define LAYER_MATRIX(name, outputs, columns) case MODEL_LAYER_##name: return &layer->name;
#define LAYER_VECTOR(name, file, count, wanted)
#include "config/layer.def"
#undef LAYER_MATRIX
#undef LAYER_VECTOR
    default: ASSERT(!"a matrix"); return NULL;
    }
}

static uint64_t *vector_of(struct gpu_weights *w, const struct model_tensor *t)
{
    if (t->layer == MODEL_LAYER_NONE) {
        return &w->output_norm;
    }
    struct gpu_layer *layer = &w->layers[t->layer];
    switch ((enum model_layer_tensor)t->kind) {
#define LAYER_MATRIX(name, outputs, columns)
#define LAYER_VECTOR(name, file, count, wanted) case MODEL_LAYER_##name: return &layer->name;
#include "config/layer.def"
#undef LAYER_MATRIX
#undef LAYER_VECTOR
    default: ASSERT(!"a vector"); return NULL;
    }
}

static bool is_of_the_host(const struct model_tensor *tensor)
{
    return tensor->layer == MODEL_LAYER_NONE && tensor->kind == MODEL_rope_freqs;
}

uint64_t gpu_weights_bytes(const struct gguf *gguf)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < model_tensors_count(&gguf->shape); i++) {
        struct model_tensor tensor;
        if (model_tensor_find(&tensor, gguf, i) && !is_of_the_host(&tensor)) {
            bytes += gpu_taken_bytes(1, tensor.tensor->bytes);
        }
    }
    return bytes;
}

static enum status check_types(const struct gguf *gguf, const char *source,
                               struct config_error *error)
{
    for (uint32_t i = 0; i < model_tensors_count(&gguf->shape); i++) {
        struct model_tensor tensor;
        if (model_tensor_find(&tensor, gguf, i) && format_of(tensor.tensor->type) == NULL) {
            snprintf(error->text, sizeof error->text,
                     "%s: tensor %s: is %s; the GPU engine needs F32, F16, BF16 or Q8_0", source,
                     tensor.name, gguf_type_name(tensor.tensor->type));
            return STATUS_CONFIG_MODEL;
        }
    }
    return STATUS_OK;
}

/* Where a load reads from, and through what. */
struct loading {
    struct gpu_queue *queue;
    const struct gguf_source *source;
    void *staging;
    uint64_t staging_bytes;
};

static enum status copy_tensor(const struct loading *loading, const struct gguf_tensor *tensor,
                               uint64_t to, struct config_error *error)
{
    for (uint64_t offset = 0; offset < tensor->bytes;) {
        uint64_t left = tensor->bytes - offset;
        uint64_t bytes = left < loading->staging_bytes ? left : loading->staging_bytes;
        TRY(gguf_read(loading->source, tensor->offset + offset, loading->staging, bytes, error));
        gpu_upload(loading->queue, to + offset, loading->staging, bytes);
        TRY(gpu_check(loading->queue, error));
        offset += bytes;
    }
    return STATUS_OK;
}

static enum status load_tensor(struct gpu_weights *weights, const struct loading *loading,
                               const struct model_tensor *tensor, struct config_error *error)
{
    const struct gguf_tensor *file = tensor->tensor;
    if (is_of_the_host(tensor)) {
        return gguf_read(loading->source, file->offset, weights->rope_factors, file->bytes, error);
    }
    uint64_t at = gpu_take(loading->queue, 1, file->bytes);
    if (tensor->outputs == 0) {
        *vector_of(weights, tensor) = at;
    } else {
        *matrix_of(weights, tensor) = (struct gpu_matrix){
            at, (uint32_t)tensor->outputs, (uint32_t)tensor->columns, format_of(file->type)->type};
    }
    return copy_tensor(loading, file, at, error);
}

enum status gpu_weights_load(struct gpu_weights *weights, struct gpu_queue *queue,
                             const struct gguf *gguf, const struct gguf_source *source,
                             void *staging, uint64_t staging_bytes, struct config_error *error)
{
    const struct loading loading = {queue, source, staging, staging_bytes};
    TRY(check_types(gguf, source->name, error));
    *weights = (struct gpu_weights){.shape = gguf->shape};
    for (uint32_t i = 0; i < gguf->shape.rope_dim / 2; i++) {
        weights->rope_factors[i] = 1;
    }
    for (uint32_t i = 0; i < model_tensors_count(&gguf->shape); i++) {
        struct model_tensor tensor;
        if (model_tensor_find(&tensor, gguf, i)) {
            TRY(load_tensor(weights, &loading, &tensor, error));
        }
    }
    if (gguf->shape.tied_output) {
        weights->output = weights->token_embd;
    }
    return STATUS_OK;
}
