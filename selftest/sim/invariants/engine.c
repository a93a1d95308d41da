/* SPDX-License-Identifier: MIT */
/*
 * What: the invariants of several engines (invariants.c): where calls are, and which engines serve.
 */
#include "selftest/sim/invariants.h"

#include "selftest/fake/sched_view.h"
#include "selftest/sim/sim.h"

#define LOOK_EVERY 64               /* passes, through all queues */

static bool is_open(const struct call *call)
{
    return call->state == CALL_QUEUED || call->state == CALL_RUNNING;
}

/* True when the step in flight of the engine has a row of the call. */
static bool has_row(const struct sched_engine *engine, const struct call *call)
{
    for (uint32_t i = 0; i < engine->planned_count && engine->step_in_flight; i++) {
        if (engine->planned[i].call == call->slot &&
            engine->planned[i].call_generation == call->generation) {
            return true;
        }
    }
    return false;
}

/* It left nothing at other engines, and runs where it is. */
static void check_place(struct sim *sim, const struct call *call)
{
    for (uint32_t i = 0; i < sim->limits.engines; i++) {
        const struct sched_engine *engine = &sim->loop.sched.engines[i];
        bool is_there = kvmem_call_blocks(&sim->loop.engines[i].kv, call->slot) > 0 ||
                        has_row(engine, call);
        SIM_REQUIRE(sim, i == call->engine || !is_there, INVARIANT_ENGINE,
                    "call %u is at engine %u, and has blocks or a row at engine %u", call->slot,
                    call->engine, i);
    }
    SIM_REQUIRE(sim, call->state != CALL_RUNNING ||
                         has_row(&sim->loop.sched.engines[call->engine], call),
                INVARIANT_ENGINE, "call %u runs, and has no row at engine %u", call->slot,
                call->engine);
}

/* An engine whose worker is silent keeps what has blocks, until that is dead. */
static void check_waiting(struct sim *sim, const struct call *call, bool any_serves)
{
    const struct sched *sched = &sim->loop.sched;
    bool may_wait = !any_serves || sched_view_serves(sched, call->engine) ||
                    kvmem_call_blocks(sched_view_kv(sched, call->engine), call->slot) > 0;
    SIM_REQUIRE(sim, call->state != CALL_QUEUED || may_wait, INVARIANT_ENGINE,
                "call %u waits at engine %u, which does not serve, and another does", call->slot,
                call->engine);
}

/* At the end of a pass an idle engine has nothing of its own to do: it serves, unless its worker
 * has stopped. */
static void check_serving(struct sim *sim, uint32_t index)
{
    const struct engine *engine = &sim->loop.engines[index];
    bool serves = sched_view_serves(&sim->loop.sched, index);
    bool has_failed = canary_has_failed(&engine->canary);
    bool has_stopped = sim->engines[index].worker == SIM_WORKER_STOPPED ||
                       sim_worker_is_misheard(sim, index);
    SIM_REQUIRE(sim, !serves || (engine->state != WORLD_ENGINE_DOWN && !has_failed),
                INVARIANT_ENGINE, "engine %u serves, and its worker is away", index);
    SIM_REQUIRE(sim, serves || has_failed || has_stopped || engine->state != WORLD_ENGINE_IDLE,
                INVARIANT_ENGINE, "engine %u is up and idle, and does not serve", index);
}

/* How often each call is in a queue of this engine. */
static void count_queued(const struct sim *sim, uint32_t engine, uint32_t *places)
{
    const struct sched *sched = &sim->loop.sched;
    uint32_t calls[SIM_CALLS_MAX], queues = sched->settings.queues;
    for (uint32_t i = 0; i < 2 * queues * sched_view_tenants(sched); i++) {
        const struct sched_view_place place = {
            .tenant = i / 2 / queues, .queue = i / 2 % queues, .held = i % 2 == 1};
        uint32_t count = sched_view_queue(sched, engine, &place, calls, SIM_CALLS_MAX);
        for (uint32_t n = 0; n < count; n++) {
            places[calls[n]] += sim->loop.calls.calls[calls[n]].engine == engine ? 1 : 2;
        }
    }
}

static void check_queues(struct sim *sim)
{
    uint32_t places[SIM_CALLS_MAX] = {0};
    for (uint32_t i = 0; i < sim->limits.engines; i++) {
        count_queued(sim, i, places);
    }
    for (uint32_t i = 0; i < sim->limits.calls; i++) {
        SIM_REQUIRE(sim, places[i] == is_open(&sim->loop.calls.calls[i]), INVARIANT_ENGINE,
                    "call %u is in the queues of no engine, of two, or of another", i);
    }
}

void invariants_check_engines(struct sim *sim)
{
    bool any_serves = false;
    if (sim->limits.engines == 1) {
        return;
    }
    for (uint32_t i = 0; i < sim->limits.engines; i++) {
        check_serving(sim, i);
        any_serves = any_serves || sched_view_serves(&sim->loop.sched, i);
    }
    for (uint32_t i = 0; i < sim->limits.calls; i++) {
        const struct call *call = &sim->loop.calls.calls[i];
        if (is_open(call)) {
            check_place(sim, call);
            check_waiting(sim, call, any_serves);
        }
    }
    if (sim->pass % LOOK_EVERY == 0) {
        check_queues(sim);
    }
}
