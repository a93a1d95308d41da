/* SPDX-License-Identifier: MIT */
#pragma once
/* What: how much there is of what replies.c keeps, and where it lies. For net/kept alone. */
#include "net/net.h"

static inline uint32_t net_reply_heads(const struct limits *limits)
{
    return limits->replies > 0 ? ring_capacity_ceil(limits->replies) : 0;
}

static inline uint32_t net_reply_chunks(const struct limits *limits)
{
    return limits->replies > 0 ? limits->reply_tokens / NET_REPLY_CHUNK + limits->replies + 1 : 0;
}

/* In the memory that a file may have: records, then tokens, then links of chunks. */
struct net_reply_places {
    uint64_t tokens, links, bytes;
};
struct net_reply_places net_reply_places(const struct limits *limits);
