/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a stretch of a stream of bytes in a fixed buffer, in memory that outlives the core. A move
 * to the front goes on where a death has stopped it: each part is copied to where it overlaps
 * nothing that is still to be copied, and is counted after that. Only net/ includes this.
 *
 * Death: one member changes at a time. The check word of what the span becomes is written before
 * that, and the one of what it was is replaced after it, so one of the two is always right. Garbage
 * leaves neither right. Between moves `bytes` and `done` mean nothing and are not checked.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "config/base/arena.h"
#include "config/base/fnv.h"

struct net_span {
    uint64_t base;                  /* place in the stream of the buffer's first byte */
    uint64_t target;                /* what base will be when the move has ended; else it is base */
    uint32_t bytes, done;           /* of the move */
    uint64_t check, next_check;     /* the same, but while a member changes */
};

static inline uint64_t net_span_check(const struct net_span *span)
{
    const uint64_t moves = span->target != span->base ? UINT64_MAX : 0;
    const uint64_t words[] = {span->base, span->target,
                              moves & ((uint64_t)span->bytes << 32 | span->done)};
    return fnv_add_words(FNV_START, words, sizeof words);
}

static inline bool net_span_is_whole(const struct net_span *span)
{
    uint64_t check = net_span_check(span);
    return check == span->check || check == span->next_check;
}

/* `next` differs in one member. */
static inline void net_span_become(struct net_span *span, struct net_span next)
{
    uint64_t check = net_span_check(&next);
    span->next_check = check;
    kept_order();
    span->base = next.base;
    span->target = next.target;
    span->done = next.done;
    kept_order();
    span->check = check;
}

/* Both check words are right from now on: a death has left one of them so. */
static inline void net_span_settle(struct net_span *span)
{
    uint64_t check = net_span_check(span);
    if (check == span->next_check) {
        span->check = check;
    } else {
        span->next_check = check;
    }
}

/* Nothing of the stream has come. */
static inline void net_span_begin(struct net_span *span)
{
    *span = (struct net_span){0};
    span->check = span->next_check = net_span_check(span);
}

static inline void net_span_go_on(struct net_span *span, uint8_t *buffer)
{
    struct net_span next = *span;
    uint64_t gap = span->target - span->base;
    while (gap > 0 && span->done < span->bytes) {
        uint32_t rest = span->bytes - span->done;
        uint32_t part = gap < rest ? (uint32_t)gap : rest;
        memcpy(buffer + span->done, buffer + gap + span->done, part);
        kept_order();
        next.done += part;
        net_span_become(span, next);
    }
    next.base = next.target;
    net_span_become(span, next);
}

/* From now on the buffer begins with the byte at `place` of the stream, and `bytes` follow. */
static inline void net_span_move(struct net_span *span, uint8_t *buffer, uint64_t place,
                                 uint32_t bytes)
{
    struct net_span next = {.base = span->base, .target = place, .bytes = bytes};
    span->done = 0;
    span->bytes = bytes;
    kept_order();
    net_span_become(span, next);
    net_span_go_on(span, buffer);
}

/* The same from index *first of the buffer on, which is 0 then. */
static inline void net_span_to_front(struct net_span *span, uint8_t *buffer, uint32_t *first,
                                     uint32_t bytes)
{
    if (*first > 0) {
        net_span_move(span, buffer, span->base + *first, bytes);
        *first = 0;
    }
}

/* True when what a core has left is whole, and can be a span of a buffer of so many bytes. */
static inline bool net_span_is_sane(const struct net_span *span, uint32_t capacity)
{
    uint64_t gap = span->target - span->base;
    return net_span_is_whole(span) &&
           (gap == 0 || (span->target > span->base && gap <= capacity &&
                         span->bytes <= capacity - gap && span->done <= span->bytes));
}
