/* SPDX-License-Identifier: MIT */
/* What: the machine that is measured; see machine.h. */
#include "tools/bench/gpu/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "config/base/assert.h"
#include "kernels/cuda/plan.h"
#include "tools/bench/gpu/timer.h"

#define BLOCK_TOKENS   16u
#define STEPS          8u
#define DRAFTED        5u           /* the one token of a text that drafts guess rightly */
#define SWAP_BLOCKS    1000u
#define SWAP_BLOCKS_QUICK 40u
#define SPARE_BYTES    (UINT64_C(512) << 20)    /* of a device that has several GB */

static void expect(enum status status, const struct config_error *error)
{
    if (status != STATUS_OK) {
        fprintf(stderr, "bench-gpu: %s\n", error->text);
        exit(EXIT_FAILURE);
    }
}

void machine_check(struct machine *machine)
{
    struct config_error error = {{0}};
    expect(gpu_check(&machine->queue, &error), &error);
}

void machine_queue_read(struct machine *machine, uint64_t bytes)
{
    struct machine *m = machine;
    const struct gpu_pattern_fold fold = {m->engine->kv.blocks, bytes / 16 * 2, m->folds};
    GPU_LAUNCH(&m->queue, pattern_fold, &fold);
}

void machine_queue_write(struct machine *machine, uint64_t bytes)
{
    struct machine *m = machine;
    m->driver.cuMemsetD32Async(m->engine->kv.blocks, 0x2c01a8ff, bytes / 4, m->queue.stream);
}

/* ---- start ---- */

static void open_device(struct machine *m)
{
    struct config_error error = {{0}};
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);  /* as the worker has it */
    expect(driver_open(&m->driver, m->wishes.cuda_library, DRIVER_VERSION_MIN, &error), &error);
    expect(device_open(&m->device, &m->driver, 0, &error), &error);
    expect(gpu_open(&m->queue, &m->driver, &m->device, &error), &error);
    expect(blas_open(&m->blas, m->wishes.cublas_library, &error), &error);
    if (m->blas.library != NULL) {
        expect(blas_load(&m->blas, &error), &error);
    }
    expect(device_measure(&m->device, &m->driver, &error), &error);
}

static uint32_t smaller(uint64_t a, uint64_t b)
{
    return (uint32_t)(a < b ? a : b);
}

static struct memory_plan plan_of(const struct machine *m)
{
    struct memory_plan plan = {0};
    gpu_weights_plan_memory(&plan, &m->model.gguf);
    gpu_plan_memory(&plan, &m->settings, &m->model.gguf.shape);
    return plan;
}

/* Blocks for every row of a short context and its decode, beside those that are swapped; fewer
 * where the device has less memory. */
static void choose_blocks(struct machine *m)
{
    struct kernels_settings *t = &m->settings;
    uint64_t block_bytes = gpu_kv_block_bytes(t, &m->model.gguf.shape);
    uint64_t swapped = m->wishes.is_quick ? SWAP_BLOCKS_QUICK : SWAP_BLOCKS;
    uint64_t host = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    m->swap_blocks = smaller(swapped, host / 4 / block_bytes);
    t->kv_host_blocks = 2 * m->swap_blocks;
    t->kv_blocks = 1;
    struct memory_plan plan = plan_of(m);
    uint64_t others = memory_plan_bytes(&plan, MEMORY_DEVICE);
    uint64_t spare = m->device.free_bytes / 16;
    uint64_t left = m->device.free_bytes - (spare < SPARE_BYTES ? spare : SPARE_BYTES);
    uint64_t each = gpu_ceil(m->short_tokens + 2 * STEPS, BLOCK_TOKENS);
    uint64_t wanted = 2 * m->swap_blocks + m->wishes.rows_max * each;
    if (left < others + 2 * block_bytes) {
        fprintf(stderr, "bench-gpu: %s: %llu MiB are free, this shape needs %llu\n",
                m->device.name, (unsigned long long)m->device.free_bytes >> 20,
                (unsigned long long)others >> 20);
        exit(EXIT_FAILURE);
    }
    t->kv_blocks = smaller(wanted, (left - others) / block_bytes);
    if (t->kv_blocks < 4 * m->swap_blocks) {    /* the other half is for rows */
        m->swap_blocks = t->kv_blocks / 4;
    }
}

static void choose_settings(struct machine *m)
{
    m->long_tokens = m->model.long_tokens;
    m->short_tokens = m->long_tokens / 8;
    uint32_t context = m->long_tokens + 2 * STEPS;
    m->settings = (struct kernels_settings){
        /* A draft and its row have a step's tokens. */
        .batch_calls = m->wishes.rows_max > STEPS ? m->wishes.rows_max : STEPS,
        .steps_per_plan = STEPS, .context_tokens = context, .past_tokens = MACHINE_PAST,
        .step_tokens = m->long_tokens > m->wishes.rows_max ? m->long_tokens : m->wishes.rows_max,
        .kv_block_tokens = BLOCK_TOKENS, .blocks_per_call = gpu_ceil(context, BLOCK_TOKENS),
        .kv_type = KERNELS_KV_F16};
    choose_blocks(m);
}

static void make_step(struct machine *m)
{
    m->step.layout = (struct step_layout){
        .rows_max = m->settings.batch_calls, .steps_max = STEPS,
        .tokens_max = m->settings.step_tokens, .blocks_per_call = m->settings.blocks_per_call,
        .moves_max = 2 * m->swap_blocks + 1, .past_max = MACHINE_PAST, .logprobs_max = 1};
    step_layout_init(&m->step.layout);
    uint64_t page = STEP_PAGE_BYTES, bytes = m->step.layout.total_bytes;
    m->step.base = aligned_alloc(page, (bytes + page - 1) / page * page);
    if (m->step.base == NULL) {
        fprintf(stderr, "bench-gpu: no memory for a step\n");
        exit(EXIT_FAILURE);
    }
}

static void start_engine(struct machine *m)
{
    struct config_error error = {{0}};
    struct memory_plan plan = plan_of(m);
    uint64_t folds = gpu_taken_bytes(GPU_PATTERN_GRID_MAX * GPU_PATTERN_THREADS, sizeof(uint64_t));
    expect(arena_map(&m->arena, memory_plan_bytes(&plan, MEMORY_ENGINE), false), &error);
    expect(gpu_reserve(&m->queue, memory_plan_bytes(&plan, MEMORY_DEVICE) + folds, &error), &error);
    m->folds = gpu_take(&m->queue, 1, folds);
    const struct gpu_engine_parts parts = {
        .settings = &m->settings, .gguf = &m->model.gguf, .source = &m->model.source,
        .queue = &m->queue, .blas = m->blas.library != NULL ? &m->blas : NULL, .arena = &m->arena,
        .heartbeat = &m->heartbeat};
    double before = timer_now_us();
    expect(gpu_engine_init(&m->engine, &parts, &error), &error);
    m->load_us = timer_now_us() - before;
    machine_queue_write(m, m->settings.kv_blocks * m->engine->kv.block_bytes);
    machine_check(m);
}

void machine_start(struct machine *machine, const struct machine_wishes *wishes)
{
    struct machine *m = machine;
    m->wishes = *wishes;
    if (!random_model_init(&m->model, wishes->shape, wishes->type)) {
        fprintf(stderr, "bench-gpu: no memory for weights, or the shape has rows that are no "
                        "multiples of the type's blocks\n");
        exit(EXIT_FAILURE);
    }
    open_device(m);
    choose_settings(m);
    make_step(m);
    start_engine(m);
    m->driver.cuEventCreate(&m->begin, 0);
    m->driver.cuEventCreate(&m->end, 0);
}

void machine_stop(struct machine *machine)
{
    struct machine *m = machine;
    gpu_engine_stop(m->engine);
    gpu_destroy_event(&m->queue, m->begin);
    gpu_destroy_event(&m->queue, m->end);
    gpu_close(&m->queue);
    blas_close(&m->blas);
    m->driver.cuCtxSetCurrent(NULL);
    m->driver.cuDevicePrimaryCtxRelease(0);
    driver_close(&m->driver);
}

/* ---- sizes ---- */

void machine_use_library(struct machine *machine, bool is_wanted)
{
    machine->engine->blas = is_wanted && machine->blas.library != NULL ? &machine->blas : NULL;
}

uint64_t machine_weights_bytes(const struct machine *machine)
{
    const struct gguf *gguf = &machine->model.gguf;
    const struct gpu_matrix *table = &machine->engine->weights.token_embd;
    return gpu_weights_bytes(gguf) -
           (gguf->shape.tied_output ? 0 : machine_matrix_bytes(machine, table));
}

uint64_t machine_matrix_bytes(const struct machine *machine, const struct gpu_matrix *matrix)
{
    const struct gguf_tensor tensor = {
        .type = machine->wishes.type,
        .bytes = matrix->outputs * gguf_row_bytes(machine->wishes.type, matrix->columns)};
    return gpu_tensor_bytes(&(struct model_tensor){
        .tensor = &tensor, .outputs = matrix->outputs, .columns = matrix->columns});
}

uint64_t machine_kv_bytes(const struct machine *machine, uint64_t tokens)
{
    const struct model_shape *s = &machine->model.gguf.shape;
    return tokens * 2 * s->layers * s->kv_heads * s->head_dim *
           kernels_kv_number_bytes(machine->settings.kv_type);
}

/* ---- steps ---- */

/* A text of one token, and a bias that makes it go on so. */
static void fill_drafts(struct machine *m, const struct batch *batch, uint32_t r)
{
    struct step_row *row = step_row(&m->step, r);
    row->drafts = batch->drafts;
    row->past_count = MACHINE_PAST;
    row->sampling.biases_count = 1;
    row->biases[0] = (struct call_bias){.token = DRAFTED, .bias = 1e6f};
    for (uint32_t i = 0; i < MACHINE_PAST; i++) {
        step_past(&m->step, r)[i] = DRAFTED;
    }
}

static void fill_row(struct machine *m, const struct batch *batch, uint32_t r)
{
    struct step_row *row = step_row(&m->step, r);
    uint32_t vocab = m->model.gguf.shape.vocab_tokens;
    uint32_t end = batch->position + batch->tokens + batch->decode_steps;
    *row = (struct step_row){
        .first_position = batch->position, .tokens_count = batch->tokens,
        .tokens_first = r * batch->tokens, .decode_steps = batch->decode_steps,
        .blocks_count = gpu_ceil(end, BLOCK_TOKENS),
        .sampling = {.seed = r, .temperature = batch->is_sampled ? 1 : 0,
                     .top_p = batch->is_sampled ? 0.9f : 1, .repeat_penalty = 1}};
    if (batch->stop_ids != NULL) {
        row->sampling.stop_ids_count = 1;
        row->sampling.stop_ids[0] = batch->stop_ids[r];
    }
    for (uint32_t i = 0; i < batch->tokens; i++) {
        step_tokens(&m->step)[row->tokens_first + i] = (r * 131 + i * 7919 + 3) % vocab;
    }
    if (batch->drafts > 0) {
        fill_drafts(m, batch, r);
    }
    uint32_t own = m->settings.kv_blocks - batch->block_first;
    for (uint32_t i = 0; i < row->blocks_count; i++) {
        step_blocks(&m->step, r)[i] = batch->block_first + (r * row->blocks_count + i) % own;
    }
}

void machine_fill_step(struct machine *machine, const struct batch *batch)
{
    struct step_header *header = step_header(&machine->step);
    ASSERT(batch->rows * batch->tokens <= machine->settings.step_tokens);
    memset(machine->step.base, 0, machine->step.layout.total_bytes);
    header->rows_count = header->rows_active = batch->rows;
    header->tokens_count = batch->rows * batch->tokens;
    for (uint32_t r = 0; r < batch->rows; r++) {
        fill_row(machine, batch, r);
    }
}

void machine_run_step(struct machine *machine)
{
    const struct step *step = &machine->step;
    bool is_finite = gpu_engine_run(machine->engine, step) == STATUS_OK;
    machine_check(machine);
    for (uint32_t r = 0; r < step_header(step)->rows_count; r++) {
        is_finite = is_finite && step_out(step, r)->result == STEP_ROW_OK;
    }
    if (!is_finite) {
        fprintf(stderr, "bench-gpu: a step's numbers are not finite\n");
        exit(EXIT_FAILURE);
    }
}
