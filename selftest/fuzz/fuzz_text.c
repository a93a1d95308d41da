/* SPDX-License-Identifier: MIT */
/*
 * Goal: no bytes and no timing of a peer break the text port. No assertion fails, every answer is
 * lines of printable ASCII, no HTTP body is longer than its head says, and the slot is free at the
 * end.
 * Method: the first byte says how much a recv or send moves, how the peer ends, and how healthy the
 * appliance is. The second says how much time each pass takes, and whether the pages show an
 * appliance that has just begun or one with every number at its longest. The rest is what the peer
 * sends. The port is part of the binary, so its sources are included.
 */
#include <stdlib.h>
#include <string.h>

#include "appliance/text/page/agent.c"
#include "appliance/text/page/connections.c"
#include "appliance/text/page/events.c"
#include "appliance/text/page.c"
#include "appliance/text/port.c"
#include "appliance/text/request.c"
#include "selftest/fuzz/dictionary.h"

#define PAGE_BYTES BOUND_METRICS_BYTES
#define PASSES     64
#define EVENTS     32
#define KV_BYTES   16384

static struct {
    const uint8_t *bytes;
    size_t count;
    uint32_t chunk, interest;
    bool accepted, open;
    bool resets;                    /* at its end; else it half-closes */
    bool stutters, again;           /* every other recv and send fails with EAGAIN */
    /* the answer, as far as it was read */
    char line[TEXTPORT_LINE_BYTES_MAX + 1];
    uint32_t line_bytes;
    bool in_body;
    uint64_t body_bytes;            /* still to come */
    struct world_peer who;          /* beyond loopback: it may ask for little */
} peer;

static int32_t accept_once(void *self, int32_t listener, struct world_peer *who)
{
    bool first = !peer.accepted;
    (void)self, (void)listener;
    *who = peer.who;
    peer.accepted = peer.open = true;
    return first ? 1 : WORLD_EAGAIN;
}

static void watch(void *self, int32_t handle, enum world_source source, uint32_t index,
                  uint32_t interest)
{
    (void)self, (void)source, (void)index;
    peer.interest = handle == 1 ? interest : peer.interest;
}

static bool says_again(void)
{
    peer.again = peer.stutters && !peer.again;
    return peer.again;
}

static int64_t receive(void *self, int32_t handle, void *to, uint32_t max)
{
    uint32_t moved = max < peer.chunk ? max : peer.chunk;
    (void)self, (void)handle;
    ASSERT(peer.open && max > 0);
    if (says_again()) {
        return WORLD_EAGAIN;
    }
    if (peer.count == 0) {
        return peer.resets ? WORLD_ECLOSED : 0;
    }
    moved = moved < peer.count ? moved : (uint32_t)peer.count;
    memcpy(to, peer.bytes, moved);
    peer.bytes += moved;
    peer.count -= moved;
    return moved;
}

/* Most of a run's time is here, so the sanitizers check once a page, not once a byte. */
__attribute__((no_sanitize("address", "undefined", "coverage")))
static bool all_printable(const char *bytes, uint32_t count)
{
    uint32_t others = 0;
    for (uint32_t i = 0; i < count; i++) {
        char byte = bytes[i];
        others += (byte < ' ' || byte > '~') && byte != '\n' && byte != '\r';
    }
    return others == 0;
}

static void read_line(void)
{
    static const char length[] = "Content-Length: ";
    peer.line[peer.line_bytes] = '\0';
    if (peer.line[0] == length[0] && strncmp(peer.line, length, sizeof length - 1) == 0) {
        peer.body_bytes = strtoull(peer.line + sizeof length - 1, NULL, 10);
    }
    peer.in_body = peer.body_bytes > 0 && strcmp(peer.line, "\r") == 0;
    peer.line_bytes = 0;
}

/* Number of the received bytes that belong to this line, or to the body. */
static uint32_t read_some(const char *bytes, uint32_t count)
{
    const char *end;
    uint32_t part;
    if (peer.in_body) {
        ASSERT(count <= peer.body_bytes);
        peer.body_bytes -= count;
        return count;
    }
    end = memchr(bytes, '\n', count);
    part = end != NULL ? (uint32_t)(end - bytes) : count;
    ASSERT(peer.line_bytes + part <= TEXTPORT_LINE_BYTES_MAX);
    memcpy(peer.line + peer.line_bytes, bytes, part);
    peer.line_bytes += part;
    if (end != NULL) {
        read_line();
        part++;
    }
    return part;
}

static int64_t transmit(void *self, int32_t handle, const void *from, uint32_t wanted)
{
    const char *at = from;
    uint32_t moved = wanted < peer.chunk * 64 ? wanted : peer.chunk * 64;
    (void)self, (void)handle;
    ASSERT(peer.open && wanted > 0 && wanted <= PAGE_BYTES);
    if (says_again()) {
        return WORLD_EAGAIN;
    }
    ASSERT(all_printable(at, moved));
    for (uint32_t done = 0; done < moved;) {
        done += read_some(at + done, moved - done);
    }
    return moved;
}

static void close_peer(void *self, int32_t handle)
{
    (void)self, (void)handle;
    ASSERT(peer.open);
    peer.open = false;
}

static void run(struct textport *port, const struct textport_view *view, uint32_t pace_us)
{
    uint64_t now_us = 1;
    textport_poll(port, view, now_us);
    for (uint32_t pass = 0; pass < PASSES && peer.open; pass++, now_us += pace_us) {
        struct world_event event = {.source = WORLD_SOURCE_TEXT, .ready = peer.interest};
        textport_event(port, &event);
        textport_poll(port, view, now_us);
        textport_check(port);
        (void)textport_next_us(port, now_us);
    }
    textport_poll(port, view, now_us + TEXTPORT_IDLE_US);
    ASSERT(!peer.open);
}

/* ---- the appliance that the pages show ------------------------------------------------------- */

/* An appliance that has just begun, or one with every number at its longest. */
static struct shown {
    struct stats stats;
    struct options options;
    struct sched sched;
    struct sched_engine engine;
    struct sched_lane lane;
    struct sched_tenant tenant;
    struct kvmem kv;
    struct call_table calls;
    struct event_log event_log;
    struct net net;
} fresh, full;
static struct health health;
static const struct limits limits = {.text_slots = 1, .text_page_bytes = PAGE_BYTES,
                                     .connections = NET_CLOSING + 1};

STATIC_ASSERT(EVENTS >= EVENT_KINDS_COUNT, "one event of each kind");

static void fill_event_log(void)
{
    static struct event events[EVENTS];
    memset(events, 0xff, sizeof events);
    for (uint32_t i = 0; i < EVENTS; i++) {
        events[i].call = events[i].program = UINT32_MAX - 1;    /* the greatest number of a slot */
        events[i].what.kind = i % EVENT_KINDS_COUNT;
    }
    full.event_log = (struct event_log){.events = events, .capacity = EVENTS, .next = UINT64_MAX -
                                        1};
}

/* A call in each state; all of one program. */
static void fill_calls(void)
{
    static struct call slots[CALL_FINISHED + 1];
    memset(slots, 0xff, sizeof slots);
    for (uint32_t i = 0; i <= CALL_FINISHED; i++) {
        slots[i].state = (enum call_state)i;
        slots[i].standby = slots[i].paused = slots[i].cancel = false;
        slots[i].arrived_us = 0;
        slots[i].engine = 0;
        slots[i].job = 0;
        slots[i].program_next = i < CALL_FINISHED ? i + 1 : CALL_NONE;
    }
    full.calls = (struct call_table){.calls = slots, .count = CALL_FINISHED + 1};
    static struct call free_slot;
    fresh.calls = (struct call_table){.calls = &free_slot, .count = 1};
}

/* A connection in each state, with the longest of names. */
static void fill_connections(void)
{
    static struct net_connection used[NET_CLOSING + 1], unused[NET_CLOSING + 1];
    memset(used, 0xff, sizeof used);
    for (uint32_t i = 0; i <= NET_CLOSING; i++) {
        used[i].state = (enum net_state)i;
        used[i].active_us = 0;
        used[i].peer_kind = i % 2 == 0 ? WORLD_PEER_REMOTE : WORLD_PEER_LOCAL;
    }
    full.net = (struct net){.settings = {.limits = &limits}, .connections = used};
    fresh.net = (struct net){.settings = {.limits = &limits}, .connections = unused};
}

static void init_kv(struct kvmem *kv, uint8_t memory[KV_BYTES])
{
    const struct kvmem_settings settings = {.calls = CALL_FINISHED + 1, .holders = 1,
                                            .block_tokens = 16, .device_blocks = 4,
                                            .host_blocks = 4, .blocks_per_call = 2};
    struct arena arena;
    arena_init(&arena, memory, KV_BYTES);
    kvmem_init(kv, &settings, &arena);
}

static void init_engine(struct shown *shown)
{
    shown->engine = (struct sched_engine){.sched = &shown->sched, .kv = &shown->kv,
                                          .lanes = &shown->lane};
    shown->sched.tenants.of = &shown->tenant;
    shown->sched.tenants.count = shown->sched.settings.tenants = 1;
    shown->sched.engines = &shown->engine;
    shown->sched.settings.engines = 1;
}

static void fill_sched(void)
{
    static struct program programs[2];
    memset(&programs[0], 0xff, sizeof programs[0]);
    programs[0].in_use = true;
    static struct sched_member members[2];
    memset(&members[0], 0xff, sizeof members[0]);
    members[0].is_active = true;
    members[0].first_call = 0;
    programs[0].class.slot = 0;
    static struct sched_class class;
    memset(&class, 0xff, sizeof class);
    class.in_use = true;
    memset(class.name, '~', CALL_CLASS_BYTES);
    class.name[CALL_CLASS_BYTES] = '\0';
    static struct sched_job job;
    memset(&job, 0xff, sizeof job);
    job.held = true;
    job.tenant = 0;
    full.sched.programs = programs;
    full.sched.jobs = &job;
    full.sched.settings.programs = 2;
    full.sched.classes.each = &class;
    full.sched.settings.classes = 1;
    full.sched.settings.queues = 1;
    memset(&full.tenant, 0xff, sizeof full.tenant);
    memset(full.tenant.name, '~', sizeof full.tenant.name - 1);
    full.tenant.name[sizeof full.tenant.name - 1] = '\0';
    full.tenant.wants = full.tenant.wanted = true;
    init_engine(&fresh);
    init_engine(&full);
    full.engine.members = members;
    full.sched.levels[0].service_high_us = UINT64_MAX;
}

static void fill_all(void)
{
    static _Alignas(ARENA_ALIGN_BYTES) uint8_t memory[2][KV_BYTES];
    config_defaults(&fresh.options);
    config_defaults(&full.options);
    init_kv(&fresh.kv, memory[0]);
    init_kv(&full.kv, memory[1]);
    memset(&full.kv.counters, 0xff, sizeof full.kv.counters);
    memset(&full.stats, 0xff, sizeof full.stats);
    fill_event_log();
    fill_calls();
    fill_connections();
    fill_sched();
    health = (struct health){.reason = "fuzz", .engines_count = 1, .engines_serving = 1,
                             .last_step_age_us = {UINT64_MAX}};
}

static struct textport_view view_of(const struct shown *shown)
{
    static const struct config_peers askers = {.count = 1};     /* every address */
    return (struct textport_view){.stats = &shown->stats, .sched = &shown->sched,
                                  .net = &shown->net, .askers = &askers,
                                  .calls = &shown->calls, .event_log = &shown->event_log,
                                  .options = &shown->options, .limits = &limits,
                                  .health = &health};
}

static void connect_peer(const uint8_t *bytes, size_t count)
{
    memset(&peer, 0, sizeof peer);
    peer.chunk = (uint32_t)bytes[0] + 1;
    peer.who.kind = bytes[1] % 4 == 3 ? WORLD_PEER_REMOTE : WORLD_PEER_LOOPBACK;
    peer.resets = bytes[0] % 4 == 3;
    peer.stutters = bytes[0] % 8 == 5;
    peer.bytes = bytes + 2;
    peer.count = count - 2;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static _Alignas(ARENA_ALIGN_BYTES) uint8_t memory[PAGE_BYTES + 1024];
    static const struct world world = {.accept = accept_once, .watch = watch, .recv = receive,
                                       .send = transmit, .close = close_peer};
    struct arena arena = {.base = memory, .size_bytes = sizeof memory};
    struct textport_view view;
    struct textport port;
    if (count < 2) {
        return 0;
    }
    if (full.event_log.capacity == 0) {
        fill_all();
    }
    health.state = (enum health_state)(bytes[0] % (HEALTH_FAILED + 1));
    view = view_of(bytes[1] % 2 == 0 ? &fresh : &full);
    textport_init(&port, &limits, &world, &full.stats, &arena);
    textport_listen(&port, 0);
    connect_peer(bytes, count);
    port.accept_ready = true;
    run(&port, &view, (uint32_t)bytes[1] * 1000);
    return 0;
}

void dictionary_write(void)
{
    for (size_t i = 0; i < ROWS_COUNT; i++) {
        dictionary_join("", rows[i].name, "\n");
        dictionary_join("GET /", rows[i].name, " HTTP/1.0\r\n\r\n");
        if (rows[i].show == NULL) {
            dictionary_join("", rows[i].name, " 18446744073709551500\n");
        }
    }
    for (uint32_t command = 240; command < 256; command++) {
        dictionary_number(255u | command << 8, 2);      /* IAC of telnet and the byte after it */
    }
}
