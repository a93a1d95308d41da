/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a stretch of a stream of bytes in a fixed buffer, in memory that outlives the core. A move
 * to the front goes on where a death has stopped it: each part is copied to where it overlaps
 * nothing that is still to be copied, and is counted after that. Only net/ includes this.
 */
#include <stdint.h>
#include <string.h>

struct net_span {
    uint64_t base;                  /* place in the stream of the buffer's first byte */
    uint64_t target;                /* what base will be when the move has ended; else it is base */
    uint32_t bytes, done;           /* of the move */
};

/* What was stored before is there when what is stored after is: a death keeps the order in which
 * the processor was told, and no compiler may change it. */
static inline void net_kept_order(void)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static inline void net_span_go_on(struct net_span *span, uint8_t *buffer)
{
    uint64_t gap = span->target - span->base;
    while (gap > 0 && span->done < span->bytes) {
        uint32_t rest = span->bytes - span->done;
        uint32_t part = gap < rest ? (uint32_t)gap : rest;
        memcpy(buffer + span->done, buffer + gap + span->done, part);
        net_kept_order();
        span->done += part;
    }
    net_kept_order();
    span->base = span->target;
}

/* From now on the buffer begins with the byte at `place` of the stream, and `bytes` follow. */
static inline void net_span_move(struct net_span *span, uint8_t *buffer, uint64_t place,
                                 uint32_t bytes)
{
    span->done = 0;
    span->bytes = bytes;
    net_kept_order();
    span->target = place;
    net_kept_order();
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

/* What a core has left can be a span of a buffer of so many bytes. */
static inline int net_span_is_sane(const struct net_span *span, uint32_t capacity)
{
    uint64_t gap = span->target - span->base;
    return gap == 0 || (span->target > span->base && gap <= capacity &&
                        span->bytes <= capacity - gap && span->done <= span->bytes);
}
