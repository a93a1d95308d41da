/* SPDX-License-Identifier: MIT */
/*
 * What: struct world for the lab: a clock that jumps, one connection or one for each tenant, and
 * engines that are done when the cost of their step has passed.
 *
 * Invariants: time moves only in wait(), when nothing is ready, to the earliest of the caller's
 * bound, the end of a step, the next call that is due and the next death of an engine; never before
 * all connections are open.
 * A socket takes whatever is sent, at once and whole, so a frame never comes in pieces. Tenants are
 * users of the unix socket: tenant i has the number i + 1, and all are in the group LAB_GROUP.
 *
 * Why clients are told before settle: a client without a gap answers in the instant in which its
 * call ends. The network of the lab takes no time, so its next call must be in the inbox when that
 * very pass plans the next step; DONE frames come a little later in the same pass, when the plan is
 * made. So they are told in engine_poll(), which is the first moment of that instant.
 */
#include <string.h>
#include <time.h>

#include "config/base/assert.h"
#include "config/base/bounds.h"
#include "tools/lab/lab.h"

#define LISTENER_HANDLE 0
#define FIRST_HANDLE    1   /* of sockets[0] */

uint64_t lab_wall_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The lab's own work is taken out of what is measured. */
static uint64_t aside_begin(const struct lab *lab)
{
    return lab->timed ? lab_wall_ns() : 0;
}

static void aside_end(struct lab *lab, uint64_t begun_ns)
{
    lab->aside_ns += lab->timed ? lab_wall_ns() - begun_ns : 0;
}

static uint64_t now_us(void *self)
{
    return ((struct lab *)self)->now_us;
}

/* ---- the socket ------------------------------------------------------------------------------ */

struct lab_socket *lab_socket_of(const struct lab *lab, uint32_t run)
{
    uint32_t class = lab->clients.player.runs[run].program->class;
    return &lab->sockets.sockets[lab->settings->tenants ? class : 0];
}

static struct lab_socket *socket_at(const struct lab *lab, int32_t handle)
{
    uint32_t index = (uint32_t)(handle - FIRST_HANDLE);
    ASSERT(index < lab->sockets.count);
    return &lab->sockets.sockets[index];
}

/* The first that is not yet accepted; `count`: all are. */
static uint32_t next_client(const struct lab_sockets *sockets)
{
    uint32_t next = 0;
    while (next < sockets->count && sockets->sockets[next].accepted) {
        next++;
    }
    return next;
}

static int32_t accept_client(void *self, int32_t listener, struct world_peer *peer)
{
    struct lab *lab = self;
    uint32_t next = next_client(&lab->sockets);
    if (listener != LISTENER_HANDLE || next == lab->sockets.count) {
        return WORLD_EAGAIN;
    }
    lab->sockets.sockets[next].accepted = true;
    *peer = (struct world_peer){.kind = WORLD_PEER_LOCAL, .gids_count = 1, .gids = {LAB_GROUP},
                                .uid = lab->settings->tenants ? next + 1 : 0};
    return FIRST_HANDLE + (int32_t)next;
}

static void watch(void *self, int32_t handle, enum world_source source, uint32_t index,
                  uint32_t interest)
{
    struct lab *lab = self;
    if (handle == LISTENER_HANDLE) {
        lab->sockets.listening = interest != 0;
        return;
    }
    struct lab_socket *socket = socket_at(lab, handle);
    ASSERT(source == WORLD_SOURCE_CONNECTION);
    socket->slot = index;
    socket->interest = interest;
}

static int64_t receive(void *self, int32_t handle, void *bytes, uint32_t max)
{
    struct lab_socket *socket = socket_at(self, handle);
    uint32_t count = socket->count < max ? socket->count : max;
    if (count == 0) {
        return WORLD_EAGAIN;
    }
    memcpy(bytes, socket->to_server, count);
    socket->count -= count;
    memmove(socket->to_server, socket->to_server + count, socket->count);
    return count;
}

static int64_t transmit(void *self, int32_t handle, const void *bytes, uint32_t count)
{
    uint64_t begun_ns = aside_begin(self);
    lab_frames_read(self, socket_at(self, handle), bytes, count);
    aside_end(self, begun_ns);
    return count;
}

static void close_client(void *self, int32_t handle)
{
    struct lab *lab = self;
    ASSERT(handle != LISTENER_HANDLE);
    lab->sockets.closed = true;
}

static void entropy(void *self, void *bytes, uint32_t count)
{
    const struct lab *lab = self;
    uint64_t state = lab->settings->seed + UINT64_C(0x9e3779b97f4a7c15);
    for (uint32_t i = 0; i < count; i++) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
        ((uint8_t *)bytes)[i] = (uint8_t)(state >> 56);
    }
}

/* ---- time ------------------------------------------------------------------------------------ */

/* When the first step in flight is done; UINT64_MAX: there is none. */
static uint64_t next_step_us(const struct lab *lab)
{
    uint64_t next_us = UINT64_MAX;
    for (uint32_t i = 0; i < lab->limits.engines; i++) {
        const struct lab_engine *engine = &lab->engines[i];
        if (engine->in_flight && engine->due_us < next_us) {
            next_us = engine->due_us;
        }
    }
    return next_us;
}

static uint32_t collect(struct lab *lab, struct world_event *events, uint32_t max)
{
    const struct lab_sockets *sockets = &lab->sockets;
    uint32_t count = 0;
    if (next_step_us(lab) <= lab->now_us) {
        events[count++] = (struct world_event){.source = WORLD_SOURCE_ENGINE};
    }
    if (sockets->listening && next_client(sockets) < sockets->count) {
        events[count++] = (struct world_event){.source = WORLD_SOURCE_LISTENER,
                                               .ready = WORLD_READABLE};
    }
    for (uint32_t i = 0; i < sockets->count && count < max && !sockets->closed; i++) {
        const struct lab_socket *socket = &sockets->sockets[i];
        if (socket->accepted && socket->count > 0 && (socket->interest & WORLD_READABLE) != 0) {
            events[count++] = (struct world_event){.source = WORLD_SOURCE_CONNECTION,
                                                   .index = socket->slot, .ready = WORLD_READABLE};
        }
    }
    return count;
}

static void advance(struct lab *lab, uint64_t until_us)
{
    uint64_t next_us = lesser(player_next_us(&lab->clients.player), lab_flow_next_us(lab));
    next_us = lesser(next_us, until_us);
    next_us = lesser(next_us, next_step_us(lab));
    next_us = lesser(next_us, lab_death_next_us(lab));
    if (next_us > lab->now_us && next_us != UINT64_MAX) {
        lab->now_us = next_us;
    }
}

static void open_once(struct lab *lab)
{
    if (!lab->sockets.open) {
        lab->sockets.open = true;
        lab_foretold_teach(lab);
    }
}

static uint32_t wait_events(void *self, struct world_event *events, uint32_t max,
                            uint64_t until_us)
{
    struct lab *lab = self;
    uint64_t begun_ns = aside_begin(lab);
    ASSERT(max >= 3);
    for (uint32_t i = 0; i < lab->limits.engines; i++) {
        lab_engine_hear(lab, &lab->engines[i]);
    }
    if (lab->sockets.open) {
        lab_flow_act(lab);
    }
    uint32_t count = collect(lab, events, max);
    if (count == 0 && lab->sockets.opened == lab->sockets.count) {
        open_once(lab);
        advance(lab, until_us);
        lab_clients_submit_due(lab);
        lab_flow_act(lab);
        count = collect(lab, events, max);
    }
    aside_end(lab, begun_ns);
    return count;
}

/* ---- the engines ----------------------------------------------------------------------------- */

static struct lab_engine *engine_at(struct lab *lab, uint32_t index)
{
    ASSERT(index < lab->limits.engines);
    return &lab->engines[index];
}

static void engine_submit(void *self, uint32_t index)
{
    struct lab *lab = self;
    struct lab_engine *engine = engine_at(lab, index);
    uint64_t begun_ns = aside_begin(lab);
    ASSERT(!engine->in_flight && engine->down_until_us <= lab->now_us);
    lab_engine_run(lab, engine);
    lab->acted = true;
    lab_memory_sample(lab, engine);
    aside_end(lab, begun_ns);
}

static enum world_engine engine_poll(void *self, uint32_t index)
{
    struct lab *lab = self;
    struct lab_engine *engine = engine_at(lab, index);
    lab->heartbeat++;
    if (lab_death_comes(lab, engine)) {
        lab->acted = true;
        return WORLD_ENGINE_LOST;
    }
    if (engine->down_until_us > lab->now_us) {
        return WORLD_ENGINE_DOWN;
    }
    if (!engine->in_flight) {
        return WORLD_ENGINE_IDLE;
    }
    if (engine->due_us > lab->now_us) {
        return WORLD_ENGINE_BUSY;
    }
    uint64_t begun_ns = aside_begin(lab);
    engine->in_flight = false;
    lab->acted = true;
    lab_engine_tell(lab, engine);
    aside_end(lab, begun_ns);
    return WORLD_ENGINE_DONE;
}

static void engine_ask(void *self, uint32_t index)
{
    struct lab *lab = self;
    ASSERT(index < lab->limits.engines);
    lab->heartbeat++;
}

static uint64_t engine_heartbeat(void *self, uint32_t index)
{
    const struct lab *lab = self;
    ASSERT(index < lab->limits.engines);
    return lab->heartbeat;
}

void lab_world_init(struct lab *lab)
{
    lab->now_us = lab->acted_us = LAB_EPOCH_US;
    lab->world = (struct world){
        .self = lab,
        .now_us = now_us,
        .wall_us = now_us,
        .wait = wait_events,
        .accept = accept_client,
        .watch = watch,
        .recv = receive,
        .send = transmit,
        .close = close_client,
        .entropy = entropy,
        .engine_submit = engine_submit,
        .engine_poll = engine_poll,
        .engine_ask = engine_ask,
        .engine_heartbeat = engine_heartbeat,
    };
}
