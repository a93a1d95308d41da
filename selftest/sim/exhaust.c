/* SPDX-License-Identifier: MIT */
/*
 * What: small worlds with two clients, two programs, three calls and a few blocks, run through
 * every order of events up to a depth. The tape counts through all combinations; nothing else is
 * chosen.
 *
 * One pass follows each event. So each event meets, in every order, what the passes before it have
 * left. In the calm phase at the end all calls are served and all resources are given back. The run
 * does not wait for what only time would release.
 */
#include <string.h>

#include "selftest/sim/sim.h"

enum small_event { SMALL_TIME, SMALL_ROUND, SMALL_CALL, SMALL_OTHER_CALL, SMALL_CANCEL,
                   SMALL_COME_AND_GO, SMALL_DEATH, SMALL_STALL, SMALL_EVENTS };

#define SETTINGS_MAX 12

/* Two levels, four blocks, three calls. */
static const char *const common[] = {
    "limits.connections=2", "limits.calls=3", "limits.programs=2", "limits.context_tokens=24",
    "sched.queues=2", "sched.quantum=1us", "kv.block_tokens=8", "kv.device_blocks=4",
    "sched.prefill_tokens=16", "net.unsent_tokens=1", "auth.uids=1000",
    "engine.canary=0",
    "engine.doubt=0",
};
static const struct small_world {
    const char *name;
    const char *settings[SETTINGS_MAX];
} worlds[] = {
    {"swaps", {"sched.batch=1", "sched.steps_per_plan=2", "kv.host_ratio=1.0"}},
    {"recomputes", {"sched.batch=2", "sched.steps_per_plan=1", "kv.host_ratio=0",
                    "kv.retain_drop=0", "kv.retain_device=0", "kv.retain_host=0"}},
    {"prefetches", {"sched.batch=1", "sched.steps_per_plan=3", "sched.standby=1",
                    "sched.prefetch=yes", "kv.host_ratio=1.0", "sched.policy=rr"}},
    {"shares", {"sched.batch=2", "sched.steps_per_plan=2", "kv.sharing=domain",
                    "sched.cut_steps=no", "kv.host_ratio=0.5", "kv.retain_device=0"}},
};
enum { WORLDS = sizeof worlds / sizeof worlds[0] };

static const struct small_world *world_now;
static uint32_t depth_now;

static void configure(struct sim *sim)
{
    config_defaults(&sim->options);
    sim->swarm = (struct swarm){.engines = 1, .vocab_tokens = 7, .clients = 2,
                                .programs = 2, .appetite = 3,
                                .descriptors = SIM_PEERS_MAX, .ring_bytes = 256,
                                .round_us_max = 1, .think_us_max = 1};
    for (uint32_t i = 0; i < sizeof common / sizeof common[0]; i++) {
        swarm_set(sim, common[i]);
    }
    for (uint32_t i = 0; i < SETTINGS_MAX && world_now->settings[i] != NULL; i++) {
        swarm_set(sim, world_now->settings[i]);
    }
    swarm_derive(sim);
}

static void exchange(struct sim *sim)
{
    for (uint32_t i = 0; i < 2; i++) {
        if (sim->clients[i].state != SIM_AWAY) {
            (void)sim_client_exchange(sim, i);
        }
    }
}

static void pass(struct sim *sim)
{
    exchange(sim);
    bool goes_on = sim_pass(sim);
    SIM_REQUIRE(sim, goes_on, INVARIANT_QUIESCENCE, "the loop ended without an order");
    exchange(sim);
}

static void greet(struct sim *sim)
{
    for (uint32_t i = 0; i < 2; i++) {
        sim->clients[i].next_us = UINT64_MAX;       /* it acts on command only */
        sim_client_connect(sim, i);
    }
    while (sim->clients[0].state != SIM_OPEN || sim->clients[1].state != SIM_OPEN) {
        pass(sim);
    }
    sim_workers_by_hand(sim, true);
}

static void call(struct sim *sim, uint32_t client, const struct sim_call *like)
{
    if (sim->clients[client].state == SIM_OPEN && sim->clients[client].calls_open < 3) {
        struct sim_call *call = sim_call_plain(sim, client, like);
        if (call != NULL) {
            sim_client_call(sim, call);
        }
    }
}

static void come_and_go(struct sim *sim, uint32_t client)
{
    if (sim->clients[client].state == SIM_AWAY) {
        sim_client_connect(sim, client);
    } else {
        sim_client_part(sim, client);
    }
}

static void stall(struct sim *sim, uint32_t client)
{
    bool stalls = sim->clients[client].stalled_until_us <= sim->now_us;
    sim->clients[client].stalled_until_us = stalls ? UINT64_MAX : 0;
    sim->clients[client].excused = true;
}

static void happen(struct sim *sim, enum small_event event)
{
    /* The calls of the first client fill the pool. Those of the second begin alike,
     * and may be late. */
    static const struct sim_call long_one = {.program = 0, .prompt_tokens = 17, .max_tokens = 7};
    static const struct sim_call short_one = {.program = 1, .prompt_tokens = 9, .max_tokens = 3,
                                              .deadline_us = 300000};
    static const char *const names[SMALL_EVENTS] = {
        "time goes on", "a round ends", "the first calls", "the second calls", "the first cancels",
        "the second goes, or comes", "the worker dies", "the first stops reading, or begins again"};
    sim_say(sim, "event: %s", names[event]);
    switch (event) {
    case SMALL_TIME: case SMALL_EVENTS: break;
    case SMALL_ROUND: sim_worker_round(sim, 0); break;
    case SMALL_CALL: call(sim, 0, &long_one); break;
    case SMALL_OTHER_CALL: call(sim, 1, &short_one); break;
    case SMALL_CANCEL:
        if (sim->clients[0].state == SIM_OPEN) {
            sim_client_cancel(sim, 0);
        }
        break;
    case SMALL_COME_AND_GO: come_and_go(sim, 1); break;
    case SMALL_DEATH: sim_worker_kill(sim, 0); break;
    case SMALL_STALL: stall(sim, 0); break;
    }
}

static void run_small(struct sim *sim)
{
    configure(sim);
    sim_boot(sim);
    greet(sim);
    for (uint32_t i = 0; i < depth_now; i++) {
        happen(sim, (enum small_event)tape_choose(sim->tape, SMALL_EVENTS));
        pass(sim);
        invariants_audit(sim);
    }
    sim_workers_by_hand(sim, false);
    sim->clients[0].next_us = sim->clients[1].next_us = sim->now_us;
    sim_run_calm(sim);
    sim_clients_leave(sim);
    pass(sim);
    pass(sim);
    invariants_audit(sim);
    invariants_check_done(sim);
}

uint64_t sim_exhaust(struct sim *sim, struct tape *tape, uint32_t depth)
{
    uint64_t runs = 0;
    FILE *script = sim->script;
    depth_now = depth;
    for (uint32_t i = 0; i < WORLDS; i++) {
        world_now = &worlds[i];
        sim->script = NULL;
        tape_count(tape, depth);
        do {
            runs++;
            if (sim_run_body(sim, tape, run_small) == SIM_FAILED) {
                tape->digit = 0;
                sim->script = stdout;       /* short, and the only trace of the run */
                sim_run_body(sim, tape, run_small);
                sim->script = script;
                return 0;
            }
        } while (tape_count_up(tape));
    }
    sim->script = script;
    return runs;
}
