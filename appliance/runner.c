/* SPDX-License-Identifier: MIT */
/*
 * What: runs steps as they come (appliance/runner.h).
 * Invariants: it runs only steps that were submitted to its own epoch. Between steps the heartbeat
 * grows every IDLE_MS, so that a stopped worker is told from an idle one.
 */
#include "appliance/runner.h"

#define IDLE_MS 100

void runner_serve(const struct runner *runner)
{
    struct control *control = runner->control;
    /* None of these steps is for this epoch: the core submits only after worker_ready says it. */
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
        /* An idle worker lives; one that owes a step and does not run it does not. */
        if (!control_is_owed(control, runner->epoch)) {
            control->heartbeat++;
        }
    }
}
