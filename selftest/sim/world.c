/* SPDX-License-Identifier: MIT */
/*
 * What: struct world: time, and the order of events.
 *
 * Invariants: time moves in wait() alone. It moves a little in each wait, so that a loop that spins
 * does not stop it; when nothing is ready, it moves to the next event. Clients and engine act when
 * their time has come, in an order that does not depend on the appliance. Readiness is computed, so
 * it is level-triggered, as with epoll.
 */
#include <string.h>

#include "selftest/sim/sim.h"
#include "config/base/bounds.h"

#define PASS_US_MAX  20             /* time that a pass takes */
#define LATE_US_MAX  (3 * SIM_SECOND_US)
#define LATE_US_MIN  (SIM_SECOND_US / 5)    /* so much later it may be, and no worker is excused */
#define GAP_US_MAX   (900 * SIM_SECOND_US)
#define GAP_US_MIN   (2 * SIM_SECOND_US)    /* a shorter gap is lateness, and counts */

static uint64_t now_us(void *self)
{
    return ((struct sim *)self)->now_us;
}

/* A clock that is set anew whenever it is read, forward or back: only what people read may show
 * it, for all else would then break an invariant. */
static uint64_t wall_us(void *self)
{
    return (((struct sim *)self)->wall_reads++ * UINT64_C(0x9e3779b97f4a7c15)) >> 8;
}

static void watch(void *self, int32_t handle, enum world_source source, uint32_t index,
                  uint32_t interest)
{
    struct sim *sim = self;
    SIM_REQUIRE(sim, handle >= 0 && handle < (int32_t)SIM_HANDLES, INVARIANT_WORLD,
                "watch of handle %d", handle);
    bool is_open = handle < SIM_LISTENERS || (sim->peers[handle - SIM_LISTENERS].accepted &&
                                              !sim->peers[handle - SIM_LISTENERS].server_closed);
    SIM_REQUIRE(sim, is_open, INVARIANT_WORLD, "watch of handle %d, which is not open", handle);
    sim->watches[handle] = (struct sim_watch){
        .watched = true, .source = source, .index = index, .interest = interest};
}

static void entropy(void *self, void *bytes, uint32_t count)
{
    struct sim *sim = self;
    for (uint32_t i = 0; i < count; i++) {
        ((uint8_t *)bytes)[i] = (uint8_t)sim_choose(sim, 256);
    }
}

/* ---- events ---------------------------------------------------------------------------------- */

static uint32_t ready_of(struct sim *sim, uint32_t handle, uint32_t spurious)
{
    const struct sim_watch *look = &sim->watches[handle];
    if (!look->watched) {
        return 0;
    }
    uint32_t ready = sim_socket_ready(sim, handle) & (look->interest | WORLD_HANGUP);
    return ready == 0 && handle == spurious ? look->interest : ready;
}

static uint32_t collect(struct sim *sim, struct world_event *events, uint32_t max,
                        bool engine_rings)
{
    uint32_t count = 0, handles = SIM_LISTENERS + sim->peers_seen;
    uint32_t first = sim_choose(sim, handles);
    uint32_t spurious =
        sim_fault(sim, SIM_FAULT_SPURIOUS) ? SIM_LISTENERS + sim_choose(sim, handles) : SIM_NONE;
    if (engine_rings) {
        events[count++] = (struct world_event){.source = WORLD_SOURCE_ENGINE};
    }
    for (uint32_t i = 0; i < handles && count < max; i++) {
        uint32_t handle = first + i < handles ? first + i : first + i - handles;
        uint32_t ready = ready_of(sim, handle, spurious);
        if (ready != 0) {
            events[count++] = (struct world_event){.source = sim->watches[handle].source,
                                                   .index = sim->watches[handle].index,
                                                   .ready = ready};
        }
    }
    return count;
}

/* ---- time ------------------------------------------------------------------------------------ */

static bool let_happen(struct sim *sim)
{
    bool engine_rings = sim_workers_advance(sim);
    sim_clients_act(sim);
    return engine_rings;
}

/* Moves time to the next event, or to the bound. */
static void jump(struct sim *sim, uint64_t until_us)
{
    uint64_t next_us = lesser(until_us, sim_clients_next_us(sim));
    next_us = lesser(next_us, sim_workers_next_us(sim));
    sim->now_us = next_us > sim->now_us ? next_us : sim->now_us;
}

static void oversleep(struct sim *sim)
{
    if (sim_fault(sim, SIM_FAULT_LATE)) {
        uint64_t late_us = sim_time(sim, LATE_US_MAX);
        sim_say(sim, "the process wakes up %llu us late", (unsigned long long)late_us);
        sim->now_us += late_us;
    }
    if (sim_fault(sim, SIM_FAULT_GAP)) {
        uint64_t gap_us = sim_time(sim, GAP_US_MAX);
        sim_say(sim, "the process is stopped for %llu us", (unsigned long long)gap_us);
        sim->now_us += gap_us;
    }
}

/* No silence is as long as it would be without this. */
static void excuse_workers(struct sim *sim, uint64_t late_us)
{
    for (uint32_t i = 0; i < sim->limits.engines; i++) {
        sim->memory.engines[i].beat_us += late_us;
        sim->engines[i].asked_us += late_us;
    }
}

/* A gap beyond the time that the loop has asked for: the loop must not count it, and what is
 * shorter, and longer than a tick, not against a worker. */
static void account_gap(struct sim *sim, uint64_t began_us, uint64_t until_us)
{
    uint64_t expected_us = until_us > began_us ? until_us : began_us;
    uint64_t late_us = sim->now_us > expected_us ? sim->now_us - expected_us : 0;
    if (late_us > GAP_US_MIN) {
        sim->skipped_us += late_us;
    } else if (late_us > LATE_US_MIN) {
        excuse_workers(sim, late_us - LATE_US_MIN);
    }
}

static uint32_t wait_events(void *self, struct world_event *events, uint32_t max,
                            uint64_t until_us)
{
    struct sim *sim = self;
    uint64_t began_us = sim->now_us;
    sim->now_us += 1 + sim_choose(sim, PASS_US_MAX);
    sim->counts.pass_receives = sim->counts.pass_accepts = 0;
    bool engine_rings = let_happen(sim);
    max = sim_fault(sim, SIM_FAULT_FEW) ? 1 : max;
    uint32_t count = collect(sim, events, max, engine_rings);
    while (count == 0 && sim->now_us < until_us) {
        jump(sim, until_us);
        sim->stirred = false;
        engine_rings = let_happen(sim);
        count = engine_rings || sim->stirred ? collect(sim, events, max, engine_rings) : 0;
    }
    oversleep(sim);
    account_gap(sim, began_us, until_us);
    sim_mix(sim, sim->now_us);
    return count;
}

void sim_world_init(struct sim *sim)
{
    sim->now_us = SIM_EPOCH_US;
    sim->world = (struct world){
        .self = sim,
        .now_us = now_us,
        .wall_us = wall_us,
        .wait = wait_events,
        .accept = sim_accept,
        .watch = watch,
        .recv = sim_socket_recv,
        .send = sim_socket_send,
        .close = sim_socket_close,
        .keep = sim_socket_keep,
        .forget = sim_socket_forget,
        .recall = sim_socket_recall,
        .entropy = entropy,
        .engine_submit = sim_engine_submit,
        .engine_poll = sim_engine_poll,
        .engine_ask = sim_engine_ask,
        .engine_heartbeat = sim_engine_heartbeat,
        .engine_condemn = sim_engine_condemn,
    };
}
