/* SPDX-License-Identifier: MIT */
/*
 * What: the worker role: takes the engine's arena, starts the engine, seals itself, runs steps.
 * Where the GPU serves it becomes another program first.
 * Invariant: weights, and what keeper and core write, are read-only here: a wild write costs this
 * worker and nobody else.
 */
#include "appliance/worker.h"

#include <sys/prctl.h>
#include <unistd.h>

#include "config/base/assert.h"
#include "appliance/gpu_worker.h"
#include "appliance/log.h"
#include "appliance/runner.h"
#include "appliance/seal/seal.h"

static struct kernels *start_engine(const struct boot *boot)
{
    struct arena arena;
    struct kernels *kernels = NULL;
    uint64_t bytes = memory_plan_bytes(&boot->plan, MEMORY_ENGINE);
    if (arena_map(&arena, bytes, false) != STATUS_OK) {
        log_event(LOG_ERROR, "cannot reserve the engine's memory");
        _exit(BOOT_EXIT_MEMORY);
    }
    enum status status = kernels_init(&kernels, &boot->engine, boot->weights, &arena,
                                      &boot->shared.control->heartbeat);
    if (status != STATUS_OK) {
        log_event(LOG_ERROR, "engine does not start: %s", status_text(status));
        _exit(BOOT_EXIT_ENGINE);
    }
    ASSERT(arena.used_bytes == bytes);
    arena_seal(&arena);
    return kernels;
}

static bool run_step(void *engine, const struct step *step)
{
    kernels_run(engine, step);
    return true;
}

_Noreturn void worker_run(const struct boot *boot, uint32_t epoch)
{
    struct control *control = boot->shared.control;
    if (boot->serves_by_gpu) {
        gpu_worker_run(boot, epoch);
    }
    prctl(PR_SET_NAME, "agentix-worker");
    log_role("worker");
    const struct runner runner = {.control = control, .step = &boot->step,
                                  .bell = boot->shared.engine_bell, .epoch = epoch,
                                  .engine = start_engine(boot), .run = run_step};
    if (!control_confine(control, &boot->step)) {
        log_event(LOG_ERROR, "shared memory cannot be made read-only");
        _exit(BOOT_EXIT_SYSTEM);
    }
    enum boot_exit sealed = seal_process(SEAL_WORKER, boot, -1);
    if (sealed != BOOT_EXIT_OK) {
        _exit(sealed);
    }
    runner_serve(&runner);
    _exit(BOOT_EXIT_ENGINE);
}
