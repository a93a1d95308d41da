/* SPDX-License-Identifier: MIT */
/*
 * What: the core's death, at any call of the world, and its successor: a loop that is built anew
 * over what is kept. Its connections are gone, workers stay as they are, and clients come back or
 * give up. The oracle knows no deaths: every token must be right, whatever core it comes from.
 *
 * Between two calls of the world a death is as one at the second: nothing but memory changes there.
 * What of kept memory may be torn then is for unit net/kept.
 * Not with a worker that scribbles: the next core may take its word that the step of the last one
 * is done. Not with workflows: they die with the core, and their oracle does not know that.
 */
#include <string.h>
#include <sys/mman.h>

#include "selftest/sim/sim.h"

#define DEATHS_MAX 64       /* of a run: one that dies for ever is for the keeper to end */

static bool may_die(const struct sim *sim)
{
    return sim->is_in_pass && sim->orders.core_restarts < DEATHS_MAX && !sim->orders.drain &&
           sim->swarm.flow_clients == 0 && sim->swarm.rate[SIM_FAULT_SCRIBBLE] == 0;
}

void sim_core_may_die(struct sim *sim)
{
    if (may_die(sim) && sim_fault(sim, SIM_FAULT_CORE)) {
        sim->is_in_pass = false;
        longjmp(sim->core_death, 1);
    }
}

/* The kernel closes what it had open. Who was connected did nothing wrong. */
static void close_all(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->peers_seen; i++) {
        const struct sim_peer *peer = &sim->peers[i];
        if (peer->in_use && peer->accepted && !peer->server_closed) {
            sim->clients[peer->client].excused = true;
            sim_socket_close(sim, (int32_t)(SIM_LISTENERS + i));
        }
    }
    memset(sim->watches, 0, sizeof sim->watches);
}

/* As appliance/core.c does with what the control pages say. */
static void build(struct sim *sim)
{
    uint64_t digests[SIM_ENGINES_MAX];
    bool is_known[SIM_ENGINES_MAX];
    for (uint32_t i = 0; i < sim->limits.engines; i++) {
        is_known[i] = sim->loop.engines[i].canary.is_known;
        digests[i] = sim->loop.engines[i].canary.digest;
    }
    madvise(sim->arena.base, sim->arena.size_bytes, MADV_DONTNEED);
    sim->arena.used_bytes = 0;
    sim->arena.sealed = false;
    sim_build_loop(sim);
    for (uint32_t i = 0; i < sim->limits.engines; i++) {
        if (is_known[i]) {
            canary_recall(&sim->loop.engines[i].canary, digests[i]);
        }
    }
}

void sim_core_again(struct sim *sim)
{
    sim_say(sim, "the core dies, and another one takes over");
    close_all(sim);
    sim->had_failed = sim->had_failed || sim->loop.sched.engine_failed;
    memset(&sim->counts, 0, sizeof sim->counts);
    sim->skipped_us = 0;
    build(sim);
    for (uint32_t i = 0; i < sim->limits.engines; i++) {
        sim_worker_leave(sim, &sim->engines[i]);
        sim->memory.engines[i].beat_us = sim->loop.now_us;
    }
    sim_lockstep_init(sim);
    sim->orders.core_restarts++;
}
