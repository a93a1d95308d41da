/* SPDX-License-Identifier: MIT */
/*
 * What: the worker's loop over steps (appliance/runner.h).
 * Invariants: it runs only steps that were submitted to its own epoch. Between steps the heartbeat
 * grows every IDLE_MS, so that a stopped worker and an idle one differ.
 */
#include "appliance/runner.h"

#define IDLE_MS 100

void runner_serve(const struct runner *runner)
{
    struct control_engine *control = runner->control;
    /* No step up to now is for this epoch: the core submits once worker_ready names it. */
    uint32_t seen = atomic_load(&control->submitted);
    atomic_store(&control->worker_ready, runner->epoch);
    control_ring(runner->bell);
    for (;;) {
        if (control_await(control, runner->epoch, &seen, IDLE_MS)) {
            if (!runner->run(runner->engine, runner->step)) {
                return;
            }
            control_done(control, seen, runner->bell);
        }
        /* A worker that owes a step and does not run it must look dead. */
        if (!control_is_owed(control, runner->epoch)) {
            control->heartbeat++;
        }
    }
}
