/* SPDX-License-Identifier: MIT */
/*
 * Goal: no bytes and no timing of a peer break the text port: no assertion, every answer bounded,
 * the slot free in the end.
 * Method: the first byte says how much one recv or send moves, the second how much time passes with
 * each pass; the rest is what the peer sends. The port is part of the program, so its sources are
 * included.
 */
#include <stdlib.h>
#include <string.h>

#include "appliance/textevents.c"
#include "appliance/textpage.c"
#include "appliance/textport.c"
#include "appliance/textrequest.c"

#define PAGE_BYTES 20480
#define PASSES     64

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static struct {
    const uint8_t *bytes;
    size_t count;
    uint32_t chunk, interest;
    bool accepted, open;
} peer;

static int32_t accept_once(void *self, int32_t listener, struct world_peer *who)
{
    bool first = !peer.accepted;
    (void)self, (void)listener, (void)who;
    peer.accepted = peer.open = true;
    return first ? 1 : WORLD_EAGAIN;
}

static void watch(void *self, int32_t handle, enum world_source source, uint32_t index,
                  uint32_t interest)
{
    (void)self, (void)source, (void)index;
    peer.interest = handle == 1 ? interest : peer.interest;
}

static int64_t receive(void *self, int32_t handle, void *to, uint32_t max)
{
    uint32_t moved = max < peer.chunk ? max : peer.chunk;
    (void)self, (void)handle;
    ASSERT(peer.open && max > 0);
    moved = moved < peer.count ? moved : (uint32_t)peer.count;
    memcpy(to, peer.bytes, moved);
    peer.bytes += moved;
    peer.count -= moved;
    return moved;                       /* 0: the end */
}

static int64_t transmit(void *self, int32_t handle, const void *from, uint32_t wanted)
{
    const uint8_t *at = from;
    volatile uint8_t seen = 0;
    uint32_t moved = wanted < peer.chunk * 64 ? wanted : peer.chunk * 64;
    (void)self, (void)handle;
    ASSERT(peer.open && wanted > 0 && wanted <= PAGE_BYTES);
    seen = at[wanted - 1];              /* all of it can be read */
    (void)seen;
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
    for (uint32_t pass = 0; pass < PASSES; pass++, now_us += pace_us) {
        struct world_event event = {.source = WORLD_SOURCE_TEXT, .ready = peer.interest};
        if (peer.open) {
            textport_event(port, &event);
        }
        textport_poll(port, view, now_us);
        textport_check(port);
        (void)textport_next_us(port, now_us);
    }
    textport_poll(port, view, now_us + TEXTPORT_IDLE_US);
    ASSERT(!peer.open);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static _Alignas(ARENA_ALIGN_BYTES) uint8_t memory[2 * PAGE_BYTES];
    static const struct world world = {.accept = accept_once, .watch = watch, .recv = receive,
                                       .send = transmit, .close = close_peer};
    static const struct limits limits = {.text_slots = 1, .text_page_bytes = PAGE_BYTES};
    static struct options options;
    static struct stats stats;
    static struct sched sched;
    static struct kvmem kv;
    static struct call_table calls;
    static struct health health;
    static struct event events[64];
    static struct journal journal = {.events = events, .capacity = 64, .next = 1000};
    const struct textport_view view = {.stats = &stats, .sched = &sched, .kv = &kv,
                                       .calls = &calls, .journal = &journal,
                                       .options = &options, .limits = &limits,
                                       .health = &health};
    struct arena arena;
    struct textport port;
    if (count < 2) {
        return 0;
    }
    config_defaults(&options);
    arena_init(&arena, memory, sizeof memory);
    textport_init(&port, &limits, &world, &stats, &arena);
    textport_listen(&port, 0);
    memset(&peer, 0, sizeof peer);
    peer.bytes = bytes + 2;
    peer.count = count - 2;
    peer.chunk = (uint32_t)bytes[0] + 1;
    port.accept_ready = true;
    run(&port, &view, (uint32_t)bytes[1] * 1000);
    return 0;
}
