/* SPDX-License-Identifier: MIT */
#pragma once
/* What: a text port over sockets in memory, and a core's state for it to show. */
#include "selftest/unit/test.h"

#include <stdio.h>

#include "appliance/text/port.h"

/* ---- the world ------------------------------------------------------------------------------- */

#define PEERS_MAX   40
#define LISTENER    1000
#define SENT_MAX    16384
#define GOT_MAX     65536

struct peer {
    bool open;                      /* accepted and not closed by the port */
    bool closed;                    /* by the port */
    char sent[SENT_MAX];            /* by the peer: [taken, sent_bytes) waits in the socket */
    uint32_t sent_bytes, taken;
    bool fin, reset;
    char got[GOT_MAX];
    uint32_t got_bytes;
    uint32_t room;                  /* bytes that the peer still accepts */
    uint32_t chunk;                 /* most bytes that one recv or send moves */
    uint32_t interest, index;
    struct world_peer who;
};

static struct peer peers[PEERS_MAX];
static uint32_t peers_count, accepted_count, accepts_full, listener_interest;
static uint64_t now;

static inline int32_t fake_accept(void *self, int32_t listener, struct world_peer *peer)
{
    (void)self;
    assert_int_equal(listener, LISTENER);
    if (accepts_full > 0) {
        accepts_full--;
        return WORLD_EFULL;
    }
    if (accepted_count == peers_count) {
        return WORLD_EAGAIN;
    }
    peers[accepted_count].open = true;
    *peer = peers[accepted_count].who;
    return (int32_t)accepted_count++;
}

static inline void fake_watch(void *self, int32_t handle, enum world_source source, uint32_t index,
                       uint32_t interest)
{
    (void)self;
    assert_int_equal(source, WORLD_SOURCE_TEXT);
    if (handle == LISTENER) {
        assert_int_equal(index, WORLD_TEXT_LISTENER);
        listener_interest = interest;
        return;
    }
    assert_true(peers[handle].open);
    peers[handle].interest = interest;
    peers[handle].index = index;
}

static inline uint32_t smallest(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t low = a < b ? a : b;
    return low < c ? low : c;
}

static inline int64_t fake_recv(void *self, int32_t handle, void *bytes, uint32_t max)
{
    struct peer *peer = &peers[handle];
    (void)self;
    assert_true(peer->open && max > 0);
    if (peer->reset) {
        return WORLD_ECLOSED;
    }
    uint32_t count = smallest(peer->sent_bytes - peer->taken, max, peer->chunk);
    if (count == 0) {
        return peer->fin ? 0 : WORLD_EAGAIN;
    }
    memcpy(bytes, peer->sent + peer->taken, count);
    peer->taken += count;
    return count;
}

static inline int64_t fake_send(void *self, int32_t handle, const void *bytes, uint32_t count)
{
    struct peer *peer = &peers[handle];
    (void)self;
    assert_true(peer->open && count > 0);
    count = smallest(count, peer->room, peer->chunk);
    if (peer->reset || count == 0) {
        return peer->reset ? WORLD_ECLOSED : WORLD_EAGAIN;
    }
    assert_true(peer->got_bytes + count < GOT_MAX);
    memcpy(peer->got + peer->got_bytes, bytes, count);
    peer->got_bytes += count;
    peer->room -= count;
    return count;
}

static inline void fake_close(void *self, int32_t handle)
{
    (void)self;
    if (handle == LISTENER) {
        listener_interest = 0;
        return;
    }
    assert_true(peers[handle].open);
    peers[handle].open = false;
    peers[handle].closed = true;
    peers[handle].interest = 0;
}

static const struct world world = {.accept = fake_accept, .watch = fake_watch, .recv = fake_recv,
                                   .send = fake_send, .close = fake_close};

/* ---- the port and what it shows -------------------------------------------------------------- */

static struct textport port;
static struct stats stats;
static struct sched sched;
static struct sched_engine engine;
static struct program programs[3];
static struct sched_member members[3];
static struct sched_class classes[3];
static struct sched_job jobs[3];
static struct call_table calls;
static struct sched_lane lanes[1];
static struct sched_tenant tenants[1];
static struct kvmem kv;
static struct options options;
static struct limits limits;
static struct health health;
static struct event_log event_log;
static struct config_peers askers;
static struct net net;
static struct net_connection connections[3];
static const struct textport_view view = {.stats = &stats, .sched = &sched, .net = &net,
                                          .calls = &calls, .event_log = &event_log,
                                          .options = &options,
                                          .limits = &limits, .health = &health,
                                          .askers = &askers,
                                          .wall_us = UINT64_C(1795521787123000)};

static inline int set_up(void **state)
{
    struct arena *arena = test_arena();
    (void)state;
    memset(peers, 0, sizeof peers);
    peers_count = accepted_count = accepts_full = listener_interest = 0;
    now = 1000000;
    stats = (struct stats){.calls_accepted = 12};
    lanes[0] = (struct sched_lane){.queues = {{.count = 4, .calls_count = 9}}};
    tenants[0] = (struct sched_tenant){.weight = 1};
    engine = (struct sched_engine){.sched = &sched, .kv = &kv, .lanes = lanes};
    memset(jobs, 0, sizeof jobs);
    sched = (struct sched){
        .settings = {.engines = 1, .programs = 3, .classes = 3, .queues = 2, .tenants = 1},
        .tenants = {.of = tenants, .count = 1},
        .programs = programs, .classes = {.each = classes}, .jobs = jobs, .engines = &engine,
        .levels = {{.service_high_us = 50000, .quantum_us = 50000},
                   {.service_low_us = 50000, .service_high_us = UINT64_MAX, .quantum_us = 100000}}};
    memset(programs, 0, sizeof programs);
    for (uint32_t i = 0; i < 3; i++) {
        members[i] = (struct sched_member){.first_call = CALL_NONE};
    }
    engine.members = members;
    memset(classes, 0, sizeof classes);
    limits = (struct limits){.text_slots = 8, .text_page_bytes = 16384 + 3 * 160,
                             .connections = 3};
    askers = (struct config_peers){0};
    memset(connections, 0, sizeof connections);
    for (uint32_t i = 0; i < 3; i++) {
        connections[i].key = NET_KEY_NONE;
        programs[i].connection = CALL_NONE;
    }
    net = (struct net){.settings = {.limits = &limits}, .connections = connections};
    health = (struct health){.state = HEALTH_READY, .engines_count = 1, .engines_serving = 1,
                             .worker_pid = {77},
                             .last_step_age_us = {5000}, .last_completion_age_us = UINT64_MAX,
                             .uptime_us = 9000000};
    config_defaults(&options);
    event_log_init(&event_log, 128, 32, arena);
    call_table_init(&calls, 3, 64, arena, arena);
    kvmem_init(&kv, &(struct kvmem_settings){.device_blocks = 16, .host_blocks = 5,
                                             .block_tokens = 16, .calls = 3, .holders = 1,
                                             .blocks_per_call = 4}, arena);
    textport_init(&port, &limits, &world, &stats, arena);
    textport_listen(&port, LISTENER);
    return 0;
}

static inline struct peer *connect_peer(void)
{
    struct peer *peer = &peers[peers_count++];
    assert_true(peers_count <= PEERS_MAX);
    *peer = (struct peer){.room = GOT_MAX, .chunk = UINT32_MAX,
                          .who = {.kind = WORLD_PEER_LOOPBACK}};
    return peer;
}

static inline void say_bytes(struct peer *peer, const char *bytes, uint32_t count)
{
    assert_true(peer->sent_bytes + count <= SENT_MAX);
    memcpy(peer->sent + peer->sent_bytes, bytes, count);
    peer->sent_bytes += count;
}

static inline void say(struct peer *peer, const char *text)
{
    say_bytes(peer, text, (uint32_t)strlen(text));
}

static inline void notify(const struct peer *peer)
{
    bool readable = peer->taken < peer->sent_bytes || peer->fin;
    struct world_event event = {.source = WORLD_SOURCE_TEXT, .index = peer->index};
    event.ready |= (peer->interest & WORLD_READABLE) && readable ? WORLD_READABLE : 0;
    event.ready |= (peer->interest & WORLD_WRITABLE) && peer->room > 0 ? WORLD_WRITABLE : 0;
    event.ready |= peer->reset ? WORLD_HANGUP : 0;
    if (peer->open && event.ready != 0) {
        textport_event(&port, &event);
    }
}

/* Passes of the loop at the present time. */
static inline void pump(uint32_t passes)
{
    for (; passes > 0; passes--) {
        bool waiting = accepted_count < peers_count || accepts_full > 0;
        if ((listener_interest & WORLD_READABLE) && waiting) {
            textport_event(&port, &(struct world_event){.source = WORLD_SOURCE_TEXT,
                                                        .index = WORLD_TEXT_LISTENER,
                                                        .ready = WORLD_READABLE});
        }
        for (uint32_t i = 0; i < accepted_count; i++) {
            notify(&peers[i]);
        }
        textport_poll(&port, &view, now);
        textport_check(&port);
    }
}

/* The answer to what was said, as a string. */
static inline const char *answer(struct peer *peer)
{
    peer->got_bytes = 0;
    pump(6);
    peer->got[peer->got_bytes] = '\0';
    return peer->got;
}

static inline const char *ask(struct peer *peer, const char *text)
{
    say(peer, text);
    return answer(peer);
}

static inline void assert_contains(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        print_error("no <%s> in:\n%s\n", part, text);
        fail();
    }
}

static inline void assert_starts(const char *text, const char *start)
{
    if (strncmp(text, start, strlen(start)) != 0) {
        print_error("does not start with <%s>:\n%s\n", start, text);
        fail();
    }
}

static inline void assert_ends(const char *text, const char *end)
{
    size_t length = strlen(text), count = strlen(end);
    assert_true(length >= count);
    assert_string_equal(text + length - count, end);
}
