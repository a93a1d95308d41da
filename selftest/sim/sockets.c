/* SPDX-License-Identifier: MIT */
/*
 * What: virtual sockets: two rings of bytes for each connection. The tape chooses how many bytes
 * each transfer moves.
 *
 *   client  sim_send() --> [to_server] --> recv()   server
 *           sim_receive() <-- [to_client] <-- send()
 *
 * Invariants: all bytes arrive, in order, until a reset. A handle is used again as soon as both
 * sides have closed it, the lowest first, as with descriptors. Use of a handle that is not open
 * fails the run.
 */
#include <string.h>

#include "selftest/sim/sim.h"
#include "config/base/bounds.h"

#define AGAIN_MAX   20
#define ACCEPTS_MAX (NET_LISTENERS_MAX * NET_ACCEPTS_PER_PASS + TEXTPORT_ACCEPTS_PER_PASS_MAX)

/* ---- rings ----------------------------------------------------------------------------------- */

static uint32_t ring_room(const struct sim_ring *ring)
{
    return ring->capacity - ring->count;
}

static uint32_t put(struct sim_ring *ring, const uint8_t *bytes, uint32_t count)
{
    count = lesser(count, ring_room(ring));
    uint32_t at = (ring->first + ring->count) % SIM_RING_BYTES;
    uint32_t first = lesser(count, SIM_RING_BYTES - at);
    memcpy(ring->bytes + at, bytes, first);
    memcpy(ring->bytes, bytes + first, count - first);
    ring->count += count;
    return count;
}

static uint32_t get(struct sim_ring *ring, uint8_t *bytes, uint32_t max)
{
    uint32_t count = lesser(max, ring->count);
    uint32_t first = lesser(count, SIM_RING_BYTES - ring->first);
    memcpy(bytes, ring->bytes + ring->first, first);
    memcpy(bytes + first, ring->bytes, count - first);
    ring->first = (ring->first + count) % SIM_RING_BYTES;
    ring->count -= count;
    return count;
}

/* The statistics count the binary protocol only. */
static bool is_counted(const struct sim_peer *peer)
{
    return peer->listener != SIM_LISTENER_TEXT;
}

/* ---- the server's side ----------------------------------------------------------------------- */

static struct sim_peer *peer_of(struct sim *sim, int32_t handle)
{
    SIM_REQUIRE(sim, handle >= SIM_LISTENERS && handle < (int32_t)SIM_HANDLES, INVARIANT_WORLD,
                "no such handle: %d", handle);
    struct sim_peer *peer = &sim->peers[handle - SIM_LISTENERS];
    SIM_REQUIRE(sim, peer->in_use && peer->is_held, INVARIANT_WORLD, "handle %d is not open",
                handle);
    return peer;
}

uint32_t sim_handles_open(const struct sim *sim)
{
    uint32_t open = 0;
    for (uint32_t i = 0; i < sim->peers_seen; i++) {
        open += sim->peers[i].in_use && sim->peers[i].accepted && !sim->peers[i].server_closed;
    }
    return open;
}

static uint32_t find_pending(const struct sim *sim, uint32_t listener)
{
    uint32_t first = SIM_NONE;
    for (uint32_t i = 0; i < sim->peers_seen; i++) {
        const struct sim_peer *peer = &sim->peers[i];
        bool is_pending = peer->in_use && !peer->accepted && peer->listener == listener;
        if (is_pending && (first == SIM_NONE || peer->since < sim->peers[first].since)) {
            first = i;
        }
    }
    return first;
}

int32_t sim_accept(void *self, int32_t listener, struct world_peer *who)
{
    struct sim *sim = self;
    uint32_t peer = find_pending(sim, (uint32_t)listener);
    sim_core_may_die(sim);
    SIM_REQUIRE(sim, !sim->orders.yields || listener == SIM_LISTENER_TEXT, INVARIANT_ANSWER,
                "a client comes in, and the core is about to yield");
    SIM_REQUIRE(sim, ++sim->counts.pass_accepts <= ACCEPTS_MAX, INVARIANT_BOUNDED,
                "more than %u accepts in a pass", ACCEPTS_MAX);
    if (peer == SIM_NONE || sim_fault(sim, SIM_FAULT_ABORTED)) {
        return WORLD_EAGAIN;
    }
    if (sim_handles_open(sim) >= sim->swarm.descriptors || sim_fault(sim, SIM_FAULT_FULL)) {
        return WORLD_EFULL;
    }
    sim->peers[peer].accepted = sim->peers[peer].is_held = true;
    sim->peers[peer].by_group = sim_comes_by_group(sim, &sim->clients[sim->peers[peer].client]);
    *who = sim->peers[peer].who;
    sim->counts.accepts += is_counted(&sim->peers[peer]);
    return (int32_t)(SIM_LISTENERS + peer);
}

/* Number of the `count` bytes that this transfer moves; 0: EAGAIN. */
static uint32_t transfer(struct sim *sim, struct sim_peer *peer, uint32_t count)
{
    if (peer->again == 0 && sim_fault(sim, SIM_FAULT_AGAIN)) {
        peer->again = 1 + sim_choose(sim, AGAIN_MAX);
    }
    if (peer->again > 0) {
        peer->again--;
        return 0;
    }
    if (count <= 1 || !sim_fault(sim, SIM_FAULT_SHORT)) {
        return count;
    }
    switch (sim_choose(sim, 4)) {       /* likely mistakes: 1, and all but one */
    case 0: return count - 1;
    case 1: return 1;
    default: return 1 + sim_choose(sim, count);
    }
}

static int64_t receive(struct sim *sim, struct sim_peer *peer, void *bytes, uint32_t max)
{
    SIM_REQUIRE(sim, max > 0, INVARIANT_WORLD, "recv of nothing");
    sim->counts.pass_receives += is_counted(peer);
    if (peer->reset) {
        return WORLD_ECLOSED;
    }
    if (peer->to_server.count == 0) {
        return peer->finished ? 0 : WORLD_EAGAIN;
    }
    uint32_t limit = transfer(sim, peer, lesser(max, peer->to_server.count));
    if (limit == 0) {
        return WORLD_EAGAIN;
    }
    sim->is_in_world = true;
    uint32_t count = get(&peer->to_server, bytes, limit);
    sim->is_in_world = false;
    sim->counts.bytes_received += is_counted(peer) ? count : 0;
    peer->taken += count;
    return count;
}

static int64_t send_bytes(struct sim *sim, struct sim_peer *peer, const void *bytes,
                          uint32_t count)
{
    SIM_REQUIRE(sim, count > 0, INVARIANT_WORLD, "send of nothing");
    if (peer->reset || peer->closed) {
        return WORLD_ECLOSED;
    }
    uint32_t room = lesser(count, ring_room(&peer->to_client));
    uint32_t limit = room == 0 ? 0 : transfer(sim, peer, room);
    if (limit == 0) {
        return WORLD_EAGAIN;
    }
    put(&peer->to_client, bytes, limit);
    for (uint32_t i = 0; i < limit; i++) {
        sim_mix(sim, ((const uint8_t *)bytes)[i]);
    }
    sim->counts.bytes_sent += is_counted(peer) ? limit : 0;
    sim_clients_wake(sim, peer->client);
    peer->sent += limit;
    return limit;
}

/* The core may die before it is done, or when it has been done and the core does not know. TCP can
 * say it afterwards. */
static struct sim_peer *begin_transfer(struct sim *sim, int32_t handle)
{
    struct sim_peer *peer = peer_of(sim, handle);
    peer->is_in_doubt = peer->listener == SIM_LISTENER_UNIX;
    sim_core_may_die(sim);
    return peer;
}

static int64_t end_transfer(struct sim *sim, struct sim_peer *peer, int64_t count)
{
    sim_core_may_die(sim);
    peer->is_in_doubt = false;
    sim->moved = peer;
    return count;
}

int64_t sim_socket_recv(void *self, int32_t handle, void *bytes, uint32_t max)
{
    struct sim_peer *peer = begin_transfer(self, handle);
    int64_t count = receive(self, peer, bytes, max);
    sim_mix(self, (uint64_t)handle << 32 | (uint32_t)count);
    return end_transfer(self, peer, count);
}

int64_t sim_socket_send(void *self, int32_t handle, const void *bytes, uint32_t count)
{
    struct sim_peer *peer = begin_transfer(self, handle);
    return end_transfer(self, peer, send_bytes(self, peer, bytes, count));
}

static void let_go(struct sim_peer *peer)
{
    peer->in_use = !(peer->server_closed && peer->closed);
}

static void close_if_last(struct sim *sim, struct sim_peer *peer)
{
    if (peer->is_held || peer->is_kept) {
        return;
    }
    peer->server_closed = true;
    if (!peer->closed) {
        sim_clients_wake(sim, peer->client);
    }
    let_go(peer);
}

void sim_socket_close(void *self, int32_t handle)
{
    struct sim *sim = self;
    if (handle >= SIM_LISTENERS) {
        struct sim_peer *peer = peer_of(sim, handle);
        sim_core_may_die(sim);
        peer->is_held = false;
        close_if_last(sim, peer);
    }
    sim->watches[handle] = (struct sim_watch){0};
    sim_mix(sim, (uint64_t)handle);
}

/* ---- handles that are kept ------------------------------------------------------------------- */

bool sim_socket_keep(void *self, int32_t handle, uint32_t index)
{
    struct sim *sim = self;
    struct sim_peer *peer = peer_of(sim, handle);
    SIM_REQUIRE(sim, index < SIM_CONNECTIONS_MAX && sim->kept_handles[index] == 0, INVARIANT_WORLD,
                "connection %u is kept twice", index);
    sim_core_may_die(sim);
    if (sim_fault(sim, SIM_FAULT_FULL)) {
        return false;
    }
    peer->is_kept = true;
    sim->kept_handles[index] = handle;
    sim_core_may_die(sim);
    return true;
}

void sim_socket_forget(void *self, uint32_t index)
{
    struct sim *sim = self;
    sim_core_may_die(sim);
    if (sim->kept_handles[index] != 0) {
        struct sim_peer *peer = &sim->peers[sim->kept_handles[index] - SIM_LISTENERS];
        peer->is_kept = false;
        sim->kept_handles[index] = 0;
        close_if_last(sim, peer);
    }
    sim_core_may_die(sim);
}

int32_t sim_socket_recall(void *self, uint32_t index, struct world_kept *kept)
{
    struct sim *sim = self;
    int32_t handle = sim->kept_handles[index];
    if (handle == 0) {
        return WORLD_ECLOSED;
    }
    struct sim_peer *peer = &sim->peers[handle - SIM_LISTENERS];
    peer->is_held = true;
    *kept = (struct world_kept){.is_exact = peer->listener != SIM_LISTENER_UNIX,
                                .taken = peer->taken, .sent = peer->sent};
    return handle;
}

uint32_t sim_socket_ready(const struct sim *sim, uint32_t handle)
{
    if (handle < SIM_LISTENERS) {
        return find_pending(sim, handle) != SIM_NONE ? WORLD_READABLE : 0;
    }
    const struct sim_peer *peer = &sim->peers[handle - SIM_LISTENERS];
    if (peer->reset) {
        return WORLD_READABLE | WORLD_WRITABLE | WORLD_HANGUP;
    }
    uint32_t ready = peer->to_server.count > 0 || peer->finished ? WORLD_READABLE : 0u;
    ready |= ring_room(&peer->to_client) > 0 || peer->closed ? WORLD_WRITABLE : 0u;
    /* A unix socket reports a close at once, TCP only after a send. */
    ready |= peer->closed && peer->listener == SIM_LISTENER_UNIX ? WORLD_HANGUP : 0u;
    return ready;
}

/* ---- the client's side ----------------------------------------------------------------------- */

static uint8_t *ring_bytes(uint32_t index)
{
    static uint8_t bytes[2 * SIM_PEERS_MAX][SIM_RING_BYTES];
    return bytes[index];
}

void sim_sockets_init(struct sim *sim)
{
    for (uint32_t i = 0; i < SIM_PEERS_MAX; i++) {
        sim->peers[i] = (struct sim_peer){
            .to_server = {.bytes = ring_bytes(2 * i)},
            .to_client = {.bytes = ring_bytes(2 * i + 1)},
        };
    }
}

uint32_t sim_connect(struct sim *sim, uint32_t client)
{
    for (uint32_t i = 0; i < SIM_PEERS_MAX; i++) {
        struct sim_peer *peer = &sim->peers[i];
        if (!peer->in_use) {
            struct sim_ring out = {.bytes = peer->to_server.bytes,
                                   .capacity = sim->swarm.ring_bytes};
            struct sim_ring in = {.bytes = peer->to_client.bytes,
                                  .capacity = sim->swarm.ring_bytes};
            const struct sim_client *who = &sim->clients[client];
            bool is_local = who->listener == SIM_LISTENER_UNIX;
            *peer = (struct sim_peer){
                .in_use = true, .client = client, .listener = who->listener,
                .since = ++sim->connects,
                .who = {.kind = is_local ? WORLD_PEER_LOCAL : WORLD_PEER_LOOPBACK,
                        .uid = who->uid, .gids_count = 1, .gids = {who->uid}},
                .to_server = out, .to_client = in};
            sim->stirred = true;
            sim->peers_seen = sim->peers_seen > i ? sim->peers_seen : i + 1;
            return i;
        }
    }
    return SIM_NONE;
}

uint32_t sim_send(struct sim *sim, uint32_t peer, const void *bytes, uint32_t count)
{
    struct sim_peer *own = &sim->peers[peer];
    ASSERT(own->in_use && !own->closed);
    if (own->reset || own->finished || own->server_closed) {
        return 0;                       /* the other side takes no more */
    }
    sim->stirred = true;
    return put(&own->to_server, bytes, count);
}

uint32_t sim_receive(struct sim *sim, uint32_t peer, void *bytes, uint32_t max)
{
    ASSERT(sim->peers[peer].in_use && !sim->peers[peer].closed);
    uint32_t count = get(&sim->peers[peer].to_client, bytes, max);
    sim->stirred = sim->stirred || count > 0;
    return count;
}

void sim_finish(struct sim *sim, uint32_t peer)
{
    sim->peers[peer].finished = sim->stirred = true;
}

void sim_close(struct sim *sim, uint32_t peer)
{
    struct sim_peer *own = &sim->peers[peer];
    ASSERT(own->in_use && !own->closed);
    own->finished = own->closed = sim->stirred = true;
    let_go(own);
}

void sim_reset(struct sim *sim, uint32_t peer)
{
    sim->peers[peer].reset = sim->stirred = true;
    sim->peers[peer].to_client.count = sim->peers[peer].to_server.count = 0;
}

bool sim_is_over(const struct sim *sim, uint32_t peer)
{
    const struct sim_peer *own = &sim->peers[peer];
    return own->reset || (own->server_closed && own->to_client.count == 0);
}
