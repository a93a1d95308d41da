/* SPDX-License-Identifier: MIT */
/*
 * What: the slots of the text port: accept, read, send, time out. place.c says who gets one,
 * request.c takes their lines, page.c renders their pages.
 * Invariants: a slot either reads or answers, never both, so a peer that does not read its answer
 * is not read either; `input` holds what has not been answered; a pass answers one line of a slot.
 * Owner: the loop's one thread.
 * Bounds: in a pass 8 accepts, and for each slot one recv of at most a line and one page; memory is
 * fixed: a line and a page for each slot.
 * Why total times and not idle times: a peer that sends one byte a second would keep its slot for
 * ever.
 */
#include "appliance/text/port.h"

#include <string.h>

#include "config/base/assert.h"
#include "appliance/text/place.h"
#include "appliance/text/request.h"

#define ACCEPT_PAUSE_US   UINT64_C(1000000)
#define DRAIN_READS_MAX   16        /* before a close: unread input would turn it into a reset */

/* ---- boot ------------------------------------------------------------------------------------ */

void textport_plan_memory(struct memory_plan *plan, const struct limits *limits)
{
    memory_plan_add(plan, MEMORY_CORE, "text slots", limits->text_slots,
                    sizeof(struct textport_slot));
    memory_plan_add(plan, MEMORY_CORE, "text lines", limits->text_slots, TEXTPORT_INPUT_BYTES);
    memory_plan_add(plan, MEMORY_CORE, "text pages", limits->text_slots, limits->text_page_bytes);
}

void textport_init(struct textport *port, const struct limits *limits, const struct world *world,
                   struct stats *stats, struct arena *arena)
{
    ASSERT(limits->text_slots > 0);
    ASSERT(limits->text_page_bytes >= TEXTREQUEST_PAGE_BYTES_MIN);
    *port = (struct textport){.world = world, .stats = stats, .listener = -1,
                              .slots_count = limits->text_slots,
                              .page_bytes = limits->text_page_bytes};
    port->slots = arena_take(arena, limits->text_slots, sizeof(struct textport_slot));
    char *input = arena_take(arena, limits->text_slots, TEXTPORT_INPUT_BYTES);
    char *pages = arena_take(arena, limits->text_slots, limits->text_page_bytes);
    for (uint32_t i = 0; i < port->slots_count; i++) {
        port->slots[i].handle = -1;
        port->slots[i].input = input + (size_t)i * TEXTPORT_INPUT_BYTES;
        port->slots[i].page = pages + (size_t)i * limits->text_page_bytes;
    }
}

static void watch_listener(struct textport *port, uint32_t interest)
{
    ASSERT(port->listener >= 0);
    port->world->watch(port->world->self, port->listener, WORLD_SOURCE_TEXT, WORLD_TEXT_LISTENER,
                       interest);
}

void textport_listen(struct textport *port, int32_t handle)
{
    ASSERT(port->listener < 0 && handle >= 0);
    port->listener = handle;
    watch_listener(port, WORLD_READABLE);
}

void textport_leave(struct textport *port)
{
    if (port->listener >= 0) {
        port->world->close(port->world->self, port->listener);
        port->listener = -1;
        port->accept_ready = false;
        port->accept_again_us = 0;
    }
}

/* ---- slots ----------------------------------------------------------------------------------- */

static void close_slot(struct textport *port, struct textport_slot *slot)
{
    char *input = slot->input, *page = slot->page;
    ASSERT(slot->state != TEXTPORT_CLOSED && slot->handle >= 0);
    port->world->close(port->world->self, slot->handle);
    *slot = (struct textport_slot){.handle = -1, .input = input, .page = page};
}

/* The peer has its answer: a bounded amount of what it still sends is read and dropped. */
static void close_slot_politely(struct textport *port, struct textport_slot *slot)
{
    char waste[TEXTPORT_LINE_BYTES_MAX];
    for (uint32_t i = 0; i < DRAIN_READS_MAX && !slot->ended; i++) {
        if (port->world->recv(port->world->self, slot->handle, waste, sizeof waste) <= 0) {
            break;
        }
    }
    close_slot(port, slot);
}

static void watch_slot(struct textport *port, uint32_t index)
{
    struct textport_slot *slot = &port->slots[index];
    uint32_t wanted = slot->state == TEXTPORT_ANSWERING ? WORLD_WRITABLE
                      : slot->ended                     ? 0
                                                        : WORLD_READABLE;
    if (wanted != slot->interest) {
        slot->interest = wanted;
        port->world->watch(port->world->self, slot->handle, WORLD_SOURCE_TEXT, index, wanted);
    }
}

static void open_slot(struct textport *port, uint32_t index, int32_t handle,
                      const struct textport_source *source, uint64_t now_us)
{
    struct textport_slot *slot = &port->slots[index];
    ASSERT(slot->state == TEXTPORT_CLOSED && handle >= 0);
    slot->state = TEXTPORT_READING;
    slot->handle = handle;
    slot->source = *source;
    slot->deadline_us = now_us + TEXTPORT_IDLE_US;
    watch_slot(port, index);
}

/* The slot of a newcomer, free now. slots_count: there is none for it. */
static uint32_t take_place(struct textport *port, const struct textport_source *source,
                           uint64_t now_us)
{
    uint32_t index = textplace_find(port->slots, port->slots_count, source, now_us);
    if (index < port->slots_count && port->slots[index].state != TEXTPORT_CLOSED) {
        port->stats->text_dropped += !textplace_is_idle(&port->slots[index]);
        close_slot(port, &port->slots[index]);
    }
    return index;
}

static void accept_peer(struct textport *port, const struct textport_view *view, int32_t handle,
                        const struct world_peer *peer, uint64_t now_us)
{
    struct textport_source source = textplace_source(peer);
    bool is_allowed = !source.is_far || config_peers_hold(view->askers, peer->ip);
    uint32_t index = is_allowed ? take_place(port, &source, now_us) : port->slots_count;
    if (index < port->slots_count) {
        open_slot(port, index, handle, &source, now_us);
        return;
    }
    port->world->close(port->world->self, handle);
    port->stats->text_refused++;
}

static void accept_peers(struct textport *port, const struct textport_view *view, uint64_t now_us)
{
    if (port->accept_again_us != 0 && now_us >= port->accept_again_us) {
        port->accept_again_us = 0;
        port->accept_ready = true;
        watch_listener(port, WORLD_READABLE);
    }
    if (!port->accept_ready || port->accept_again_us != 0) {
        return;
    }
    port->accept_ready = false;
    for (uint32_t i = 0; i < TEXTPORT_ACCEPTS_PER_PASS_MAX; i++) {
        struct world_peer peer;
        int32_t handle = port->world->accept(port->world->self, port->listener, &peer);
        if (handle == WORLD_EFULL) {
            /* The listener stays readable: the loop would spin if it went on watching it. */
            port->accept_again_us = now_us + ACCEPT_PAUSE_US;
            watch_listener(port, 0);
        }
        if (handle < 0) {
            return;
        }
        accept_peer(port, view, handle, &peer, now_us);
    }
}

/* ---- input ----------------------------------------------------------------------------------- */

/* False for the bytes of telnet's negotiations, sequences that begin with IAC (255): all are
 * skipped, none is agreed to. */
static bool is_data(struct textport_slot *slot, uint8_t byte)
{
    enum { IAC = 255, SUB_BEGIN = 250, OPTION_FIRST = 251 /* WILL, WONT, DO, DONT */ };
    switch (slot->telnet) {
    case TELNET_DATA:
        slot->telnet = byte == IAC ? TELNET_COMMAND : TELNET_DATA;
        return byte != IAC;
    case TELNET_COMMAND:
        slot->telnet = byte == SUB_BEGIN ? TELNET_SUB
                       : byte >= OPTION_FIRST && byte < IAC ? TELNET_OPTION
                                                            : TELNET_DATA;
        return byte == IAC;             /* doubled: the byte itself */
    case TELNET_OPTION:
        slot->telnet = TELNET_DATA;
        return false;
    case TELNET_SUB:
        slot->telnet = byte == IAC ? TELNET_SUB_COMMAND : TELNET_SUB;
        return false;
    default:
        ASSERT(slot->telnet == TELNET_SUB_COMMAND);
        slot->telnet = byte == IAC ? TELNET_SUB : TELNET_DATA;
        return false;
    }
}

/* Receives once. False when the connection is gone. */
static bool read_slot(struct textport *port, struct textport_slot *slot, uint64_t now_us)
{
    uint8_t bytes[TEXTPORT_INPUT_BYTES];
    uint32_t room = TEXTPORT_INPUT_BYTES - slot->input_bytes;
    ASSERT(room > 0 && slot->state != TEXTPORT_ANSWERING);
    slot->readable = false;
    int64_t count = port->world->recv(port->world->self, slot->handle, bytes, room);
    ASSERT(count <= (int64_t)room);
    if (count == WORLD_EAGAIN) {
        return true;
    }
    if (count <= 0) {
        slot->ended = true;
        return count == 0;
    }
    bool was_half = textrequest_is_half_line(slot);
    for (int64_t i = 0; i < count; i++) {
        if (is_data(slot, bytes[i])) {
            slot->input[slot->input_bytes++] = (char)bytes[i];
        }
    }
    if (!was_half && textrequest_is_half_line(slot) && slot->state == TEXTPORT_READING) {
        slot->deadline_us = now_us + TEXTPORT_LINE_US;
    } else if (was_half && !textrequest_is_half_line(slot) && slot->state == TEXTPORT_READING) {
        slot->deadline_us = now_us + TEXTPORT_IDLE_US;
    }
    return true;
}

/* ---- output ---------------------------------------------------------------------------------- */

/* Sends as much as the socket takes. False when the slot was closed. */
static bool send_slot(struct textport *port, struct textport_slot *slot, uint64_t now_us)
{
    ASSERT(slot->state == TEXTPORT_ANSWERING && slot->page_sent < slot->page_bytes);
    int64_t count = port->world->send(port->world->self, slot->handle, slot->page + slot->page_sent,
                                      slot->page_bytes - slot->page_sent);
    ASSERT(count <= (int64_t)(slot->page_bytes - slot->page_sent));
    if (count < 0 && count != WORLD_EAGAIN) {
        close_slot(port, slot);
        return false;
    }
    slot->page_sent += count > 0 ? (uint32_t)count : 0;
    if (slot->page_sent < slot->page_bytes) {
        return true;
    }
    if (slot->closes) {
        close_slot_politely(port, slot);
        return false;
    }
    slot->state = TEXTPORT_READING;
    slot->deadline_us =
        now_us + (textrequest_is_half_line(slot) ? TEXTPORT_LINE_US : TEXTPORT_IDLE_US);
    return true;
}

/* ---- a pass ---------------------------------------------------------------------------------- */

/* False when the slot was closed for its deadline. An idle peer is no fault: it is not counted. */
static bool keep_deadline(struct textport *port, struct textport_slot *slot, uint64_t now_us)
{
    if (now_us < slot->deadline_us) {
        return true;
    }
    bool idle = slot->state == TEXTPORT_READING && !textrequest_is_half_line(slot);
    port->stats->text_dropped += !idle;
    close_slot(port, slot);
    return false;
}

/* False when the slot was closed. */
static bool take_input(struct textport *port, const struct textport_turn *turn,
                       struct textport_slot *slot)
{
    if (slot->readable && !slot->ended && !textrequest_has_line(slot) &&
        !read_slot(port, slot, turn->now_us)) {
        close_slot(port, slot);
        return false;
    }
    if (textrequest_take_line(turn, slot) || !slot->ended) {
        return true;
    }
    /* The peer will send no more, and no whole line is left. */
    if (slot->state == TEXTPORT_HEADERS) {
        textrequest_finish(turn, slot);
        return true;
    }
    close_slot(port, slot);
    return false;
}

static void poll_slot(struct textport *port, const struct textport_turn *turn, uint32_t index)
{
    struct textport_slot *slot = &port->slots[index];
    if (!keep_deadline(port, slot, turn->now_us)) {
        return;
    }
    if (slot->state == TEXTPORT_ANSWERING && !send_slot(port, slot, turn->now_us)) {
        return;
    }
    if (slot->state != TEXTPORT_ANSWERING && !take_input(port, turn, slot)) {
        return;
    }
    if (slot->state == TEXTPORT_ANSWERING && !send_slot(port, slot, turn->now_us)) {
        return;
    }
    watch_slot(port, index);
}

void textport_event(struct textport *port, const struct world_event *event)
{
    ASSERT(event->source == WORLD_SOURCE_TEXT);
    if (event->index == WORLD_TEXT_LISTENER) {
        port->accept_ready = true;
        return;
    }
    ASSERT(event->index < port->slots_count);
    struct textport_slot *slot = &port->slots[event->index];
    if (slot->state == TEXTPORT_CLOSED) {
        return;
    }
    if ((event->ready & WORLD_HANGUP) != 0) {
        close_slot(port, slot);
        return;
    }
    slot->readable = slot->readable || (event->ready & WORLD_READABLE) != 0;
}

void textport_poll(struct textport *port, const struct textport_view *view, uint64_t now_us)
{
    const struct textport_turn turn = {.view = view, .stats = port->stats,
                                       .page_bytes = port->page_bytes, .now_us = now_us};
    ASSERT(view->stats != NULL && view->health != NULL);
    /* Before accepting, so that peers that have left make room. */
    for (uint32_t i = 0; i < port->slots_count; i++) {
        if (port->slots[i].state != TEXTPORT_CLOSED) {
            poll_slot(port, &turn, i);
        }
    }
    if (port->listener >= 0) {
        accept_peers(port, view, now_us);
    }
}

bool textport_is_awake(const struct textport *port)
{
    for (uint32_t i = 0; i < port->slots_count; i++) {
        if (port->slots[i].state != TEXTPORT_CLOSED) {
            return true;
        }
    }
    return port->accept_ready || port->accept_again_us != 0;
}

uint64_t textport_next_us(const struct textport *port, uint64_t now_us)
{
    uint64_t next_us = port->accept_again_us != 0 ? port->accept_again_us : UINT64_MAX;
    (void)now_us;
    for (uint32_t i = 0; i < port->slots_count; i++) {
        const struct textport_slot *slot = &port->slots[i];
        if (slot->state == TEXTPORT_CLOSED) {
            continue;
        }
        if (slot->state != TEXTPORT_ANSWERING && (textrequest_has_line(slot) || slot->ended)) {
            return 0;
        }
        next_us = slot->deadline_us < next_us ? slot->deadline_us : next_us;
    }
    return next_us;
}

void textport_check(const struct textport *port)
{
    for (uint32_t i = 0; i < port->slots_count; i++) {
        const struct textport_slot *slot = &port->slots[i];
        ASSERT((slot->state == TEXTPORT_CLOSED) == (slot->handle < 0));
        ASSERT(slot->input_bytes <= TEXTPORT_INPUT_BYTES);
        ASSERT(slot->page_sent <= slot->page_bytes && slot->page_bytes <= port->page_bytes);
        ASSERT(slot->state != TEXTPORT_ANSWERING || slot->page_sent < slot->page_bytes);
    }
}
