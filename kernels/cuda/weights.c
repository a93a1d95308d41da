/* SPDX-License-Identifier: MIT */
/*
 * What: from tensors in a file to the memory of a GPU; see weights.h. BOOT_ONLY.
 * Bounds: one tensor at a time goes through the staging buffer, piece by piece; of levels, so many
 * panels that their rows in the file, the panels, and what came back of them have room there.
 */
#include "kernels/cuda/weights.h"

#include <stdio.h>
#include <string.h>

#include "config/base/assert.h"
#include "kernels/weights/matrix.h"

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

/* What goes to the device at a time; in the staging buffer, as is what comes back of it. */
struct piece {
    const uint8_t *at;
    uint8_t *back;
    uint64_t bytes;
};

static enum status copy_piece(const struct gpu_loading *loading, const struct piece *piece,
                              uint64_t to, struct config_error *error)
{
    gpu_upload(loading->queue, to, piece->at, piece->bytes);
    gpu_download(loading->queue, piece->back, to, piece->bytes);
    TRY(gpu_check(loading->queue, error));
    *loading->heartbeat += 1;
    if (memcmp(piece->at, piece->back, piece->bytes) != 0) {
        snprintf(error->text, sizeof error->text,
                 "GPU: weights that were copied to it are others there");
        return STATUS_DEVICE_FAILED;
    }
    return STATUS_OK;
}

static enum status copy_tensor(const struct gpu_loading *loading, const struct gguf_tensor *tensor,
                               uint64_t to, struct config_error *error)
{
    uint64_t most = loading->staging_bytes / 2;
    for (uint64_t offset = 0; offset < tensor->bytes; offset += most) {
        uint64_t left = tensor->bytes - offset;
        const struct piece piece = {loading->staging, loading->staging + most,
                                    left < most ? left : most};
        TRY(gguf_read(loading->source, tensor->offset + offset, loading->staging, piece.bytes,
                      error));
        TRY(copy_piece(loading, &piece, to + offset, error));
    }
    return STATUS_OK;
}

/* ---- levels ---- */

/* Panels of a tensor that are copied at a time, in the staging buffer: the panels, what comes back
 * of them, and their outputs as the file has them. */
struct strip {
    const struct gpu_loading *loading;
    const struct model_tensor *tensor;
    uint8_t *panels, *back, *file;
    uint64_t panel_bytes, file_bytes;   /* of one panel, of one output */
    uint32_t outputs;
};

static struct strip strip_of(const struct gpu_loading *loading, const struct model_tensor *tensor)
{
    enum gguf_type type = tensor->tensor->type;
    struct strip strip = {
        .loading = loading, .tensor = tensor, .panels = loading->staging,
        .panel_bytes = kernels_columns_bytes(type, (uint32_t)tensor->columns),
        .file_bytes = gguf_row_bytes(type, tensor->columns)};
    uint64_t count = loading->staging_bytes / gpu_panel_staging(tensor);
    strip.back = strip.panels + count * strip.panel_bytes;
    strip.file = strip.back + count * strip.panel_bytes;
    strip.outputs = (uint32_t)count * KERNELS_PANEL_LANES;
    return strip;
}

/* The strip's outputs from `first` on, or as many as there are. */
static enum status copy_strip(const struct strip *strip, uint32_t first, uint64_t to,
                              struct config_error *error)
{
    const struct model_tensor *tensor = strip->tensor;
    uint32_t left = (uint32_t)tensor->outputs - first;
    uint32_t outputs = left < strip->outputs ? left : strip->outputs;
    uint64_t at = tensor->tensor->offset + first * strip->file_bytes;
    uint64_t file_bytes = outputs * strip->file_bytes;
    struct kernels_matrix panels;
    kernels_matrix_init(&panels, tensor->tensor->type, outputs, (uint32_t)tensor->columns,
                        strip->panels);
    const struct piece piece = {strip->panels, strip->back,
                                panels.panels_count * panels.panel_bytes};
    memset(strip->panels, 0, piece.bytes);
    TRY(gguf_read(strip->loading->source, at, strip->file, file_bytes, error));
    if (!kernels_matrix_pack(&panels, 0, strip->file, file_bytes)) {
        snprintf(error->text, sizeof error->text,
                 "%s: tensor %s: a scale in the %llu bytes from %llu on is not finite; needs "
                 "finite numbers", strip->loading->source->name, tensor->name,
                 (unsigned long long)file_bytes, (unsigned long long)at);
        return STATUS_CONFIG_MODEL;
    }
    return copy_piece(strip->loading, &piece,
                      to + first / KERNELS_PANEL_LANES * strip->panel_bytes, error);
}

static enum status copy_panels(const struct gpu_loading *loading, const struct model_tensor *tensor,
                               uint64_t to, struct config_error *error)
{
    const struct strip strip = strip_of(loading, tensor);
    ASSERT(strip.outputs > 0);
    for (uint32_t first = 0; first < tensor->outputs; first += strip.outputs) {
        TRY(copy_strip(&strip, first, to, error));
    }
    return STATUS_OK;
}

/* ---- all ---- */

static enum status load_tensor(struct gpu_weights *weights, const struct gpu_loading *loading,
                               const struct model_tensor *tensor, struct config_error *error)
{
    const struct gguf_tensor *file = tensor->tensor;
    if (gpu_is_of_the_host(tensor)) {
        return gguf_read(loading->source, file->offset, weights->rope_factors, file->bytes, error);
    }
    enum gpu_type type = gpu_type_of(file->type);
    uint64_t at = gpu_take(loading->queue, 1, gpu_tensor_bytes(tensor));
    if (tensor->outputs == 0) {
        *vector_of(weights, tensor) = at;
    } else {
        *matrix_of(weights, tensor) = (struct gpu_matrix){
            at, (uint32_t)tensor->outputs, (uint32_t)tensor->columns, type};
    }
    return gpu_has_levels(type) ? copy_panels(loading, tensor, at, error)
                                : copy_tensor(loading, file, at, error);
}

/* The matrices, in their order, as one. */
static struct gpu_matrix joined(const struct gpu_matrix *const parts[], uint32_t count)
{
    struct gpu_matrix whole = *parts[0];
    for (uint32_t i = 1; i < count; i++) {
        const struct gpu_matrix *next = parts[i];
        bool has_gap = gpu_has_levels(whole.type) && whole.outputs % KERNELS_PANEL_LANES != 0;
        if (has_gap || next->type != whole.type || next->columns != whole.columns ||
            next->at != whole.at + gpu_matrix_bytes(&whole)) {
            return (struct gpu_matrix){0};
        }
        whole.outputs += next->outputs;
    }
    return whole;
}

static void join_layer(struct gpu_layer *layer)
{
    const struct gpu_matrix *const heads[] = {&layer->attn_q, &layer->attn_k, &layer->attn_v};
    const struct gpu_matrix *const ffn[] = {&layer->ffn_gate, &layer->ffn_up};
    layer->attn_qkv = joined(heads, 3);
    layer->ffn_gate_up = joined(ffn, 2);
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
    for (uint32_t i = 0; i < gguf->shape.layers; i++) {
        join_layer(&weights->layers[i]);
    }
    if (gguf->shape.tied_output) {
        weights->output = weights->token_embd;
    }
    return STATUS_OK;
}
