/* SPDX-License-Identifier: MIT */
/*
 * What: the worker role on a GPU: opens the device, loads the model to it, rehearses, seals itself,
 * runs steps.
 *
 * Invariants: nothing is allocated on the device after the start. A descriptor that was handed over
 * is closed once it has been read or mapped, so that it cannot be again. What keeper and core write
 * is read-only here, so a wild write costs this worker only.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/assert.h"
#include "appliance/boot/exit.h"
#include "appliance/gpu/order.h"
#include "appliance/gpu/rehearsal.h"
#include "appliance/gpu/seal.h"
#include "appliance/log.h"
#include "appliance/runner.h"
#include "kernels/cuda/engine.h"
#include "kernels/cuda/plan.h"

struct worker {
    struct gpu_page orders;             /* a copy: the page is unmapped */
    struct arena shared, arena;
    struct control *control;
    struct step step;
    struct gguf_source source;
    struct gguf gguf;
    struct opened opened;
    struct blas blas;
    struct gpu_queue queue;
    struct gpu_engine *engine;
    struct runner runner;
};

static void take_orders(struct worker *worker, struct gpu_page *page)
{
    memcpy(&worker->orders, page, sizeof worker->orders);
    munmap(page, sizeof *page);
    close(GPU_PAGE);
}

static uint64_t bytes_of(enum gpu_handle handle)
{
    struct stat stat;
    return fstat((int)handle, &stat) == 0 ? (uint64_t)stat.st_size : 0;
}

static enum status map_shared(struct worker *worker, struct config_error *error)
{
    if (arena_map_shared(&worker->shared, GPU_SHARED, bytes_of(GPU_SHARED)) != STATUS_OK) {
        snprintf(error->text, sizeof error->text, "shared memory cannot be mapped");
        return STATUS_CONFIG_MEMORY;
    }
    close(GPU_SHARED);
    uint8_t *base = worker->shared.base;
    worker->control = (void *)(base + worker->orders.serve.control_offset);
    worker->step = (struct step){worker->orders.serve.layout,
                                 base + worker->orders.serve.step_offset};
    return STATUS_OK;
}

static struct control_engine *own_control(const struct worker *worker)
{
    return &worker->control->engines[worker->orders.serve.engine];
}

static enum status open_device(struct worker *worker, struct config_error *error)
{
    TRY(opened_init(&worker->opened, &worker->orders, error));
    TRY(blas_open(&worker->blas, worker->orders.cublas_library, error));
    return gpu_open(&worker->queue, &worker->opened.driver, &worker->opened.device, error);
}

/* The keeper has scanned the model too; the file may have changed since. */
static enum status scan_model(struct worker *worker, struct config_error *error)
{
    worker->source = (struct gguf_source){.fd = GPU_MODEL, .size_bytes = bytes_of(GPU_MODEL),
                                          .name = worker->orders.serve.model_name};
    return gguf_scan(&worker->gguf, &worker->source, worker->orders.serve.vocabulary_bytes_max,
                     error);
}

static enum status start_engine(struct worker *worker, struct config_error *error)
{
    const struct kernels_settings *settings = &worker->orders.serve.settings;
    struct memory_plan plan = {0};
    gpu_weights_plan_memory(&plan, &worker->gguf);
    gpu_plan_memory(&plan, settings, &worker->gguf.shape);
    uint64_t bytes = memory_plan_bytes(&plan, MEMORY_DEVICE);
    if (bytes != worker->orders.serve.device_bytes) {
        snprintf(error->text, sizeof error->text, "%s: it is another model than at boot",
                 worker->source.name);
        return STATUS_CONFIG_MODEL;
    }
    TRY(gpu_reserve(&worker->queue, bytes, error));
    if (arena_map(&worker->arena, memory_plan_bytes(&plan, MEMORY_ENGINE), false) != STATUS_OK) {
        snprintf(error->text, sizeof error->text, "cannot reserve the engine's memory");
        return STATUS_CONFIG_MEMORY;
    }
    const struct gpu_engine_parts parts = {
        .settings = settings,
        .gguf = &worker->gguf,
        .source = &worker->source,
        .queue = &worker->queue,
        .blas = worker->blas.library != NULL ? &worker->blas : NULL,
        .arena = &worker->arena,
        .heartbeat = &own_control(worker)->heartbeat,
        .on_round = {runner_tell_round, &worker->runner},
    };
    TRY(gpu_engine_init(&worker->engine, &parts, error));
    gguf_source_close(&worker->source);
    ASSERT(worker->arena.used_bytes == worker->arena.size_bytes);
    ASSERT(worker->queue.used_bytes == worker->queue.memory_bytes);
    arena_seal(&worker->arena);
    return STATUS_OK;
}

/* Writes why a step has failed. */
static void explain(struct worker *worker, struct config_error *error)
{
    if (gpu_check(&worker->queue, error) == STATUS_OK) {
        snprintf(error->text, sizeof error->text, "GPU: its results cannot be");
    }
}

/* So the driver does now what it does only at the first use of something, and weights that are not
 * finite show. */
static enum status rehearse(struct worker *worker, struct config_error *error)
{
    const struct rehearsal rehearsal = {.engine = worker->engine,
                                        .settings = &worker->orders.serve.settings,
                                        .layout = &worker->step.layout};
    bool is_finite;
    enum status status = rehearsal_run(&rehearsal, &is_finite, error);
    if (status != STATUS_OK && error->text[0] == '\0') {
        explain(worker, error);
    } else if (status == STATUS_OK && !is_finite) {
        snprintf(error->text, sizeof error->text, "%s: its first logits are not finite",
                 worker->source.name);
        status = STATUS_CONFIG_MODEL;
    }
    return status;
}

static bool run_step(void *engine, const struct step *step)
{
    return gpu_engine_run(engine, step) == STATUS_OK;
}

static enum status start(struct worker *worker, struct config_error *error)
{
    TRY(map_shared(worker, error));
    worker->runner = (struct runner){.control = own_control(worker), .step = &worker->step,
                                     .bell = GPU_BELL, .epoch = worker->orders.serve.epoch,
                                     .run = run_step};
    TRY(open_device(worker, error));
    TRY(scan_model(worker, error));
    TRY(start_engine(worker, error));
    worker->runner.engine = worker->engine;
    return rehearse(worker, error);
}

int order_serve(struct gpu_page *page)
{
    static struct worker worker;
    static struct config_error error;
    prctl(PR_SET_NAME, "agentix-worker");
    take_orders(&worker, page);
    log_role_worker(worker.orders.serve.engine, worker.orders.serve.engines);
    enum status status = start(&worker, &error);
    if (status != STATUS_OK) {
        log_event(LOG_ERROR, "engine does not start: %s", error.text);
        return status == STATUS_CONFIG_MODEL ? BOOT_EXIT_MODEL : BOOT_EXIT_ENGINE;
    }
    if (!control_confine(worker.control, worker.orders.serve.engine, &worker.step) || !seal_gpu()) {
        return BOOT_EXIT_SYSTEM;
    }
    runner_serve(&worker.runner);
    explain(&worker, &error);
    log_event(LOG_ERROR, "engine failed: %s", error.text);
    return BOOT_EXIT_ENGINE;
}
