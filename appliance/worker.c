/* SPDX-License-Identifier: MIT */
/*
 * What: the worker role: takes the engine's arena, starts the engine, seals itself, runs steps.
 * Where the GPU serves it becomes the GPU worker's binary instead.
 * Invariants: weights, and what keeper and core write, are read-only here, so a wild write costs
 * this worker only. The orders of a GPU worker are on a page that no other worker has: its
 * predecessor could write to that, and others start at the same time.
 */
#include "appliance/worker.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "config/base/assert.h"
#include "appliance/log.h"
#include "appliance/runner.h"
#include "appliance/seal/seal.h"

/* ---- by the CPU ---- */

static struct kernels *start_engine(const struct boot *boot, uint32_t engine)
{
    struct arena arena;
    struct kernels *kernels = NULL;
    uint64_t bytes = memory_plan_bytes(&boot->plan, MEMORY_ENGINE);
    if (arena_map(&arena, bytes, false) != STATUS_OK) {
        log_event(LOG_ERROR, "cannot reserve the engine's memory");
        _exit(BOOT_EXIT_MEMORY);
    }
    enum status status = kernels_init(&kernels, &boot->engine, boot->weights, &arena,
                                      &boot->shared.control->engines[engine].heartbeat);
    if (status != STATUS_OK) {
        log_event(LOG_ERROR, "engine does not start: %s", status_text(status));
        _exit(BOOT_EXIT_ENGINE);
    }
    ASSERT(arena.used_bytes == bytes);
    arena_seal(&arena);
    return kernels;
}

/* Of several workers, each has CPUs of its own: else the threads of one, which meet at barriers,
 * would wait for CPUs that those of another have. */
static void keep_to_own_cpus(const struct boot *boot, uint32_t engine)
{
    struct cpus own;
    char text[CPUS_TEXT_BYTES];
    if (boot->limits.engines == 1 ||
        !cpus_part(&boot->cpus, engine, boot->limits.engines, &own)) {
        return;                         /* too few: the keeper has said so */
    }
    cpus_write(&own, text);
    log_event(cpus_keep_to(&own) ? LOG_INFO : LOG_WARN, "cpus=%s", text);
}

static bool run_step(void *engine, const struct step *step)
{
    kernels_run(engine, step);
    return true;
}

/* ---- by the GPU: another binary gets orders on a page, and descriptors ---- */

static uint64_t offset_of(const struct boot *boot, const void *shared)
{
    return (uint64_t)((const uint8_t *)shared - boot->shared_arena.base);
}

static void write_orders(const struct boot *boot, const struct gpu_binary *binary,
                         uint32_t engine, uint32_t epoch)
{
    const struct step step = step_at(&boot->step, engine);
    struct gpu_page *page = binary->page;
    gpu_binary_order(binary, GPU_SERVE, boot->devices.numbers[engine],
                     &boot->options);
    page->serve.engine = engine;
    page->serve.engines = boot->limits.engines;
    page->serve.epoch = epoch;
    page->serve.settings = boot->engine;
    page->serve.layout = step.layout;
    page->serve.control_offset = offset_of(boot, boot->shared.control);
    page->serve.step_offset = offset_of(boot, step.base);
    page->serve.device_bytes = memory_plan_bytes(&boot->plan, MEMORY_DEVICE);
    page->serve.vocabulary_bytes_max = boot->options.limits_vocabulary_bytes.number;
    memcpy(page->serve.model_name, boot->source.name,
           strnlen(boot->source.name, sizeof page->serve.model_name - 1));
}

static _Noreturn void become_gpu_worker(const struct boot *boot, uint32_t engine,
                                       uint32_t epoch)
{
    struct gpu_binary binary = boot->gpu_binary;
    if (!gpu_binary_open_page(&binary)) {
        log_event(LOG_ERROR, "the GPU worker cannot be started: memfd: error %d", errno);
        _exit(BOOT_EXIT_ENGINE);
    }
    const int handles[GPU_HANDLES] = {
        [GPU_PAGE - GPU_PAGE] = binary.page_handle,
        [GPU_SHARED - GPU_PAGE] = boot->shared_handle,
        [GPU_BELL - GPU_PAGE] = boot->shared.engine_bell,
        [GPU_MODEL - GPU_PAGE] = boot->source.fd,
    };
    write_orders(boot, &binary, engine, epoch);
    gpu_binary_run(&binary, handles);
}

_Noreturn void worker_run(const struct boot *boot, uint32_t engine, uint32_t epoch)
{
    struct control *control = boot->shared.control;
    const struct step step = step_at(&boot->step, engine);
    if (boot->serves_by_gpu) {
        become_gpu_worker(boot, engine, epoch);
    }
    struct gguf_source own_source = boot->source;
    gguf_source_close(&own_source);     /* the keeper reads the weights, if they must be read */
    prctl(PR_SET_NAME, "agentix-worker");
    log_role_worker(engine, boot->limits.engines);
    keep_to_own_cpus(boot, engine);
    struct kernels *kernels = start_engine(boot, engine);
    struct runner runner = {.control = &control->engines[engine], .step = &step,
                            .bell = boot->shared.engine_bell, .epoch = epoch,
                            .engine = kernels, .run = run_step};
    kernels_tell_rounds(kernels, &(struct kernels_listener){runner_tell_round, &runner});
    if (!control_confine(control, engine, &step)) {
        log_event(LOG_ERROR, "shared memory cannot be made read-only");
        _exit(BOOT_EXIT_SYSTEM);
    }
    enum boot_exit sealed = seal_prepare(boot);
    if (sealed == BOOT_EXIT_OK) {
        sealed = seal_process(SEAL_WORKER, boot, -1);
    }
    if (sealed != BOOT_EXIT_OK) {
        _exit(sealed);
    }
    runner_serve(&runner);
    _exit(BOOT_EXIT_ENGINE);
}
