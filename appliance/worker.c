/* SPDX-License-Identifier: MIT */
/*
 * What: the worker role: takes the engine's arena, starts the engine, runs steps as they come.
 * Invariants: it runs only steps that were submitted to its own epoch; weights, and what keeper and
 * core write, are read-only here: a wild write costs this worker and nobody else. Between steps the
 * heartbeat grows every IDLE_MS, so that a stopped worker is told from an idle one.
 */
#include "appliance/worker.h"

#include <sys/prctl.h>
#include <unistd.h>

#include "appliance/base/assert.h"
#include "appliance/log.h"
#include "appliance/seal.h"

#define IDLE_MS 100

static struct kernels *start_engine(const struct boot *boot)
{
    struct arena arena;
    struct kernels *kernels = NULL;
    uint64_t bytes = plan_tier_bytes(&boot->plan, TIER_ENGINE);
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

_Noreturn void worker_run(const struct boot *boot, uint32_t epoch)
{
    struct control *control = boot->shared.control;
    prctl(PR_SET_NAME, "agentix-worker");
    log_role("worker");
    uint32_t seen = atomic_load(&control->submitted);
    /* A step that was submitted to this epoch before we looked cannot exist: the core submits only
     * after worker_ready says this epoch. */
    struct kernels *kernels = start_engine(boot);
    if (!control_confine(control, &boot->step)) {
        log_event(LOG_ERROR, "shared memory cannot be made read-only");
        _exit(BOOT_EXIT_SYSTEM);
    }
    enum boot_exit sealed = seal_process(SEAL_WORKER, boot, -1);
    if (sealed != BOOT_EXIT_OK) {
        _exit(sealed);
    }
    atomic_store(&control->worker_ready, epoch);
    control_ring(boot->shared.engine_bell);
    for (;;) {
        if (control_await(control, epoch, &seen, IDLE_MS)) {
            kernels_run(kernels, &boot->step);
            control_done(control, seen, boot->shared.engine_bell);
        }
        /* An idle worker lives; one that owes a step and does not run it does not. */
        if (!control_is_owed(control, epoch)) {
            control->heartbeat++;
        }
    }
}
