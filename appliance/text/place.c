/* SPDX-License-Identifier: MIT */
#include "appliance/text/place.h"

#include "config/base/assert.h"
#include "appliance/text/request.h"

struct textport_source textplace_source(const struct world_peer *peer)
{
    /* Loopback is one source: a process may bind each connection to another address of 127/8. */
    bool is_far = peer->kind == WORLD_PEER_REMOTE;
    return (struct textport_source){.is_far = is_far, .address = is_far ? peer->address : 0};
}

static bool is_same(const struct textport_source *a, const struct textport_source *b)
{
    return a->is_far == b->is_far && a->address == b->address;
}

bool textplace_is_idle(const struct textport_slot *slot)
{
    return slot->state == TEXTPORT_READING && !slot->readable && !textrequest_is_half_line(slot);
}

/* For how long the peer has been idle, or has let us wait: for the rest of its line, of its
 * headers, for room to send. */
static uint64_t kept_us(const struct textport_slot *slot, uint64_t now_us)
{
    uint64_t allowed_us = slot->state == TEXTPORT_ANSWERING ? TEXTPORT_ANSWER_US
                          : textplace_is_idle(slot)         ? TEXTPORT_IDLE_US
                                                            : TEXTPORT_LINE_US;
    uint64_t since_us = slot->deadline_us > allowed_us ? slot->deadline_us - allowed_us : 0;
    return since_us < now_us ? now_us - since_us : 0;
}

/* A slot that may yield. */
struct candidate {
    uint32_t index;
    uint32_t holds;                 /* slots of its source, with the newcomer's if it is of it */
    bool is_idle;
    uint64_t kept_us;
};

/* True when `a` goes rather than `b`: of the source that holds most, idle peers first, then the one
 * that has kept us longest. */
static bool goes_first(const struct candidate *a, const struct candidate *b)
{
    if (a->holds != b->holds) {
        return a->holds > b->holds;
    }
    if (a->is_idle != b->is_idle) {
        return a->is_idle;
    }
    return a->kept_us > b->kept_us;
}

static uint32_t held_by(const struct textport_slot *slots, uint32_t count,
                        const struct textport_source *source)
{
    uint32_t held = 0;
    for (uint32_t i = 0; i < count; i++) {
        held += slots[i].state != TEXTPORT_CLOSED && is_same(&slots[i].source, source);
    }
    return held;
}

/* The slot that yields first; every slot is taken. */
static uint32_t find_yielding(const struct textport_slot *slots, uint32_t count,
                              const struct textport_source *from, uint64_t now_us)
{
    uint32_t asked = held_by(slots, count, from) + 1;
    struct candidate best = {.index = count};
    for (uint32_t i = 0; i < count; i++) {
        const struct textport_slot *slot = &slots[i];
        struct candidate candidate = {
            .index = i,
            .holds = held_by(slots, count, &slot->source) + is_same(&slot->source, from),
            .is_idle = textplace_is_idle(slot),
            .kept_us = kept_us(slot, now_us),
        };
        bool yields = candidate.holds > asked ||
                      (candidate.holds == asked && candidate.kept_us >= TEXTPORT_GRACE_US);
        if (yields && (best.index == count || goes_first(&candidate, &best))) {
            best = candidate;
        }
    }
    return best.index;
}

uint32_t textplace_find(const struct textport_slot *slots, uint32_t count,
                        const struct textport_source *from, uint64_t now_us)
{
    ASSERT(count > 0);
    for (uint32_t i = 0; i < count; i++) {
        if (slots[i].state == TEXTPORT_CLOSED) {
            return i;
        }
    }
    return find_yielding(slots, count, from, now_us);
}
