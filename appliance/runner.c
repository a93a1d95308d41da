/* SPDX-License-Identifier: MIT */
/*
 * What: the worker's loop over steps (appliance/runner.h).
 * A round is told to the core when RUNNER_GAP_US have passed since the bell last rang, for a round
 * or for a step: each pass of the core takes time from an engine on the same CPUs. Rounds of models
 * that are worth reading along are longer.
 * Invariants: it runs only steps that were submitted to its own epoch. Between steps it sleeps
 * until it is asked, and then its heartbeat grows: so a stopped worker and an idle one differ, and
 * an idle one costs nothing.
 */
#include "appliance/runner.h"

#include "appliance/clock.h"

void runner_tell_round(void *context)
{
    struct runner *runner = context;
    uint64_t now = clock_us(CLOCK_MONOTONIC);
    if (now - runner->rung_us >= RUNNER_GAP_US) {
        runner->rung_us = now;
        control_ring(runner->bell);
    }
}

void runner_serve(struct runner *runner)
{
    struct control_engine *control = runner->control;
    /* No step up to now is for this epoch: the core submits once worker_ready names it. */
    uint32_t asked = atomic_load(&control->asked);
    uint32_t seen = atomic_load(&control->submitted);
    control_answer(control, runner->epoch, asked);
    atomic_store(&control->worker_ready, runner->epoch);
    control_ring(runner->bell);
    for (;;) {
        asked = control_await(control, asked);
        if (control_take(control, runner->epoch, &seen)) {
            if (!runner->run(runner->engine, runner->step)) {
                return;
            }
            control_done(control, runner->step, seen);
            control_ring(runner->bell);
            runner->rung_us = clock_us(CLOCK_MONOTONIC);
        }
        control_answer(control, runner->epoch, asked);
    }
}
