/* SPDX-License-Identifier: MIT */
/*
 * What: the world in memory; see fake_world.h.
 *
 * Invariants: time moves only in wait(), when nothing is ready, and then exactly to the next event
 * (the caller's deadline or the end of the engine's step). Readiness is computed from the queues,
 * so it is level-triggered, as with epoll. Handles are small numbers and are used again.
 */
#include "selftest/fake/fake_world.h"

#include <stddef.h>
#include <string.h>

#include "config/base/assert.h"

#define HANDLES (FAKE_LISTENERS + FAKE_PEERS_MAX)

/* xorshift64*: enough to choose lengths. */
static uint64_t draw(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545f4914f6cdd1d);
}

/* ---- queues ---------------------------------------------------------------------------------- */

static uint32_t queue_put(struct fake_queue *queue, const uint8_t *bytes, uint32_t count)
{
    uint32_t room = queue->capacity > queue->count ? queue->capacity - queue->count : 0;
    uint32_t taken = count < room ? count : room;
    for (uint32_t i = 0; i < taken; i++) {
        queue->bytes[(queue->first + queue->count + i) % FAKE_QUEUE_BYTES] = bytes[i];
    }
    queue->count += taken;
    return taken;
}

static uint32_t queue_get(struct fake_queue *queue, uint8_t *bytes, uint32_t max)
{
    uint32_t taken = max < queue->count ? max : queue->count;
    for (uint32_t i = 0; i < taken; i++) {
        bytes[i] = queue->bytes[(queue->first + i) % FAKE_QUEUE_BYTES];
    }
    queue->first = (queue->first + taken) % FAKE_QUEUE_BYTES;
    queue->count -= taken;
    return taken;
}

/* ---- the server's side ----------------------------------------------------------------------- */

static struct fake_peer *peer_of(struct fake_world *fake, int32_t handle)
{
    ASSERT(handle >= FAKE_LISTENERS && handle < (int32_t)HANDLES);
    struct fake_peer *peer = &fake->peers[handle - FAKE_LISTENERS];
    ASSERT(peer->in_use && peer->is_held && !peer->server_closed);
    return peer;
}

static uint64_t now_us(void *self)
{
    return ((struct fake_world *)self)->now_us;
}

static uint32_t sockets_open(const struct fake_world *fake)
{
    uint32_t open = 0;
    for (uint32_t i = 0; i < fake->peers_end; i++) {
        const struct fake_peer *peer = &fake->peers[i];
        open += peer->in_use && peer->accepted && !peer->server_closed ? 1 : 0;
    }
    return open;
}

static int32_t accept_peer(void *self, int32_t listener, struct world_peer *who)
{
    struct fake_world *fake = self;
    if (sockets_open(fake) >= fake->descriptors) {
        return WORLD_EFULL;
    }
    for (uint32_t i = 0; i < fake->peers_end; i++) {
        struct fake_peer *peer = &fake->peers[i];
        if (peer->in_use && !peer->accepted && (int32_t)peer->listener == listener) {
            peer->accepted = peer->is_held = true;
            *who = peer->who;
            fake->accepts++;
            return (int32_t)(FAKE_LISTENERS + i);
        }
    }
    return WORLD_EAGAIN;
}

static void watch(void *self, int32_t handle, enum world_source source, uint32_t index,
                  uint32_t interest)
{
    struct fake_world *fake = self;
    ASSERT(handle >= 0 && handle < (int32_t)HANDLES);
    fake->watches[handle] = (struct fake_watch){
        .watched = true, .source = source, .index = index, .interest = interest};
}

/* Number of the `count` bytes that this transfer may move; 0: EAGAIN. */
static uint32_t transfer_limit(struct fake_world *fake, uint32_t count)
{
    fake->transfers++;
    if (fake->again_every != 0 && fake->transfers % fake->again_every == 0) {
        return 0;
    }
    uint32_t limit = count;
    if (fake->transfer_max != 0 && fake->transfer_max < limit) {
        limit = fake->transfer_max;
    }
    return fake->random != 0 && limit > 1 ? 1 + (uint32_t)(draw(&fake->random) % limit) : limit;
}

static int64_t recv_bytes(void *self, int32_t handle, void *bytes, uint32_t max)
{
    struct fake_world *fake = self;
    struct fake_peer *peer = peer_of(fake, handle);
    fake->receives++;
    ASSERT(max > 0);
    if (peer->reset) {
        return WORLD_ECLOSED;
    }
    if (peer->to_server.count == 0) {
        return peer->to_server.ended ? 0 : WORLD_EAGAIN;
    }
    uint32_t limit = transfer_limit(fake, max);
    uint32_t taken = limit > 0 ? queue_get(&peer->to_server, bytes, limit) : 0;
    peer->taken += taken;
    return limit == 0 ? WORLD_EAGAIN : (int64_t)taken;
}

static int64_t send_bytes(void *self, int32_t handle, const void *bytes, uint32_t count)
{
    struct fake_world *fake = self;
    struct fake_peer *peer = peer_of(fake, handle);
    fake->sends++;
    ASSERT(count > 0);
    if (peer->reset) {
        return WORLD_ECLOSED;
    }
    uint32_t taken = queue_put(&peer->to_client, bytes, transfer_limit(fake, count));
    peer->sent += taken;
    return taken == 0 ? WORLD_EAGAIN : (int64_t)taken;
}

/* The client sees it when the last handle is gone. */
static void close_if_last(struct fake_world *fake, struct fake_peer *peer)
{
    if (!peer->is_held && !peer->outlives) {
        peer->server_closed = true;
        peer->to_client.ended = true;
        fake->closes++;
    }
}

static void close_handle(void *self, int32_t handle)
{
    struct fake_world *fake = self;
    fake->watches[handle] = (struct fake_watch){0};
    if (handle >= FAKE_LISTENERS) {
        struct fake_peer *peer = peer_of(fake, handle);
        peer->is_held = false;
        close_if_last(fake, peer);
    }
}

/* ---- for another core ------------------------------------------------------------------------ */

static bool keep(void *self, int32_t handle, uint32_t index)
{
    struct fake_world *fake = self;
    struct fake_peer *peer = peer_of(fake, handle);
    peer->outlives = fake->keeps;
    peer->slot = index;
    return fake->keeps;
}

static struct fake_peer *kept_at(struct fake_world *fake, uint32_t index)
{
    for (uint32_t i = 0; i < fake->peers_end; i++) {
        struct fake_peer *peer = &fake->peers[i];
        if (peer->in_use && peer->outlives && !peer->server_closed && peer->slot == index) {
            return peer;
        }
    }
    return NULL;
}

static void forget(void *self, uint32_t index)
{
    struct fake_peer *peer = kept_at(self, index);
    if (peer != NULL) {
        peer->outlives = false;
        close_if_last(self, peer);
    }
}

static int32_t recall(void *self, uint32_t index, struct world_kept *kept)
{
    struct fake_world *fake = self;
    struct fake_peer *peer = kept_at(fake, index);
    if (peer == NULL) {
        return WORLD_ECLOSED;
    }
    peer->is_held = true;
    *kept = (struct world_kept){.is_exact = fake->counts, .taken = peer->taken,
                                .sent = peer->sent};
    return (int32_t)(FAKE_LISTENERS + (peer - fake->peers));
}

void fake_world_lose_core(struct fake_world *fake)
{
    for (uint32_t i = 0; i < fake->peers_end; i++) {
        struct fake_peer *peer = &fake->peers[i];
        if (peer->in_use && peer->is_held) {
            close_handle(fake, (int32_t)(FAKE_LISTENERS + i));
        }
    }
    memset(fake->watches, 0, sizeof fake->watches);
}

static void entropy(void *self, void *bytes, uint32_t count)
{
    struct fake_world *fake = self;
    for (uint32_t i = 0; i < count; i++) {
        ((uint8_t *)bytes)[i] = (uint8_t)(draw(&fake->entropy_state) >> 32);
    }
}

/* ---- readiness ------------------------------------------------------------------------------- */

static uint32_t ready_of_listener(const struct fake_world *fake, uint32_t listener)
{
    for (uint32_t i = 0; i < fake->peers_end; i++) {
        const struct fake_peer *peer = &fake->peers[i];
        if (peer->in_use && !peer->accepted && peer->listener == listener) {
            return WORLD_READABLE;
        }
    }
    return 0;
}

static uint32_t ready_of_peer(const struct fake_peer *peer)
{
    uint32_t ready = 0;
    if (peer->reset) {
        return WORLD_READABLE | WORLD_WRITABLE | WORLD_HANGUP;
    }
    ready |= peer->to_server.count > 0 || peer->to_server.ended ? WORLD_READABLE : 0u;
    ready |= peer->to_client.count < peer->to_client.capacity ? WORLD_WRITABLE : 0u;
    return ready;
}

static uint32_t ready_of(const struct fake_world *fake, uint32_t handle)
{
    const struct fake_watch *look = &fake->watches[handle];
    if (!look->watched) {
        return 0;
    }
    uint32_t ready = handle < FAKE_LISTENERS
                         ? ready_of_listener(fake, handle)
                         : ready_of_peer(&fake->peers[handle - FAKE_LISTENERS]);
    return ready & (look->interest | WORLD_HANGUP);
}

static uint32_t collect(struct fake_world *fake, struct world_event *events, uint32_t max)
{
    uint32_t count = 0;
    bool engine_done = fake->engine_dies ||
                       (fake->engine_in_flight && fake->engine_due_us <= fake->now_us);
    if (fake->control_rung && count < max) {
        events[count++] = (struct world_event){.source = WORLD_SOURCE_CONTROL};
        fake->control_rung = false;
    }
    if (engine_done && count < max) {
        events[count++] = (struct world_event){.source = WORLD_SOURCE_ENGINE};
    }
    uint32_t handles = FAKE_LISTENERS + fake->peers_end;
    for (uint32_t i = 0; i < handles && count < max; i++) {
        uint32_t handle = (fake->wait_cursor + i) % handles;
        uint32_t ready = ready_of(fake, handle);
        if (ready != 0) {
            events[count++] = (struct world_event){.source = fake->watches[handle].source,
                                                   .index = fake->watches[handle].index,
                                                   .ready = ready};
        }
    }
    /* Another one is first the next time: a small `max` starves none. */
    fake->wait_cursor = (fake->wait_cursor + 1) % handles;
    return count;
}

static uint32_t wait_events(void *self, struct world_event *events, uint32_t max,
                            uint64_t until_us)
{
    struct fake_world *fake = self;
    fake->waits++;
    uint32_t count = collect(fake, events, max);
    if (count > 0 || until_us <= fake->now_us) {
        return count;
    }
    uint64_t next_us = until_us;
    if (fake->engine_in_flight && fake->engine_due_us < next_us) {
        next_us = fake->engine_due_us;
    }
    if (next_us != UINT64_MAX) {
        fake->now_us = next_us;
    }
    return collect(fake, events, max);
}

/* ---- the engine ------------------------------------------------------------------------------ */

static void engine_submit(void *self, uint32_t engine)
{
    struct fake_world *fake = self;
    ASSERT(engine == 0 && !fake->engine_in_flight);
    fake->engine_in_flight = true;
    fake->engine_due_us = fake->now_us + fake->engine_takes_us;
    if (fake->engine != NULL) {
        fake->engine(fake->engine_context);
    }
}

static enum world_engine engine_poll(void *self, uint32_t engine)
{
    struct fake_world *fake = self;
    ASSERT(engine == 0);
    if (fake->engine_dies) {
        fake->engine_dies = fake->engine_in_flight = false;
        return WORLD_ENGINE_LOST;
    }
    if (fake->engine_down) {
        return WORLD_ENGINE_DOWN;
    }
    if (!fake->engine_in_flight) {
        return WORLD_ENGINE_IDLE;
    }
    fake->engine_beats++;
    if (fake->engine_due_us > fake->now_us) {
        return WORLD_ENGINE_BUSY;
    }
    fake->engine_in_flight = false;
    return WORLD_ENGINE_DONE;
}

static void engine_condemn(void *self, uint32_t engine, enum world_fault fault)
{
    struct fake_world *fake = self;
    ASSERT(engine == 0 && (!fake->engine_in_flight || fault == WORLD_FAULT_LATE));
    fake->engine_condemned++;
    fake->engine_dies = true;
}

static void engine_ask(void *self, uint32_t engine)
{
    ASSERT(engine == 0);
    ((struct fake_world *)self)->engine_beats++;
}

static uint64_t engine_heartbeat(void *self, uint32_t engine)
{
    ASSERT(engine == 0);
    return ((struct fake_world *)self)->engine_beats;
}

/* ---- the test's side ------------------------------------------------------------------------- */

void fake_world_init(struct fake_world *fake)
{
    /* Peers come last: their queues are large, and connect() sets what they need. */
    memset(fake, 0, offsetof(struct fake_world, peers));
    for (uint32_t i = 0; i < FAKE_PEERS_MAX; i++) {
        fake->peers[i].in_use = false;
    }
    fake->now_us = 1000000;
    fake->descriptors = FAKE_PEERS_MAX;
    fake->entropy_state = UINT64_C(0x9e3779b97f4a7c15);
    fake->world = (struct world){
        .self = fake,
        .now_us = now_us,
        .wall_us = now_us,
        .wait = wait_events,
        .accept = accept_peer,
        .watch = watch,
        .recv = recv_bytes,
        .send = send_bytes,
        .close = close_handle,
        .keep = keep,
        .forget = forget,
        .recall = recall,
        .entropy = entropy,
        .engine_submit = engine_submit,
        .engine_poll = engine_poll,
        .engine_condemn = engine_condemn,
        .engine_ask = engine_ask,
        .engine_heartbeat = engine_heartbeat,
    };
}

void fake_world_ring(struct fake_world *fake)
{
    fake->control_rung = true;
}

uint32_t fake_client_connect(struct fake_world *fake, uint32_t listener)
{
    ASSERT(listener < FAKE_LISTENERS);
    for (uint32_t i = 0; i < FAKE_PEERS_MAX; i++) {
        struct fake_peer *peer = &fake->peers[i];
        if (!peer->in_use) {
            /* Field by field: a queue is large, and its old bytes mean nothing. */
            peer->in_use = true;
            peer->accepted = peer->server_closed = peer->reset = false;
            peer->is_held = peer->outlives = false;
            peer->taken = peer->sent = 0;
            peer->listener = listener;
            peer->who = (struct world_peer){
                .kind = listener == 0 ? WORLD_PEER_LOCAL : WORLD_PEER_LOOPBACK};
            peer->to_server.first = peer->to_server.count = 0;
            peer->to_client.first = peer->to_client.count = 0;
            peer->to_server.capacity = peer->to_client.capacity = FAKE_QUEUE_BYTES;
            peer->to_server.ended = peer->to_client.ended = false;
            fake->peers_end = i < fake->peers_end ? fake->peers_end : i + 1;
            return i;
        }
    }
    return FAKE_NONE;
}

uint32_t fake_client_send(struct fake_world *fake, uint32_t peer, const void *bytes,
                          uint32_t count)
{
    ASSERT(peer < FAKE_PEERS_MAX && fake->peers[peer].in_use);
    ASSERT(!fake->peers[peer].to_server.ended);
    if (fake->peers[peer].server_closed) {
        return count;               /* lost, as on a socket whose RST is still under way */
    }
    return queue_put(&fake->peers[peer].to_server, bytes, count);
}

uint32_t fake_client_recv(struct fake_world *fake, uint32_t peer, void *bytes, uint32_t max)
{
    ASSERT(peer < FAKE_PEERS_MAX && fake->peers[peer].in_use);
    return queue_get(&fake->peers[peer].to_client, bytes, max);
}

void fake_client_window(struct fake_world *fake, uint32_t peer, uint32_t bytes)
{
    ASSERT(peer < FAKE_PEERS_MAX && bytes <= FAKE_QUEUE_BYTES);
    fake->peers[peer].to_client.capacity = bytes;
}

void fake_client_finish(struct fake_world *fake, uint32_t peer)
{
    ASSERT(peer < FAKE_PEERS_MAX);
    fake->peers[peer].to_server.ended = true;
}

void fake_client_reset(struct fake_world *fake, uint32_t peer)
{
    ASSERT(peer < FAKE_PEERS_MAX);
    fake->peers[peer].reset = true;
    fake->peers[peer].to_server.count = 0;
}

bool fake_client_is_closed(const struct fake_world *fake, uint32_t peer)
{
    ASSERT(peer < FAKE_PEERS_MAX);
    return fake->peers[peer].server_closed;
}

void fake_client_forget(struct fake_world *fake, uint32_t peer)
{
    ASSERT(peer < FAKE_PEERS_MAX && fake->peers[peer].server_closed);
    fake->peers[peer].in_use = false;
}
