/* SPDX-License-Identifier: MIT */
/*
 * What: products by their shape, by the engine's own kernel and by the library. A time is that of
 * one product; those of all layers run one after the other, so no cache has the weights.
 */
#include "tools/bench/gpu/parts.h"

struct shape {
    const char *name;
    size_t matrix;                      /* where in struct gpu_layer */
    size_t from, to;                    /* where in struct gpu_engine */
};

#define SHAPE(matrix, from, to)                                              \
    {"product " #matrix, offsetof(struct gpu_layer, matrix),                 \
     offsetof(struct gpu_engine, from), offsetof(struct gpu_engine, to)}
static const struct shape shapes[] = {
    SHAPE(attn_qkv, normed, q),
    SHAPE(attn_output, attended, delta),
    SHAPE(ffn_gate_up, normed, gate),
    SHAPE(ffn_down, inner, delta),
};
#define SHAPES (sizeof shapes / sizeof shapes[0])

/* What is multiplied: a shape of the layers, or the output. */
struct products {
    const struct shape *shape;          /* NULL: the output */
    uint32_t rows;
};

static const struct gpu_matrix *matrix_of(const struct machine *m, const struct shape *shape,
                                          uint32_t layer)
{
    const struct gpu_weights *w = &m->engine->weights;
    return shape == NULL ? &w->output
                         : (const void *)((const uint8_t *)&w->layers[layer] + shape->matrix);
}

static struct gpu_buffer buffer_of(const struct machine *m, size_t where)
{
    return *(const struct gpu_buffer *)(const void *)((const uint8_t *)m->engine + where);
}

static void queue_products(struct machine *m, const void *of)
{
    const struct products *p = of;
    uint32_t layers = p->shape == NULL ? 1 : m->model.gguf.shape.layers;
    size_t from = p->shape == NULL ? offsetof(struct gpu_engine, gathered) : p->shape->from;
    size_t to = p->shape == NULL ? offsetof(struct gpu_engine, logits) : p->shape->to;
    for (uint32_t i = 0; i < layers; i++) {
        const struct gpu_matrix *matrix = matrix_of(m, p->shape, i);
        gpu_product_queue(m->engine, matrix, gpu_input_of(matrix, buffer_of(m, from)),
                          gpu_joined(buffer_of(m, to), matrix), p->rows);
    }
}

static void measure(struct machine *m, const struct products *products, const char *with)
{
    const struct gpu_matrix *w = matrix_of(m, products->shape, 0);
    double rows = products->rows, outputs = w->outputs, columns = w->columns;
    struct row row = {.name = products->shape == NULL ? "product output" : products->shape->name,
                      .with = with, .rows = products->rows,
                      .bytes = (double)machine_matrix_bytes(m, w) +
                               rows * (outputs + columns) * sizeof(float),
                      .operations = 2 * rows * outputs * columns};
    if (w->outputs == 0) {
        table_skip(&row, "not one matrix");
        return;
    }
    row.floor_us = table_floor_us(m, row.bytes, row.operations);
    uint32_t layers = products->shape == NULL ? 1 : m->model.gguf.shape.layers;
    table_measure(m, &row, &(struct work){.queue = queue_products, .of = products,
                                          .count = layers});
}

static void measure_all(struct machine *m, uint32_t rows, const char *with)
{
    for (uint32_t i = 0; i < SHAPES; i++) {
        measure(m, &(struct products){&shapes[i], rows}, with);
    }
    measure(m, &(struct products){NULL, rows}, with);
}

void products_run(struct machine *machine, const struct rows_list *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (machine->blas.library != NULL && !gpu_has_levels(gpu_type_of(machine->wishes.type))) {
            machine_use_library(machine, true);
            measure_all(machine, list->rows[i], "library");
        }
        machine_use_library(machine, false);
        measure_all(machine, list->rows[i], "own");
    }
    machine_use_library(machine, true);
}
