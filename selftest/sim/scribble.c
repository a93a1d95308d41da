/* SPDX-License-Identifier: MIT */
/*
 * What: a worker that writes where it should not. It maps one page of the control pages, and its
 * results, for writing (appliance/control.h): any of that may hold any number, at any time, and it
 * may cost time, never a token. The core's side of the pages is the product's own code.
 *
 * Results are spoilt here only where no round runs any more: what becomes of a round that computes
 * nonsense is engine.c's.
 */
#include "selftest/sim/sim.h"

/* Its silence, until it has been asked again and has answered; both may come late. */
#define MISHEARD_US (8 * SIM_SECOND_US)

/* Those that could be taken for the truth, and any other. */
static uint32_t any_number(struct sim *sim, const struct sim_engine *engine)
{
    uint32_t epoch = engine->control.worker_epoch, submitted = engine->control.submitted;
    switch (sim_choose(sim, 7)) {
    case 0: return 0;
    case 1: return epoch;
    case 2: return epoch + 1;
    case 3: return submitted;
    case 4: return submitted + 1;
    case 5: return (uint32_t)sim->loop.engines[engine->index].heartbeat;
    default: return sim_choose(sim, 65536) << 16 | sim_choose(sim, 65536);
    }
}

static void flip_a_bit(struct sim *sim, const struct sim_engine *engine)
{
    const struct step *step = &engine->fake.step;
    uint64_t bytes = step->layout.total_bytes - step->layout.worker_offset;
    uint8_t *results = step->base + step->layout.worker_offset;
    results[sim_choose(sim, (uint32_t)bytes)] ^= (uint8_t)(1 << sim_choose(sim, 8));
}

void sim_worker_scribble(struct sim *sim, struct sim_engine *engine)
{
    struct control_engine *control = &engine->control;
    bool is_in_round = engine->worker == SIM_WORKER_RUNS || engine->worker == SIM_WORKER_HANGS;
    uint32_t word = sim_choose(sim, is_in_round ? 5 : 6), number = any_number(sim, engine);
    switch (word) {
    case 0: control->heartbeat = number; break;
    case 1: control->answered = number; break;
    case 2: control->done = number; break;
    case 3: control->worker_ready = number; break;
    case 4: control->proof = number; break;
    default: flip_a_bit(sim, engine);
    }
    engine->has_scribbled = true;
    engine->scribbled_us = sim->loop.now_us;
    sim_say(sim, "worker %u writes %u over its word %u", engine->index, number, word);
}

void sim_worker_check(struct sim *sim, const struct sim_engine *engine, enum world_engine result)
{
    static const enum world_engine honest[] = {
        [SIM_WORKER_STARTS] = WORLD_ENGINE_DOWN,    [SIM_WORKER_IDLE] = WORLD_ENGINE_IDLE,
        [SIM_WORKER_RUNS] = WORLD_ENGINE_BUSY,      [SIM_WORKER_DONE] = WORLD_ENGINE_DONE,
        [SIM_WORKER_HANGS] = WORLD_ENGINE_BUSY,     [SIM_WORKER_STOPPED] = WORLD_ENGINE_IDLE,
        [SIM_WORKER_CONDEMNED] = WORLD_ENGINE_DOWN, [SIM_WORKER_DIED] = WORLD_ENGINE_LOST,
        [SIM_WORKER_GONE] = WORLD_ENGINE_DOWN,
    };
    if (engine->is_left) {
        SIM_REQUIRE(sim, result == WORLD_ENGINE_DOWN, INVARIANT_ENGINE,
                    "worker %u is in a step of a dead core, and the core makes %d of it",
                    engine->index, (int)result);
        return;
    }
    bool is_claim = result == WORLD_ENGINE_DONE || result == WORLD_ENGINE_LOST;
    bool may_differ = engine->has_scribbled && !is_claim && engine->worker < SIM_WORKER_CONDEMNED;
    SIM_REQUIRE(sim, result == honest[engine->worker] || may_differ, INVARIANT_ENGINE,
                "worker %u is in state %d, and the core makes %d of it", engine->index,
                (int)engine->worker, (int)result);
}

bool sim_worker_is_misheard(const struct sim *sim, uint32_t engine)
{
    const struct sim_engine *liar = &sim->engines[engine];
    return liar->has_scribbled && sim->loop.now_us - liar->scribbled_us <= MISHEARD_US;
}
