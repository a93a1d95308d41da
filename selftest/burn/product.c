/* SPDX-License-Identifier: MIT */
/*
 * What: the engine's product by one chain (device/product/chain.cu) of random numbers, with
 * weights of every type, against the chain of fmaf() that defines it (kernels/ops.h), computed here
 * by the CPU: to the bit, again and again. Every multiprocessor has thread blocks of it, and the
 * next product is queued while one is compared. Tensor cores are left out: only the chip knows
 * their bits.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "kernels/cuda/device/panel.h"
#include "selftest/burn/state.h"

#define ROWS            64u
#define TILES           2u          /* of outputs, for each multiprocessor */
#define COLUMNS         2048u
#define COLUMNS_QUICK   256u
#define BUFFERS           2u
#define NAP_NS          50000

static const struct {
    const char *name;
    uint32_t type;
} kinds[] = {{"F32", GPU_F32},   {"F16", GPU_F16},   {"BF16", GPU_BF16}, {"Q8_0", GPU_Q8_0},
           {"Q4_0", GPU_Q4_0}, {"Q4_K", GPU_Q4_K}, {"Q6_K", GPU_Q6_K}};
#define KINDS (sizeof kinds / sizeof *kinds)

struct trial {
    struct burning *b;
    uint32_t outputs, columns;
    uint32_t kind;                  /* of the present weights */
    uint64_t y_bytes, x_at, w_at, y_at[BUFFERS];
    float *x, *reference, *y[BUFFERS];
    uint8_t *w;
    struct CUevent_st *done[BUFFERS];
    uint64_t products;
};

static uint64_t weights_bytes(const struct trial *t)
{
    return (uint64_t)t->outputs * t->columns * sizeof(float);   /* the widest */
}

static bool take_host(struct trial *t)
{
    t->x = burn_pinned(t->b, (uint64_t)ROWS * t->columns * sizeof *t->x);
    t->w = burn_pinned(t->b, weights_bytes(t));
    t->reference = burn_pinned(t->b, t->y_bytes);
    t->y[0] = burn_pinned(t->b, t->y_bytes);
    t->y[1] = burn_pinned(t->b, t->y_bytes);
    return t->x != NULL && t->w != NULL && t->reference != NULL && t->y[0] != NULL &&
           t->y[1] != NULL;
}

static bool take_device(struct trial *t)
{
    struct gpu_queue *queue = &t->b->queue;
    struct config_error error;
    uint64_t x_bytes = (uint64_t)ROWS * t->columns * sizeof *t->x;
    uint64_t bytes = gpu_taken_bytes(1, x_bytes) + gpu_taken_bytes(1, weights_bytes(t)) +
                     BUFFERS * gpu_taken_bytes(1, t->y_bytes);
    if (gpu_reserve(queue, bytes, &error) != STATUS_OK) {
        return false;
    }
    t->x_at = gpu_take(queue, 1, x_bytes);
    t->w_at = gpu_take(queue, 1, weights_bytes(t));
    for (uint32_t i = 0; i < BUFFERS; i++) {
        t->y_at[i] = gpu_take(queue, 1, t->y_bytes);
        gpu_create_event(queue, &t->done[i]);
    }
    return true;
}

/* ---- the reference ---- */

/* A number in [-1, 1). */
static float number_of(uint64_t seed, uint64_t at)
{
    return (float)(burn_random(seed, at) >> 40) * 0x1p-23f - 1.0f;
}

/* A block of a panel: finite scales, and any levels. */
static void fill_block(uint8_t *block, struct gpu_panel panel, uint64_t seed, uint64_t at)
{
    for (uint32_t i = 0; i < panel.block; i++) {
        block[i] = (uint8_t)burn_random(seed, at * panel.block + i);
    }
    uint32_t halves = panel.head > 0 ? panel.head : KERNELS_SCALES_BYTES;
    for (uint32_t i = 0; i < halves; i += sizeof(uint16_t)) {
        uint16_t scale = kernels_half_of(number_of(~seed, at * halves + i));
        memcpy(block + i, &scale, sizeof scale);
    }
}

static void fill_weights(struct trial *t, uint64_t seed)
{
    uint32_t type = kinds[t->kind].type;
    uint64_t count = (uint64_t)t->outputs * t->columns;
    if (gpu_has_levels(type)) {
        const struct gpu_panel panel = gpu_panel_of(type);
        uint64_t of_block = KERNELS_PANEL_LANES * panel.parts * KERNELS_QUANT_COLUMNS;
        for (uint64_t i = 0; i < count / of_block; i++) {
            fill_block(t->w + i * panel.block, panel, seed, i);
        }
    } else {
        for (uint64_t i = 0; i < count; i++) {
            gpu_store(t->w, type, i, number_of(seed, i));
        }
    }
}

static void compute_output(struct trial *t, uint32_t output)
{
    float sums[ROWS] = {0};
    for (uint32_t c = 0; c < t->columns; c++) {
        float w = gpu_weight(t->w, kinds[t->kind].type, t->columns, output, c);
        for (uint32_t r = 0; r < ROWS; r++) {
            sums[r] = fmaf(t->x[(uint64_t)r * t->columns + c], w, sums[r]);
        }
    }
    for (uint32_t r = 0; r < ROWS; r++) {
        t->reference[(uint64_t)r * t->outputs + output] = sums[r];
    }
}

static void prepare(struct trial *t)
{
    uint64_t seed = t->b->burn->seed + 2 * t->kind, x_count = (uint64_t)ROWS * t->columns;
    for (uint64_t i = 0; i < x_count; i++) {
        t->x[i] = number_of(seed, i);
    }
    fill_weights(t, seed + 1);
    for (uint32_t output = 0; output < t->outputs; output++) {
        compute_output(t, output);
        burn_beat(t->b);
    }
    gpu_upload(&t->b->queue, t->x_at, t->x, x_count * sizeof *t->x);
    gpu_upload(&t->b->queue, t->w_at, t->w, weights_bytes(t));
}

/* ---- on the GPU ---- */

static void queue_product(struct trial *t, uint32_t buffer)
{
    const struct gpu_product args = {
        .x = t->x_at, .w = t->w_at, .y = t->y_at[buffer], .x_stride = t->columns,
        .y_stride = t->outputs, .rows = ROWS, .outputs = t->outputs, .columns = t->columns,
        .x_type = GPU_F32, .w_type = kinds[t->kind].type};
    memset(t->y[buffer], 0xff, t->y_bytes);         /* NaN, if a result does not come */
    GPU_LAUNCH(&t->b->queue, product, &args);
    gpu_download(&t->b->queue, t->y[buffer], t->y_at[buffer], t->y_bytes);
    gpu_mark(&t->b->queue, t->done[buffer]);
}

static void compare(struct trial *t, uint32_t buffer)
{
    for (uint32_t i = 0; i < ROWS * t->outputs; i++) {
        uint32_t expected = gpu_bits_of(t->reference[i]), found = gpu_bits_of(t->y[buffer][i]);
        if (expected != found) {
            post_fault_say(&t->b->burn->faults,
                           "weights %s, row %u, output %u: expected %08x, found %08x",
                           kinds[t->kind].name, i / t->outputs, i % t->outputs, expected, found);
        }
    }
    t->products++;
}

static bool settle_product(struct trial *t, uint32_t buffer)
{
    static const struct timespec nap = {.tv_nsec = NAP_NS};
    while (!gpu_is_past(&t->b->queue, t->done[buffer])) {
        if (t->b->queue.result != DRIVER_SUCCESS) {
            return false;
        }
        nanosleep(&nap, NULL);
    }
    burn_beat(t->b);
    compare(t, buffer);
    return true;
}

/* All products with one kind of weights; one is always queued in advance. */
static bool run_kind(struct trial *t)
{
    uint32_t buffer = 0;
    prepare(t);
    uint64_t end_us = clock_us(CLOCK_MONOTONIC) + t->b->burn->rounds_us / KINDS;
    queue_product(t, buffer);
    do {
        queue_product(t, 1 - buffer);
        if (!settle_product(t, buffer)) {
            return false;
        }
        buffer = 1 - buffer;
    } while (clock_us(CLOCK_MONOTONIC) < end_us);
    return settle_product(t, buffer);
}

void burn_product_run(struct burning *b)
{
    struct trial trial = {.b = b,
                          .outputs = b->device->processors * TILES * GPU_PRODUCT_TILE,
                          .columns = b->burn->is_quick ? COLUMNS_QUICK : COLUMNS};
    trial.y_bytes = (uint64_t)ROWS * trial.outputs * sizeof(float);
    if (!take_host(&trial) || !take_device(&trial)) {
        return;
    }
    for (trial.kind = 0; trial.kind < KINDS; trial.kind++) {
        if (!run_kind(&trial)) {
            return;
        }
    }
    snprintf(b->burn->amount, sizeof b->burn->amount, "%ux%ux%u x %llu%s", ROWS,
             trial.outputs, trial.columns, (unsigned long long)trial.products,
             burn_warmth(b).text);
}
