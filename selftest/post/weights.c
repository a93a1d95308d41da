/* SPDX-License-Identifier: MIT */
/*
 * What: compares weights in memory with weights in the file. A digest would say only that something
 * differs; this says where, and needs memory for one panel only.
 * Why the file is opened again: boot closes it once it is read. A file that has been replaced since
 * differs, which the operator should know too.
 */
#include "selftest/post/weights.h"

#include <stdio.h>
#include <string.h>

static uint64_t panel_bytes_max(const struct model_shape *shape)
{
    uint64_t columns = shape->dim > shape->ffn_dim ? shape->dim : shape->ffn_dim;
    uint64_t heads = (uint64_t)shape->heads * shape->head_dim;
    columns = heads > columns ? heads : columns;
    return columns * KERNELS_PANEL_LANES * sizeof(float);   /* no type is wider */
}

void post_reader_plan_memory(struct memory_plan *plan, const struct model_shape *shape)
{
    memory_plan_add(plan, MEMORY_SELFTEST, "weights reader", 1, sizeof(struct post_reader));
    memory_plan_add(plan, MEMORY_SELFTEST, "weights of the file", 1, panel_bytes_max(shape));
    memory_plan_add(plan, MEMORY_SELFTEST, "weights packed", 1, panel_bytes_max(shape));
}

struct post_reader *post_reader_init(struct arena *arena, const struct kernels_weights *weights,
                                     const struct gguf *gguf, const struct gguf_source *source)
{
    struct post_reader *reader = arena_take(arena, 1, sizeof *reader);
    reader->weights = weights;
    reader->gguf = gguf;
    reader->source = *source;
    reader->piece = arena_take(arena, 1, panel_bytes_max(&weights->shape));
    reader->packed = arena_take(arena, 1, panel_bytes_max(&weights->shape));
    return reader;
}

uint32_t post_panels_count(const struct post_tensor *tensor)
{
    return tensor->matrix == NULL ? 1 : tensor->matrix->panels_count;
}

uint64_t *post_panel_words(const struct post_tensor *tensor, uint32_t panel, uint64_t *words_count)
{
    const struct kernels_matrix *matrix = tensor->matrix;
    if (matrix == NULL) {
        *words_count = kernels_lanes_ceil(tensor->columns) * sizeof(float) / sizeof(uint64_t);
        return (uint64_t *)(void *)tensor->vector;
    }
    *words_count = matrix->panel_bytes / sizeof(uint64_t);
    return (uint64_t *)(void *)(matrix->panels + panel * matrix->panel_bytes);
}

/* Reads and packs what a panel must hold. False: it cannot, and the faults say why. */
static bool panel_pack(struct post_reader *reader, const struct post_tensor *tensor,
                       uint32_t panel, struct post_faults *faults)
{
    const struct gguf_tensor *file = gguf_tensor_find(reader->gguf, tensor->name);
    struct config_error error;
    struct kernels_matrix window;
    uint32_t first = panel * KERNELS_PANEL_LANES;
    uint32_t rows = 1;
    if (tensor->matrix != NULL) {
        uint32_t left = tensor->matrix->outputs - first;
        rows = left < KERNELS_PANEL_LANES ? left : KERNELS_PANEL_LANES;
    }
    uint64_t row_bytes = gguf_row_bytes((enum gguf_type)file->type, tensor->columns);
    memset(reader->packed, 0, panel_bytes_max(&reader->weights->shape));
    uint8_t *piece = tensor->matrix == NULL ? reader->packed : reader->piece;
    if (gguf_read(&reader->source, file->offset + first * row_bytes, piece, rows * row_bytes,
                  &error) != STATUS_OK) {
        post_fault_say(faults, "%s", error.text);
        return false;
    }
    if (tensor->matrix != NULL) {
        kernels_matrix_init(&window, tensor->matrix->type, rows, tensor->columns, reader->packed);
        window.file_type = tensor->matrix->file_type;
        if (!kernels_matrix_pack(&window, 0, piece, rows * row_bytes)) {
            post_fault_say(faults, "%s: a weight of the file is not finite", tensor->name);
        }
    }
    return true;
}

void post_panel_compare(struct post_reader *reader, const struct post_tensor *tensor,
                        uint32_t panel, struct post_faults *faults)
{
    struct post_pair pair = {.expected = (const uint64_t *)(void *)reader->packed};
    pair.found = post_panel_words(tensor, panel, &pair.count);
    if (!panel_pack(reader, tensor, panel, faults)) {
        return;
    }
    while (post_pair_differs(&pair)) {
        post_fault_word(faults, &pair, "%s, word %llu of panel %u", tensor->name,
                        (unsigned long long)post_pair_at(&pair), panel);
    }
}

/* ---- the check ---- */

static void plan_weights(const struct post *post, struct memory_plan *plan)
{
    post_reader_plan_memory(plan, &post->boot->gguf->shape);
}

static void *init_weights(const struct post *post, struct arena *arena)
{
    return post_reader_init(arena, post->boot->weights, post->boot->gguf, &post->source);
}

static void run_weights(void *state, const struct post *post, uint32_t variant,
                        struct post_outcome *outcome)
{
    struct post_reader *reader = state;
    struct post_tensor tensor;
    uint64_t bytes = 0;
    for (uint32_t i = 0; post_tensor_at(reader->weights, i, &tensor); i++) {
        for (uint32_t panel = 0; panel < post_panels_count(&tensor); panel++) {
            uint64_t words = 0;
            post_panel_words(&tensor, panel, &words);
            post_panel_compare(reader, &tensor, panel, &outcome->faults);
            bytes += words * sizeof(uint64_t);
        }
    }
    snprintf(outcome->amount, sizeof outcome->amount, "%.1f MiB", post_mib(bytes));
}

const struct post_check post_weights = {plan_weights, init_weights, run_weights};
