/* SPDX-License-Identifier: MIT */
/*
 * What: the memory of replies: rows of the plan, and the places of three of them in one extent, so
 * that a file may have that extent as it is.
 */
#include "net/kept/places.h"

#include "net/kept/replies.h"

struct net_reply_places net_reply_places(const struct limits *limits)
{
    uint64_t chunks = net_reply_chunks(limits);
    struct net_reply_places places = {
        .tokens = arena_ceil(limits->replies * sizeof(struct net_reply))};
    places.links = places.tokens + arena_ceil(chunks * NET_REPLY_CHUNK * sizeof(uint32_t));
    places.bytes = places.links + arena_ceil(chunks * sizeof(uint32_t));
    return places;
}

void net_replies_plan_memory(struct memory_plan *plan, const struct limits *limits)
{
    uint64_t chunks = net_reply_chunks(limits);
    memory_plan_add(plan, MEMORY_KEPT, "net replies", limits->replies, sizeof(struct net_reply));
    memory_plan_add(plan, MEMORY_KEPT, "net reply tokens", chunks * NET_REPLY_CHUNK,
                    sizeof(uint32_t));
    memory_plan_add(plan, MEMORY_KEPT, "net reply chunks", chunks, sizeof(uint32_t));
    memory_plan_add(plan, MEMORY_KEPT, "net reply pages",
                    pages_count(net_reply_places(limits).bytes), sizeof(struct pages_mark));
    memory_plan_add(plan, MEMORY_KEPT, "net reply numbers", 1, sizeof(struct pages_numbers));
    memory_plan_add(plan, MEMORY_CORE, "net reply heads", net_reply_heads(limits),
                    sizeof(uint32_t));
    memory_plan_add(plan, MEMORY_CORE, "net reply chunks used", chunks, sizeof(bool));
}

void net_replies_take(struct pages *pages, const struct limits *limits, struct arena *kept)
{
    pages->bytes = net_reply_places(limits).bytes;
    pages->base = arena_take(kept, pages->bytes, 1);
    pages->marks = arena_take(kept, pages_count(pages->bytes), sizeof *pages->marks);
    pages->numbers = arena_take(kept, 1, sizeof *pages->numbers);
}
