/* SPDX-License-Identifier: MIT */
/*
 * What: the products of the self-test. The threads share the work of the reference; then each
 * thread runs on its CPUs one after the other, and on each computes and compares the whole slab.
 * Invariant: numbers and slabs do not depend on the machine, so neither does the digest.
 * Why every CPU computes the same: a CPU that errs is reported by its number, and if it has spoilt
 * the reference, all others report a difference.
 */
#include "selftest/post/product.h"

#include <stdio.h>
#include <string.h>

#include "config/base/fnv.h"
#include "selftest/post/known.h"

#define REPEATS 16u                 /* of each slab in a round */

static uint64_t y_stride(void)
{
    return kernels_stride_floats(POST_SLAB_PANELS * KERNELS_PANEL_LANES);
}

static uint32_t threads_of(const struct post_cpus *cpus, bool alone)
{
    return alone ? 1 : cpus->threads;
}

void post_burn_plan_memory(struct memory_plan *plan, const struct model_shape *shape, bool alone)
{
    struct post_cpus cpus;
    post_cpus_init(&cpus);
    uint32_t threads = threads_of(&cpus, alone);
    uint64_t x_bytes = kernels_stride_floats(kernels_columns_max(shape)) * sizeof(float);
    memory_plan_add(plan, MEMORY_SELFTEST, "product burn", 1, sizeof(struct post_burn));
    memory_plan_add(plan, MEMORY_SELFTEST, "product rows", POST_SLAB_ROWS, x_bytes);
    uint64_t stride = kernels_rounded_stride(kernels_columns_max(shape));
    memory_plan_add(plan, MEMORY_SELFTEST, "product levels", POST_SLAB_ROWS, stride);
    memory_plan_add(plan, MEMORY_SELFTEST, "product bfloats", POST_SLAB_ROWS, stride *
                    sizeof(float));
    memory_plan_add(plan, MEMORY_SELFTEST, "product level blocks", POST_SLAB_ROWS,
             kernels_quant_blocks_bytes(stride));
    memory_plan_add(plan, MEMORY_SELFTEST, "product reference", POST_SLAB_ROWS,
             y_stride() * sizeof(float));
    memory_plan_add(plan, MEMORY_SELFTEST, "product results", threads, sizeof(struct post_result));
    memory_plan_add(plan, MEMORY_SELFTEST, "product rows of results", (uint64_t)threads *
                    POST_SLAB_ROWS,
             y_stride() * sizeof(float));
    kernels_threads_plan_memory(plan, threads);
}

static void burn_work(void *context, uint32_t thread)
{
    struct post_burn *burn = context;
    burn->phase(burn, thread);
}

static void place_results(struct post_burn *burn, uint32_t threads, struct arena *arena)
{
    uint64_t y_floats = POST_SLAB_ROWS * burn->y_stride;
    burn->results = arena_take(arena, threads, sizeof *burn->results);
    float *y = arena_take(arena, (uint64_t)threads * POST_SLAB_ROWS, burn->y_stride * sizeof *y);
    for (uint32_t i = 0; i < threads; i++) {
        burn->results[i].y = y + i * y_floats;
    }
}

static void place_rounded(struct post_burn *burn, uint32_t columns, struct arena *arena)
{
    uint64_t stride = kernels_rounded_stride(columns);
    burn->rounded = (struct kernels_rounded){
        .levels = arena_take(arena, POST_SLAB_ROWS, stride),
        .blocks = arena_take(arena, POST_SLAB_ROWS, kernels_quant_blocks_bytes(stride)),
        .bfloats = arena_take(arena, POST_SLAB_ROWS, stride * sizeof(float)),
        .stride = stride,
    };
}

struct post_burn *post_burn_init(struct arena *arena, const struct model_shape *shape,
                                 enum kernels_simd simd, bool alone)
{
    struct post_burn *burn = arena_take(arena, 1, sizeof *burn);
    post_cpus_init(&burn->cpus);
    uint32_t threads = threads_of(&burn->cpus, alone);
    burn->ops = kernels_ops(simd);
    burn->repeats = 1;
    burn->digest = FNV_START;
    burn->x_stride = kernels_stride_floats(kernels_columns_max(shape));
    burn->y_stride = y_stride();
    burn->x = arena_take(arena, POST_SLAB_ROWS, burn->x_stride * sizeof *burn->x);
    place_rounded(burn, kernels_columns_max(shape), arena);
    burn->reference = arena_take(arena, POST_SLAB_ROWS, burn->y_stride * sizeof *burn->reference);
    place_results(burn, threads, arena);
    enum status status = kernels_threads_init(&burn->threads, threads, burn_work, burn, arena);
    return status == STATUS_OK ? burn : NULL;
}

/* ---- a slab and its reference ---- */

uint32_t post_slabs_count(const struct post_tensor *tensor)
{
    return (tensor->matrix->panels_count + POST_SLAB_PANELS - 1) / POST_SLAB_PANELS;
}

static struct post_slab slab_of(const struct post_tensor *tensor, uint32_t index)
{
    struct post_slab slab = {.tensor = *tensor, .matrix = *tensor->matrix};
    uint32_t first_panel = index * POST_SLAB_PANELS;
    uint32_t left = tensor->matrix->panels_count - first_panel;
    slab.first = first_panel * KERNELS_PANEL_LANES;
    slab.matrix.panels += first_panel * slab.matrix.panel_bytes;
    slab.matrix.panels_count = left < POST_SLAB_PANELS ? left : POST_SLAB_PANELS;
    slab.matrix.outputs = slab.matrix.panels_count * KERNELS_PANEL_LANES;
    return slab;
}

/* Exact numbers in [-1, 1), for a slab the same on every machine. */
static void fill_x(struct post_burn *burn, uint64_t seed)
{
    uint32_t columns = burn->slab.matrix.columns;
    for (uint32_t r = 0; r < POST_SLAB_ROWS; r++) {
        for (uint32_t k = 0; k < columns; k++) {
            int32_t bits = (int32_t)(splitmix_at(seed, (uint64_t)r * columns + k) >> 40);
            burn->x[r * burn->x_stride + k] = (float)(bits - (1 << 23)) * 0x1p-23f;
        }
    }
}

/* Rounds x as products of these kernels take it. */
static void fill_rounded(struct post_burn *burn, const struct kernels_ops *ops)
{
    const struct kernels_matrix *matrix = &burn->slab.matrix;
    for (uint32_t r = 0; r < POST_SLAB_ROWS; r++) {
        struct kernels_rounded to = kernels_rounded_from(burn->rounded, r);
        kernels_round(ops, kernels_reads(matrix->type), &to,
                      burn->x + r * burn->x_stride, matrix->columns);
    }
}

static struct kernels_product product_of(const struct post_burn *burn, float *y)
{
    return (struct kernels_product){
        .matrix = &burn->slab.matrix,
        .panel_end = burn->slab.matrix.panels_count,
        .rows = POST_SLAB_ROWS,
        .x = burn->x,
        .x_stride = burn->x_stride,
        .rounded = burn->rounded,
        .y = y,
        .y_stride = burn->y_stride,
    };
}

static void phase_reference(struct post_burn *burn, uint32_t thread)
{
    uint32_t panels = burn->slab.matrix.panels_count;
    struct kernels_product product = product_of(burn, burn->reference);
    product.panel_first = panels * thread / burn->threads.count;
    product.panel_end = panels * (thread + 1) / burn->threads.count;
    kernels_ops_plain.product(&product);
}

void post_burn_choose(struct post_burn *burn, const struct post_tensor *tensor, uint32_t slab)
{
    burn->slab = slab_of(tensor, slab);
    fill_x(burn, fnv_add(FNV_START, tensor->name, strlen(tensor->name)) + slab);
    fill_rounded(burn, &kernels_ops_plain);
    burn->phase = phase_reference;
    kernels_threads_run(&burn->threads, false);
    for (uint32_t r = 0; r < POST_SLAB_ROWS; r++) {
        burn->digest = fnv_add(burn->digest, burn->reference + r * burn->y_stride,
                               burn->slab.matrix.outputs * sizeof(float));
    }
    fill_rounded(burn, burn->ops);
}

/* ---- the kernel under test ---- */

void post_burn_compute(const struct post_burn *burn, struct post_result *result, uint32_t rows)
{
    struct kernels_product product = product_of(burn, result->y);
    product.rows = rows;
    burn->ops->product(&product);
}

static void compare_row(const struct post_burn *burn, const float *y, uint32_t row, uint32_t cpu,
                        struct post_faults *faults)
{
    struct post_pair pair = {
        .found = (const uint64_t *)(const void *)y,
        .expected = (const uint64_t *)(const void *)(burn->reference + row * burn->y_stride),
        .count = burn->slab.matrix.outputs / 2,         /* two results a word */
    };
    while (post_pair_differs(&pair)) {
        uint64_t at = post_pair_at(&pair);
        bool upper = (uint32_t)pair.read == (uint32_t)pair.expected[at];
        post_fault_word(faults, &pair, "%s, row %u, output %u, CPU %u", burn->slab.tensor.name,
                        row, burn->slab.first + (uint32_t)at * 2 + upper, cpu);
    }
}

void post_burn_compare(const struct post_burn *burn, const struct post_result *result,
                       uint32_t rows, uint32_t cpu, struct post_faults *faults)
{
    for (uint32_t r = 0; r < rows; r++) {
        compare_row(burn, result->y + r * burn->y_stride, r, cpu, faults);
    }
}

/* A single row uses another kernel than many rows, so they alternate. */
static void phase_burn(struct post_burn *burn, uint32_t thread)
{
    struct post_result *result = &burn->results[thread];
    for (uint32_t i = thread; i < burn->cpus.count; i += burn->threads.count) {
        uint32_t cpu = post_cpus_pin(&burn->cpus, i);
        for (uint32_t repeat = 0; repeat < burn->repeats; repeat++) {
            uint32_t rows = repeat % 2 == 0 ? POST_SLAB_ROWS : 1;
            post_burn_compute(burn, result, rows);
            post_burn_compare(burn, result, rows, cpu, &result->faults);
        }
    }
    post_cpus_unpin(&burn->cpus);
}

void post_burn_run(struct post_burn *burn, struct post_faults *faults)
{
    burn->phase = phase_burn;
    kernels_threads_run(&burn->threads, false);
    for (uint32_t i = 0; i < burn->threads.count; i++) {
        post_faults_add(faults, &burn->results[i].faults);
        burn->results[i].faults.count = 0;
    }
}

/* ---- the check ---- */

static void plan_product(const struct post *post, struct memory_plan *plan)
{
    post_burn_plan_memory(plan, &post->boot->gguf->shape, false);
}

static void *init_product(const struct post *post, struct arena *arena)
{
    return post_burn_init(arena, &post->boot->gguf->shape, post->boot->engine.simd, false);
}

/* Every slab of every matrix; returns the digest of all references. */
static uint64_t run_round(struct post_burn *burn, const struct kernels_weights *weights,
                          struct post_faults *faults)
{
    struct post_tensor tensor;
    burn->digest = FNV_START;
    for (uint32_t i = 0; post_tensor_at(weights, i, &tensor); i++) {
        uint32_t slabs = tensor.matrix == NULL ? 0 : post_slabs_count(&tensor);
        for (uint32_t slab = 0; slab < slabs; slab++) {
            post_burn_choose(burn, &tensor, slab);
            post_burn_run(burn, faults);
        }
    }
    return burn->digest;
}

static void run_product(void *state, const struct post *post, uint32_t variant,
                        struct post_outcome *outcome)
{
    struct post_burn *burn = state;
    const struct kernels_weights *weights = post->boot->weights;
    uint64_t end_us = clock_us(CLOCK_MONOTONIC) + post->rounds_us;
    uint64_t rounds = 1;
    burn->repeats = REPEATS;
    uint64_t first = run_round(burn, weights, &outcome->faults);
    post_known_compare(post, "products", first, POST_KNOWN_PRODUCTS, &outcome->faults);
    for (; clock_us(CLOCK_MONOTONIC) < end_us; rounds++) {
        uint64_t digest = run_round(burn, weights, &outcome->faults);
        if (digest != first) {
            post_fault_say(&outcome->faults, "digest %016llx, at first it was %016llx",
                           (unsigned long long)digest, (unsigned long long)first);
        }
    }
    snprintf(outcome->amount, sizeof outcome->amount, "%u CPUs x %llu, %016llx", burn->cpus.count,
             (unsigned long long)(rounds * REPEATS), (unsigned long long)first);
}

const struct post_check post_product = {plan_product, init_product, run_product};
