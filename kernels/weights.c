/* SPDX-License-Identifier: MIT
 *
 * What: from tensors in a file to packed weights. One list says which tensors a model has and what
 * shape each must be; planning, checking, placing and reading all walk that list.
 *
 *   plan    bytes by the list, from the header alone
 *   load    1. every tensor of the list is there and has its shape, else an error names both
 *           2. matrices are placed in the arena
 *           3. tensors are read in the order of the file's table, piece by piece, checked and
 *           packed
 *
 * Invariants: the arena gives exactly what was planned; tensors that are not on the list are not
 * read; the digest covers the bytes of those on the list, in the order of the table.
 *
 * Bounds: PIECE_BYTES of stack; time linear in the file, plus a quadratic search over at most
 * GGUF_TENSORS_MAX names. BOOT_ONLY.
 */
#include "kernels/weights.h"

#include <stdio.h>
#include <string.h>

#include "appliance/base/fnv.h"

#define PIECE_BYTES   (64u * 1024)    /* of a tensor that are read and packed together, at most */
#define LAYER_NONE    UINT32_MAX

/* One tensor of the list. Exactly one of `matrix` and `vector` is where it goes (once there is a
 * struct kernels_weights; NULL while planning). */
struct slot {
    const struct gguf_tensor *tensor;   /* NULL: the file lacks it */
    char name[GGUF_NAME_BYTES];
    uint64_t outputs, columns;          /* outputs 0: a vector */
    struct kernels_matrix *matrix;
    float **vector;
};

enum layer_tensor {
#define WEIGHT_MATRIX(name, outputs, columns) LAYER_##name,
    KERNELS_LAYER_MATRICES
#undef WEIGHT_MATRIX
    LAYER_attn_norm, LAYER_ffn_norm, LAYER_TENSORS
};
enum model_tensor {
    MODEL_token_embd, MODEL_output_norm, MODEL_output, MODEL_rope_freqs, MODEL_TENSORS
};

static uint32_t slots_count(const struct model_shape *shape)
{
    return MODEL_TENSORS + shape->layers * LAYER_TENSORS;
}

static void slot_of_layer(struct slot *slot, const struct model_shape *s,
                          struct kernels_layer *layer, uint32_t index, uint32_t kind)
{
    const char *name = "";
    switch ((enum layer_tensor)kind) {
#define WEIGHT_MATRIX(noun, outputs_, columns_)         \
    case LAYER_##noun:                                  \
        name = #noun;                                   \
        slot->outputs = outputs_;                       \
        slot->columns = columns_;                       \
        slot->matrix = layer ? &layer->noun : NULL;     \
        break;
    KERNELS_LAYER_MATRICES
#undef WEIGHT_MATRIX
    case LAYER_attn_norm:
        name = "attn_norm";
        slot->columns = s->dim;
        slot->vector = layer ? &layer->attn_norm : NULL;
        break;
    case LAYER_ffn_norm:
        name = "ffn_norm";
        slot->columns = s->dim;
        slot->vector = layer ? &layer->ffn_norm : NULL;
        break;
    case LAYER_TENSORS:
        ASSERT(!"a tensor of the list");
    }
    snprintf(slot->name, sizeof slot->name, "blk.%u.%s.weight", index, name);
}

/* False: this model has no such tensor (tied output, no RoPE factors). */
static bool slot_of_model(struct slot *slot, const struct model_shape *s,
                          struct kernels_weights *weights, uint32_t kind)
{
    const char *name = "";
    bool wanted = true;
    slot->columns = s->dim;
    switch ((enum model_tensor)kind) {
    case MODEL_token_embd:
        name = "token_embd";
        slot->outputs = s->vocab_tokens;
        slot->matrix = weights ? &weights->token_embd : NULL;
        break;
    case MODEL_output_norm:
        name = "output_norm";
        slot->vector = weights ? &weights->output_norm : NULL;
        break;
    case MODEL_output:
        name = "output";
        wanted = !s->tied_output;
        slot->outputs = s->vocab_tokens;
        slot->matrix = weights ? &weights->output : NULL;
        break;
    case MODEL_rope_freqs:
        name = "rope_freqs";
        wanted = s->has_rope_factors;
        slot->columns = s->rope_dim / 2;
        slot->vector = weights ? &weights->rope_factors : NULL;
        break;
    case MODEL_TENSORS:
        ASSERT(!"a tensor of the list");
    }
    snprintf(slot->name, sizeof slot->name, "%s.weight", name);
    return wanted;
}

/* Entry `index` of the list; false: not part of this model. */
static bool slot_find(struct slot *slot, const struct gguf *gguf, struct kernels_weights *weights,
                      uint32_t index)
{
    memset(slot, 0, sizeof *slot);
    if (index < MODEL_TENSORS) {
        if (!slot_of_model(slot, &gguf->shape, weights, index)) {
            return false;
        }
    } else {
        uint32_t layer = (index - MODEL_TENSORS) / LAYER_TENSORS;
        slot_of_layer(slot, &gguf->shape, weights ? &weights->layers[layer] : NULL, layer,
                      (index - MODEL_TENSORS) % LAYER_TENSORS);
    }
    slot->tensor = gguf_tensor_find(gguf, slot->name);
    return true;
}

static uint64_t vector_bytes(uint64_t columns)
{
    return kernels_lanes_ceil((uint32_t)columns) * sizeof(float);
}

static bool type_is_known(const struct slot *slot)
{
    uint32_t type = slot->tensor->type;
    bool vector = slot->outputs == 0;
    return type == GGUF_F32 || (!vector && gguf_type_block(type).values > 0);
}

struct totals {
    uint64_t vector_bytes, panel_bytes, file_bytes;
};

static struct totals totals_of(const struct gguf *gguf)
{
    struct totals totals = {0};
    for (uint32_t i = 0; i < slots_count(&gguf->shape); i++) {
        struct slot slot;
        if (!slot_find(&slot, gguf, NULL, i) || slot.tensor == NULL || !type_is_known(&slot)) {
            continue;                   /* load() refuses what is missing or unknown */
        }
        totals.file_bytes += slot.tensor->bytes;
        if (slot.outputs == 0) {
            totals.vector_bytes += vector_bytes(slot.columns);
        } else {
            enum gguf_type type = (enum gguf_type)slot.tensor->type;
            totals.panel_bytes +=
                kernels_matrix_bytes(type, (uint32_t)slot.outputs, (uint32_t)slot.columns);
        }
    }
    return totals;
}

void kernels_weights_plan(struct plan *plan, const struct gguf *gguf)
{
    struct totals totals = totals_of(gguf);
    uint32_t layers = gguf->shape.layers;
    plan_add(plan, TIER_WEIGHTS, "kernels weights", 1, sizeof(struct kernels_weights));
    plan_add(plan, TIER_WEIGHTS, "kernels layers", layers, sizeof(struct kernels_layer));
    plan_add(plan, TIER_WEIGHTS, "kernels vectors", 1, totals.vector_bytes);
    plan_add(plan, TIER_WEIGHTS, "kernels matrices", 1, totals.panel_bytes);
}

static enum status refuse(struct config_error *error, const char *source, const struct slot *slot,
                          const char *has)
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

static enum status slot_check(const struct slot *slot, const char *source,
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
    if (!type_is_known(slot)) {
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

/* Takes all memory and points every matrix and vector into it. */
static struct kernels_weights *weights_place(const struct gguf *gguf, struct arena *arena)
{
    struct totals totals = totals_of(gguf);
    struct kernels_weights *weights = arena_take(arena, 1, sizeof *weights);
    weights->shape = gguf->shape;
    weights->layers = arena_take(arena, gguf->shape.layers, sizeof *weights->layers);
    uint8_t *vectors = arena_take(arena, 1, totals.vector_bytes);
    uint8_t *panels = arena_take(arena, 1, totals.panel_bytes);
    for (uint32_t i = 0; i < slots_count(&gguf->shape); i++) {
        struct slot slot;
        if (!slot_find(&slot, gguf, weights, i)) {
            continue;
        }
        if (slot.outputs == 0) {
            *slot.vector = (float *)(void *)vectors;
            vectors += vector_bytes(slot.columns);
            continue;
        }
        enum gguf_type type = (enum gguf_type)slot.tensor->type;
        uint32_t outputs = (uint32_t)slot.outputs, columns = (uint32_t)slot.columns;
        kernels_matrix_init(slot.matrix, type, outputs, columns, panels);
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

static enum status slot_read(const struct slot *slot, struct kernels_loading *loading,
                             volatile uint32_t *progress, struct config_error *error)
{
    const struct gguf_tensor *tensor = slot->tensor;
    uint8_t piece[PIECE_BYTES];
    /* A piece cuts at whole blocks, and at whole words of the digest. */
    uint64_t whole = PIECE_BYTES - PIECE_BYTES % (gguf_type_block(tensor->type).bytes * 8);
    for (uint64_t offset = 0; offset < tensor->bytes;) {
        uint64_t left = tensor->bytes - offset;
        uint64_t bytes = left < whole ? left : whole;
        TRY(gguf_read(loading->source, tensor->offset + offset, piece, bytes, error));
        bool finite = slot->outputs == 0
                          ? vector_store(*slot->vector, offset, piece, bytes)
                          : kernels_matrix_pack(slot->matrix, offset, piece, bytes);
        if (!finite) {
            snprintf(error->text, sizeof error->text,
                     "%s: tensor %s: a weight near byte %llu is not finite, needs finite numbers",
                     loading->source->name, slot->name,
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

/* Which entry of the list each tensor of the file is, plus one; 0: none, it is not read. */
static void slots_order(uint32_t order[GGUF_TENSORS_MAX], const struct gguf *gguf)
{
    memset(order, 0, GGUF_TENSORS_MAX * sizeof order[0]);
    for (uint32_t i = 0; i < slots_count(&gguf->shape); i++) {
        struct slot slot;
        if (slot_find(&slot, gguf, NULL, i)) {
            order[slot.tensor - gguf->tensors] = i + 1;
        }
    }
}

enum status kernels_loading_begin(struct kernels_loading *loading, const struct gguf *gguf,
                                  const struct gguf_source *source, struct arena *arena,
                                  struct config_error *error)
{
    ASSERT(gguf->has_model);
    ASSERT(gguf->shape.layers > 0 && gguf->shape.layers <= GGUF_LAYERS_MAX);
    if (gguf->shape.head_dim % 2 != 0) {
        snprintf(error->text, sizeof error->text,
                 "%s: a head has %u channels, needs an even number", source->name,
                 gguf->shape.head_dim);
        return STATUS_CONFIG_MODEL;
    }
    struct slot slot;
    for (uint32_t i = 0; i < slots_count(&gguf->shape); i++) {
        if (slot_find(&slot, gguf, NULL, i)) {
            TRY(slot_check(&slot, source->name, error));
        }
    }
    loading->gguf = gguf;
    loading->source = source;
    loading->weights = weights_place(gguf, arena);
    loading->done_bytes = 0;
    loading->total_bytes = totals_of(gguf).file_bytes;
    loading->digest = FNV_START;
    loading->tensor_next = 0;
    slots_order(loading->order, gguf);
    return STATUS_OK;
}

enum status kernels_loading_next(struct kernels_loading *loading, volatile uint32_t *progress,
                                 struct config_error *error)
{
    const struct gguf *gguf = loading->gguf;
    struct slot slot;
    ASSERT(loading->done_bytes < loading->total_bytes);
    while (loading->order[loading->tensor_next] == 0) {
        loading->tensor_next++;
        ASSERT(loading->tensor_next < gguf->tensors_count);
    }
    uint32_t entry = loading->order[loading->tensor_next++] - 1;
    bool found = slot_find(&slot, gguf, loading->weights, entry);
    ASSERT(found);
    return slot_read(&slot, loading, progress, error);
}

enum status kernels_weights_load(struct kernels_weights **weights, const struct gguf *gguf,
                                 const struct gguf_source *source, struct arena *arena,
                                 volatile uint32_t *progress, uint64_t *digest,
                                 struct config_error *error)
{
    struct kernels_loading loading;
    TRY(kernels_loading_begin(&loading, gguf, source, arena, error));
    while (loading.done_bytes < loading.total_bytes) {
        TRY(kernels_loading_next(&loading, progress, error));
    }
    *weights = loading.weights;
    *digest = loading.digest;
    return STATUS_OK;
}
