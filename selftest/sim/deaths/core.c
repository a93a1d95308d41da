/* SPDX-License-Identifier: MIT */
/*
 * What: the core's death, at any call of the world, and its successor: a loop that is built anew
 * over what is kept. Workers stay as they are, and connections, if clients can know that they were
 * open; of others clients come back or give up. The oracle knows no deaths: every token must be
 * right and come once, whatever core it comes from.
 *
 * An upgrade (upgrade.c) is such a succession, too.
 *
 * Between two calls of the world nothing but memory changes: there a death is one at a store
 * (store.c). Garbage is in what is kept of workflows alone (garble.c); elsewhere it is for unit
 * net/kept.
 * Not with a worker that scribbles: the next core may take its word that the step of the last one
 * is done.
 */
#include <string.h>
#include <sys/mman.h>

#include "net/kept/connections.h"
#include "net/kept/progress.h"
#include "selftest/fake/store_trap.h"
#include "selftest/sim/sim.h"

#define DEATHS_MAX 64       /* of a run: one that dies for ever is for the keeper to end */
#define DEATHS_IN_A_ROW_MAX 2       /* and connections stay: as in net/kept/take_up.c, */
#define BLAMED_MAX 2                /* and this, too */

bool sim_core_may_follow(const struct sim *sim, uint32_t so_far)
{
    uint32_t most = sim->tape->deaths > 0 ? sim->tape->deaths : DEATHS_MAX;
    return so_far < most && !sim->orders.drain && sim->swarm.rate[SIM_FAULT_SCRIBBLE] == 0;
}

static bool may_die(const struct sim *sim)
{
    return sim->is_in_pass && sim_core_may_follow(sim, sim->deaths);
}

_Noreturn void sim_core_dies(struct sim *sim)
{
    store_trap_disarm();
    sim->is_in_pass = false;
    longjmp(sim->core_death, 1);
}

void sim_core_may_die(struct sim *sim)
{
    if (may_die(sim) && sim_fault(sim, SIM_FAULT_CORE)) {
        sim_core_dies(sim);
    }
}

void sim_core_may_die_at_a_store(struct sim *sim)
{
    if (may_die(sim) && sim_fault(sim, SIM_FAULT_STORE)) {
        sim_stores_arm(sim);
    }
}

/* True when the slot's call has ended, but not for a successor: log probabilities that its client
 * has not been sent, or not for sure, are not kept. */
static bool is_computed_again(const struct loop *loop, uint32_t slot)
{
    const struct net_progress *progress = &loop->net.progress[slot];
    enum call_state state = loop->calls.calls[slot].state;
    return progress->check != 0 && progress->sampling.wants_logprobs &&
           (state == CALL_FINISHED || state == CALL_FREE);
}

/* Such a call may find no place, or take that of another one. */
static void excuse_places(struct sim *sim)
{
    bool is_short = false;
    for (uint32_t i = 0; i < sim->loop.calls.count && !sim->is_building; i++) {
        is_short = is_short || is_computed_again(&sim->loop, i);
    }
    for (uint32_t i = 0; is_short && i < sim->swarm.clients; i++) {
        sim->clients[i].excused = true;
    }
}

/* One whose frames two cores died of may be closed. */
static void blame(struct sim *sim)
{
    const struct net_kept_head *head = sim->loop.net.kept.head;
    bool is_known = head != NULL && head->acting > 0 && head->acting <= SIM_CONNECTIONS_MAX;
    int32_t handle = is_known ? sim->kept_handles[head->acting - 1] : 0;
    if (handle == 0 || sim->was_killed) {
        return;
    }
    struct sim_client *client = &sim->clients[sim->peers[handle - SIM_LISTENERS].client];
    client->excused = client->excused || ++client->blamed == BLAMED_MAX;
}

/* The kernel closes what it had open and is not kept. A core that cannot know how much of a stream
 * has moved may close it, and one whose predecessors have ended no pass, all. */
static void close_others(struct sim *sim)
{
    sim->deaths_in_a_row += !sim->was_killed;
    blame(sim);
    bool is_desperate = sim->deaths_in_a_row > DEATHS_IN_A_ROW_MAX;
    if (sim->moved != NULL && sim->moved->listener == SIM_LISTENER_UNIX) {
        sim->moved->is_in_doubt = true;
    }
    sim->moved = NULL;
    for (uint32_t i = 0; i < sim->peers_seen; i++) {
        struct sim_peer *peer = &sim->peers[i];
        if (!peer->in_use || !peer->accepted || peer->server_closed) {
            continue;
        }
        if (!peer->is_kept || peer->is_in_doubt || is_desperate) {
            sim->clients[peer->client].excused = true;
        }
        if (peer->is_held) {
            sim_socket_close(sim, (int32_t)(SIM_LISTENERS + i));
        }
        peer->is_in_doubt = false;
    }
    memset(sim->watches, 0, sizeof sim->watches);
}

/* As appliance/core.c does with what the control pages say. */
static void keep_canaries(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->limits.engines && !sim->is_building; i++) {
        sim->knows_canary[i] = sim->loop.engines[i].canary.is_known;
        sim->canary[i] = sim->loop.engines[i].canary.digest;
    }
}

/* It may die of what it finds, too. */
static void build(struct sim *sim)
{
    madvise(sim->arena.base, sim->arena.size_bytes, MADV_DONTNEED);
    sim->arena.used_bytes = 0;
    sim->arena.sealed = false;
    sim->is_building = sim->is_in_pass = true;
    sim_core_may_die_at_a_store(sim);
    sim_build_loop(sim);
    store_trap_disarm();
    sim->is_building = sim->is_in_pass = false;
    for (uint32_t i = 0; i < sim->limits.engines; i++) {
        if (sim->knows_canary[i]) {
            canary_recall(&sim->loop.engines[i].canary, sim->canary[i]);
        }
    }
}

/* One whose predecessors have ended no pass takes no workflow up: they may have died of one. */
static void check_desperate(struct sim *sim)
{
    SIM_REQUIRE(sim, sim->loop.net.kept.head->attempts <= DEATHS_IN_A_ROW_MAX ||
                         sim_workflows_open(sim) == 0,
                INVARIANT_WORKFLOW, "%u cores have died of what is kept, and a workflow is there",
                sim->loop.net.kept.head->attempts);
}

void sim_core_leave(struct sim *sim)
{
    excuse_places(sim);
    close_others(sim);
    sim_programs_leave(sim);
    keep_canaries(sim);
    sim->had_failed = sim->had_failed || (!sim->is_building && sim->loop.sched.engine_failed);
    memset(&sim->counts, 0, sizeof sim->counts);
    sim_poison_forget(sim);
    sim->skipped_us = 0;
    sim->rests_us = 0;
}

static void meet_workers(struct sim *sim)
{
    if (sim->meets_others) {
        sim_workers_init(sim);
    }
    for (uint32_t i = 0; i < sim->limits.engines; i++) {
        if (!sim->meets_others) {
            sim_worker_leave(sim, &sim->engines[i]);
        }
        sim->memory.engines[i].beat_us = sim->loop.now_us;
    }
    sim->meets_others = false;
}

void sim_core_take_over(struct sim *sim)
{
    build(sim);
    check_desperate(sim);
    meet_workers(sim);
    sim_programs_meet(sim);
    sim_lockstep_again(sim);
}

void sim_core_again(struct sim *sim)
{
    sim_say(sim, "the core dies, and another one takes over");
    sim->was_killed = sim_choose(sim, 2) == 1;
    sim_core_leave(sim);
    sim->orders.core_restarts++;
    sim->deaths++;
    sim_may_garble(sim);
    sim_core_take_over(sim);
}
