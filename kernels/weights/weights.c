/* SPDX-License-Identifier: MIT
 *
 * What: from tensors in a file to packed weights. One list says which tensors a model has and their
 * shapes; planning, checking, placing and reading all walk that list.
 *
 *   plan    bytes by the list, from the header alone
 *   load    1. every tensor of the list is there and has its shape, else an error names both
 *           2. matrices and vectors are placed in the arena
 *           3. tensors are read in the order of the file's table, piece by piece, checked and
 *              packed
 *
 * Invariants: the arena gives exactly what was planned. Tensors that are not on the list are not
 * read. The digest covers the bytes of those on the list, in the order of the table.
 *
 * Bounds: PIECE_BYTES of stack; time linear in the file, plus a quadratic search over at most
 * GGUF_TENSORS_MAX names. BOOT_ONLY.
 */
#include "kernels/weights/weights.h"

#include <stdio.h>
#include <string.h>

#include "config/base/fnv.h"

#define PIECE_BYTES   (64u * 1024)    /* the most of a tensor that is read and packed at a time */

static struct kernels_matrix *matrix_of(struct kernels_weights *w, const struct model_tensor *t)
{
    struct kernels_layer *layer = t->layer == MODEL_LAYER_NONE ? NULL : &w->layers[t->layer];
    if (layer == NULL) {
        return t->kind == MODEL_token_embd ? &w->token_embd : &w->output;
    }
    switch ((enum model_layer_tensor)t->kind) {
#define LAYER_MATRIX(name, outputs, columns) case MODEL_LAYER_##name: return &layer->name;
#define LAYER_VECTOR(name, file, count, wanted)
#include "config/model/layer.def"
#undef LAYER_MATRIX
#undef LAYER_VECTOR
    default: ASSERT(!"a matrix"); return NULL;
    }
}

static float **vector_of(struct kernels_weights *w, const struct model_tensor *t)
{
    struct kernels_layer *layer = t->layer == MODEL_LAYER_NONE ? NULL : &w->layers[t->layer];
    if (layer == NULL) {
        return t->kind == MODEL_output_norm ? &w->output_norm : &w->rope_factors;
    }
    switch ((enum model_layer_tensor)t->kind) {
#define LAYER_MATRIX(name, outputs, columns)
#define LAYER_VECTOR(name, file, count, wanted) case MODEL_LAYER_##name: return &layer->name;
#include "config/model/layer.def"
#undef LAYER_MATRIX
#undef LAYER_VECTOR
    default: ASSERT(!"a vector"); return NULL;
    }
}

static uint64_t vector_bytes(uint64_t columns)
{
    return kernels_lanes_ceil((uint32_t)columns) * sizeof(float);
}

struct totals {
    uint64_t vector_bytes, panel_bytes, file_bytes;
};

/* The type of a tensor's panels. */
static enum gguf_type panel_type(const struct gguf_tensor *tensor, bool as_bfloats)
{
    enum gguf_type type = (enum gguf_type)tensor->type;
    return as_bfloats && (type == GGUF_F32 || type == GGUF_F16) ? GGUF_BF16 : type;
}

static struct totals totals_of(const struct gguf *gguf, bool as_bfloats)
{
    struct totals totals = {0};
    for (uint32_t i = 0; i < model_tensors_count(&gguf->shape); i++) {
        struct model_tensor entry;
        if (!model_tensor_find(&entry, gguf, i)) {
            continue;
        }
        totals.file_bytes += entry.tensor->bytes;
        if (entry.outputs == 0) {
            totals.vector_bytes += vector_bytes(entry.columns);
        } else {
            enum gguf_type type = panel_type(entry.tensor, as_bfloats);
            totals.panel_bytes +=
                kernels_matrix_bytes(type, (uint32_t)entry.outputs, (uint32_t)entry.columns);
        }
    }
    return totals;
}

void kernels_weights_plan_memory(struct memory_plan *plan, const struct gguf *gguf, bool as_bfloats)
{
    struct totals totals = totals_of(gguf, as_bfloats);
    uint32_t layers = gguf->shape.layers;
    memory_plan_add(plan, MEMORY_WEIGHTS, "kernels weights", 1, sizeof(struct kernels_weights));
    memory_plan_add(plan, MEMORY_WEIGHTS, "kernels layers", layers, sizeof(struct kernels_layer));
    memory_plan_add(plan, MEMORY_WEIGHTS, "kernels vectors", 1, totals.vector_bytes);
    memory_plan_add(plan, MEMORY_WEIGHTS, "kernels matrices", 1, totals.panel_bytes);
}

/* Takes all memory, and points every matrix and vector into it. */
static struct kernels_weights *weights_place(const struct gguf *gguf, bool as_bfloats,
                                             struct arena *arena)
{
    struct totals totals = totals_of(gguf, as_bfloats);
    struct kernels_weights *weights = arena_take(arena, 1, sizeof *weights);
    weights->shape = gguf->shape;
    weights->layers = arena_take(arena, gguf->shape.layers, sizeof *weights->layers);
    uint8_t *vectors = arena_take(arena, 1, totals.vector_bytes);
    uint8_t *panels = arena_take(arena, 1, totals.panel_bytes);
    for (uint32_t i = 0; i < model_tensors_count(&gguf->shape); i++) {
        struct model_tensor entry;
        if (!model_tensor_find(&entry, gguf, i)) {
            continue;
        }
        if (entry.outputs == 0) {
            *vector_of(weights, &entry) = (float *)(void *)vectors;
            vectors += vector_bytes(entry.columns);
            continue;
        }
        enum gguf_type type = panel_type(entry.tensor, as_bfloats);
        uint32_t outputs = (uint32_t)entry.outputs, columns = (uint32_t)entry.columns;
        struct kernels_matrix *matrix = matrix_of(weights, &entry);
        kernels_matrix_init(matrix, type, outputs, columns, panels);
        matrix->file_type = (enum gguf_type)entry.tensor->type;
        panels += kernels_matrix_bytes(type, outputs, columns);
    }
    if (gguf->shape.tied_output) {
        weights->output = weights->token_embd;
    }
    return weights;
}

static bool vector_store(float *vector, uint64_t offset, const uint8_t *piece, uint64_t bytes)
{
    uint8_t *to = (uint8_t *)vector + offset;
    memcpy(to, piece, bytes);
    uint32_t worst = 0;
    for (uint64_t i = 0; i < bytes; i += 4) {
        uint32_t bits;
        memcpy(&bits, to + i, sizeof bits);
        bits &= 0x7fffffffu;
        worst = bits > worst ? bits : worst;
    }
    return worst < 0x7f800000u;
}

static enum status read_tensor(const struct model_tensor *entry, struct kernels_loading *loading,
                             volatile uint32_t *progress, struct config_error *error)
{
    const struct gguf_tensor *tensor = entry->tensor;
    uint8_t piece[PIECE_BYTES];
    /* Pieces are whole quantisation blocks, and whole words of the digest. */
    uint64_t whole = PIECE_BYTES - PIECE_BYTES % (gguf_type_block(tensor->type).bytes * 8);
    for (uint64_t offset = 0; offset < tensor->bytes;) {
        uint64_t left = tensor->bytes - offset;
        uint64_t bytes = left < whole ? left : whole;
        TRY(gguf_read(loading->source, tensor->offset + offset, piece, bytes, error));
        bool finite = entry->outputs == 0
                          ? vector_store(*vector_of(loading->weights, entry), offset, piece, bytes)
                          : kernels_matrix_pack(matrix_of(loading->weights, entry), offset, piece,
                                                bytes);
        if (!finite) {
            snprintf(error->text, sizeof error->text,
                     "%s: tensor %s: a weight near byte %llu is not finite, or not as BF16 if it "
                     "should be that; needs finite numbers",
                     loading->source->name, entry->name,
                     (unsigned long long)(tensor->offset + offset));
            return STATUS_CONFIG_MODEL;
        }
        loading->digest = fnv_add_words(loading->digest, piece, bytes);
        offset += bytes;
        loading->done_bytes += bytes;
        if (progress != NULL) {
            *progress = (uint32_t)(loading->done_bytes * 1000 / loading->total_bytes);
        }
    }
    return STATUS_OK;
}

/* The entry of the list that each tensor of the file is, plus one; 0: none, so it is not read. */
static void order_tensors(uint32_t order[GGUF_TENSORS_MAX], const struct gguf *gguf)
{
    memset(order, 0, GGUF_TENSORS_MAX * sizeof order[0]);
    for (uint32_t i = 0; i < model_tensors_count(&gguf->shape); i++) {
        struct model_tensor entry;
        if (model_tensor_find(&entry, gguf, i)) {
            order[entry.tensor - gguf->tensors] = i + 1;
        }
    }
}

void kernels_loading_begin(struct kernels_loading *loading, const struct gguf *gguf,
                           const struct gguf_source *source, bool as_bfloats, struct arena *arena)
{
    ASSERT(gguf->has_model);
    ASSERT(gguf->shape.layers > 0 && gguf->shape.layers <= GGUF_LAYERS_MAX);
    loading->gguf = gguf;
    loading->source = source;
    loading->weights = weights_place(gguf, as_bfloats, arena);
    loading->done_bytes = 0;
    loading->total_bytes = totals_of(gguf, as_bfloats).file_bytes;
    loading->digest = FNV_START;
    loading->tensor_next = 0;
    order_tensors(loading->order, gguf);
}

enum status kernels_loading_next(struct kernels_loading *loading, volatile uint32_t *progress,
                                 struct config_error *error)
{
    const struct gguf *gguf = loading->gguf;
    struct model_tensor entry;
    ASSERT(loading->done_bytes < loading->total_bytes);
    while (loading->order[loading->tensor_next] == 0) {
        loading->tensor_next++;
        ASSERT(loading->tensor_next < gguf->tensors_count);
    }
    uint32_t index = loading->order[loading->tensor_next++] - 1;
    bool found = model_tensor_find(&entry, gguf, index);
    ASSERT(found);
    return read_tensor(&entry, loading, progress, error);
}

enum status kernels_loading_finish(struct kernels_loading *loading, volatile uint32_t *progress,
                                   struct config_error *error)
{
    while (loading->done_bytes < loading->total_bytes) {
        TRY(kernels_loading_next(loading, progress, error));
    }
    return STATUS_OK;
}
