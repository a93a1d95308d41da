/* SPDX-License-Identifier: MIT */
/*
 * What: what the device and its link give: reads, writes and copies of its memory, copies between
 * it and the host, what a launch and an event cost, the operations of a large product. Memory is
 * that of KV, on either side.
 */
#include "tools/bench/gpu/parts.h"

#define BYTES       (UINT64_C(4) << 30)
#define BYTES_QUICK (UINT64_C(1) << 20)
#define LAUNCHES    1000u
#define PRODUCT_ROWS 4096u

static uint64_t at_most(const struct machine *m, uint64_t bytes)
{
    uint64_t most = m->wishes.is_quick ? BYTES_QUICK : BYTES;
    return (bytes < most ? bytes : most) / 32 * 32;
}

static uint64_t device_bytes(const struct machine *m)
{
    return at_most(m, m->settings.kv_blocks * m->engine->kv.block_bytes);
}

static uint64_t host_bytes(const struct machine *m)
{
    uint64_t host = m->settings.kv_host_blocks * m->engine->kv.block_bytes;
    uint64_t device = device_bytes(m);
    return at_most(m, host < device ? host : device) / 2;
}

/* ---- memory ---- */

static void queue_read(struct machine *m, const void *unused)
{
    (void)unused;
    machine_queue_read(m, device_bytes(m));
}

static void queue_copy(struct machine *m, const void *unused)
{
    (void)unused;
    uint64_t half = device_bytes(m) / 2;
    gpu_copy(&m->queue, m->engine->kv.blocks + half, m->engine->kv.blocks, half);
}

static void queue_write(struct machine *m, const void *unused)
{
    (void)unused;
    machine_queue_write(m, device_bytes(m));
}

static void queue_in(struct machine *m, const void *unused)
{
    (void)unused;
    gpu_upload(&m->queue, m->engine->kv.blocks, m->engine->kv_host, host_bytes(m));
}

static void queue_out(struct machine *m, const void *unused)
{
    (void)unused;
    gpu_download(&m->queue, m->engine->kv_host + host_bytes(m), m->engine->kv.blocks,
                 host_bytes(m));
}

static void queue_both(struct machine *m, const void *unused)
{
    (void)unused;
    struct gpu_queue *in = &m->engine->in.queue;
    gpu_follow(in, &m->queue);
    gpu_upload(in, m->engine->kv.blocks, m->engine->kv_host, host_bytes(m));
    queue_out(m, NULL);
    gpu_follow(&m->queue, in);
}

/* Bytes by the microsecond; 0: not measured. */
static double measure_bytes(struct machine *m, const char *name, uint64_t bytes,
                            void (*queue)(struct machine *, const void *))
{
    const struct row row = {.name = name, .with = "", .bytes = (double)bytes};
    const struct work work = {.queue = queue, .count = 1};
    double us = bytes > 0 ? table_measure(m, &row, &work) : 0;
    if (bytes == 0) {
        table_skip(&row, "this machine has no memory for it");
    }
    return us > 0 ? (double)bytes / us : 0;
}

static void measure_memory(struct machine *m)
{
    const struct row load = {.name = "load weights, compared", .with = "",
                             .bytes = (double)gpu_weights_bytes(&m->model.gguf)};
    table_print(&load, (struct timed){m->load_us, 1});
    m->read_bytes = measure_bytes(m, "device memory, read", device_bytes(m), queue_read);
    measure_bytes(m, "device memory, written", device_bytes(m), queue_write);
    measure_bytes(m, "device memory, copied", device_bytes(m), queue_copy);
    m->in_bytes = measure_bytes(m, "host to device", host_bytes(m), queue_in);
    m->out_bytes = measure_bytes(m, "device to host", host_bytes(m), queue_out);
    m->both_bytes = measure_bytes(m, "both directions", 2 * host_bytes(m), queue_both);
}

/* ---- launches and events ---- */

/* One thread block, which folds one pair of words. */
static void queue_smallest(struct machine *m)
{
    machine_queue_read(m, 16);
}

static void queue_launches(struct machine *m, const void *unused)
{
    (void)unused;
    for (uint32_t i = 0; i < LAUNCHES; i++) {
        queue_smallest(m);
    }
}

static void queue_events(struct machine *m, const void *unused)
{
    struct CUevent_st *event = (struct CUevent_st *)(uintptr_t)unused;
    for (uint32_t i = 0; i < LAUNCHES; i++) {
        gpu_mark(&m->queue, event);
    }
}

/* What a kernel that does nothing seems to take where it is timed alone. */
static void measure_between_events(struct machine *m)
{
    const struct row row = {.name = "smallest kernel between events", .with = ""};
    if (!table_may_run(m, &row)) {
        return;
    }
    double values[32];
    timer_keep_busy(m);
    for (uint32_t i = 0; i < 32; i++) {
        gpu_mark(&m->queue, m->begin);
        queue_smallest(m);
        gpu_mark(&m->queue, m->end);
        machine_check(m);
        values[i] = timer_between_us(m, m->begin, m->end);
    }
    table_print(&row, (struct timed){timer_median_of(values, 32), 32});
}

/* The host's time of a launch, while the device is busy. */
static void measure_host(struct machine *m)
{
    const struct row row = {.name = "launch, on the host", .with = ""};
    if (!table_may_run(m, &row)) {
        return;
    }
    timer_keep_busy(m);
    double before = timer_now_us();
    for (uint32_t i = 0; i < LAUNCHES / 4; i++) {
        queue_smallest(m);
    }
    double us = (timer_now_us() - before) / (LAUNCHES / 4);
    machine_check(m);
    table_print(&row, (struct timed){us, 1});
}

static void measure_launches(struct machine *m)
{
    const struct row launch = {.name = "launch, one of 1000", .with = ""};
    const struct row event = {.name = "event, one of 1000", .with = ""};
    struct CUevent_st *mark = NULL;
    gpu_create_event(&m->queue, &mark);
    table_measure(m, &launch, &(struct work){.queue = queue_launches, .count = LAUNCHES});
    table_measure(m, &event, &(struct work){.queue = queue_events, .of = mark, .count = LAUNCHES});
    gpu_destroy_event(&m->queue, mark);
    measure_between_events(m);
    measure_host(m);
}

/* ---- operations ---- */

static void queue_large_product(struct machine *m, const void *product)
{
    gpu_multiply(&m->queue, &m->blas, product);
}

/* Where there are so many halves: weights, or, where those are levels, KV; 0: nowhere. */
static uint64_t halves_of(const struct machine *m, const struct gpu_matrix *w)
{
    uint64_t bytes = (uint64_t)w->outputs * w->columns * sizeof(uint16_t);
    bool has_room = bytes <= m->settings.kv_blocks * m->engine->kv.block_bytes;
    return !gpu_has_levels(w->type) ? w->at : has_room ? m->engine->kv.blocks : 0;
}

/* The library has no reason to wait for memory in a product of so many rows. */
static void measure_operations(struct machine *m)
{
    const struct gpu_engine *e = m->engine;
    const struct gpu_matrix *w = &e->weights.layers[0].ffn_gate;
    uint32_t rows = m->settings.step_tokens < PRODUCT_ROWS ? m->settings.step_tokens : PRODUCT_ROWS;
    struct row row = {.name = "operations, large product", .with = "library", .rows = rows,
                      .operations = 2.0 * rows * w->outputs * w->columns};
    uint64_t halves = halves_of(m, w);
    if (m->blas.library == NULL || halves == 0) {
        table_skip(&row, m->blas.library == NULL ? "no library" : "no room for its weights");
        return;
    }
    const struct blas_product product = {
        .out = e->gate.at, .in = e->normed.at, .weights = halves, .rows = rows,
        .outputs = w->outputs, .columns = w->columns,
        .type = w->type == GPU_BF16 ? BLAS_BF16 : BLAS_F16};
    const struct work work = {.queue = queue_large_product, .of = &product, .count = 1};
    double us = table_measure(m, &row, &work);
    m->operations = us > 0 ? row.operations / us : 0;
}

void ceilings_run(struct machine *machine)
{
    measure_memory(machine);
    measure_launches(machine);
    measure_operations(machine);
}
