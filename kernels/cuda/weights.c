/* SPDX-License-Identifier: MIT */
/*
 * What: from tensors in a file to the memory of a GPU; see weights.h. BOOT_ONLY.
 * Bounds: one tensor at a time goes through the staging buffer, piece by piece.
 *
 * Q8_0 becomes F16 as it is loaded. The library does not take quantisation blocks, and converting
 * them for each product would read and write them twice more per token. So Q8_0 saves space in the
 * file only.
 */
#include "kernels/cuda/weights.h"

#include <stdio.h>
#include <string.h>

#include "config/base/assert.h"

static struct gpu_matrix *matrix_of(struct gpu_weights *w, const struct model_tensor *t)
{
    if (t->layer == MODEL_LAYER_NONE) {
        return t->kind == MODEL_token_embd ? &w->token_embd : &w->output;
    }
    struct gpu_layer *layer = &w->layers[t->layer];
    switch ((enum model_layer_tensor)t->kind) {
#define LAYER_MATRIX(name, outputs, columns) case MODEL_LAYER_##name: return &layer->name;
#define LAYER_VECTOR(name, file, count, wanted)
#include "config/model/layer.def"
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
#include "config/model/layer.def"
#undef LAYER_MATRIX
#undef LAYER_VECTOR
    default: ASSERT(!"a vector"); return NULL;
    }
}

/* Copies a piece of a tensor to the device and back; each direction has half of the staging. */
static enum status copy_piece(const struct gpu_loading *loading, uint64_t from, uint64_t to,
                              uint64_t bytes, struct config_error *error)
{
    uint8_t *back = loading->staging + loading->staging_bytes / 2;
    TRY(gguf_read(loading->source, from, loading->staging, bytes, error));
    gpu_upload(loading->queue, to, loading->staging, bytes);
    gpu_download(loading->queue, back, to, bytes);
    TRY(gpu_check(loading->queue, error));
    *loading->heartbeat += 1;
    if (memcmp(loading->staging, back, bytes) != 0) {
        snprintf(error->text, sizeof error->text,
                 "GPU: weights that were copied to it are others there");
        return STATUS_DEVICE_FAILED;
    }
    return STATUS_OK;
}

/* Dequantises a piece in the device's staging buffer to where it belongs. */
static void queue_halves(const struct gpu_loading *loading, uint64_t to, uint64_t bytes)
{
    const struct gpu_dequantize args = {
        .from = loading->device_staging, .to = to,
        .count = bytes / GPU_Q8_0_BYTES * GPU_Q8_0_COLUMNS, .to_type = GPU_F16,
    };
    GPU_LAUNCH(loading->queue, dequantize, &args);
}

/* Pieces are whole quantisation blocks of any type. */
static enum status copy_tensor(const struct gpu_loading *loading, const struct gguf_tensor *tensor,
                               uint64_t to, struct config_error *error)
{
    bool is_q8_0 = tensor->type == GGUF_Q8_0;
    uint64_t most = loading->staging_bytes / 2 / GPU_Q8_0_BYTES * GPU_Q8_0_BYTES;
    for (uint64_t offset = 0; offset < tensor->bytes;) {
        uint64_t left = tensor->bytes - offset, bytes = left < most ? left : most;
        uint64_t at = is_q8_0 ? loading->device_staging : to + offset;
        TRY(copy_piece(loading, tensor->offset + offset, at, bytes, error));
        if (is_q8_0) {
            queue_halves(loading, to, bytes);
            to += bytes / GPU_Q8_0_BYTES * GPU_Q8_0_COLUMNS * sizeof(uint16_t);
        }
        offset += bytes;
    }
    return STATUS_OK;
}

static enum status load_tensor(struct gpu_weights *weights, const struct gpu_loading *loading,
                               const struct model_tensor *tensor, struct config_error *error)
{
    const struct gguf_tensor *file = tensor->tensor;
    if (gpu_is_of_the_host(tensor)) {
        return gguf_read(loading->source, file->offset, weights->rope_factors, file->bytes, error);
    }
    uint64_t at = gpu_take(loading->queue, 1, gpu_tensor_bytes(file));
    if (tensor->outputs == 0) {
        *vector_of(weights, tensor) = at;
    } else {
        *matrix_of(weights, tensor) = (struct gpu_matrix){
            at, (uint32_t)tensor->outputs, (uint32_t)tensor->columns,
            gpu_format_of(file->type)->type};
    }
    return copy_tensor(loading, file, at, error);
}

enum status gpu_weights_load(struct gpu_weights *weights, const struct gpu_loading *loading,
                             const struct gguf *gguf, struct config_error *error)
{
    *weights = (struct gpu_weights){.shape = gguf->shape};
    for (uint32_t i = 0; i < gguf->shape.rope_dim / 2; i++) {
        weights->rope_factors[i] = 1;
    }
    for (uint32_t i = 0; i < model_tensors_count(&gguf->shape); i++) {
        struct model_tensor tensor;
        if (model_tensor_find(&tensor, gguf, i)) {
            TRY(load_tensor(weights, loading, &tensor, error));
        }
    }
    if (gguf->shape.tied_output) {
        weights->output = weights->token_embd;
    }
    return STATUS_OK;
}
