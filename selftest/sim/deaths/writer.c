/* SPDX-License-Identifier: MIT */
/*
 * What: INVARIANT_REPLIES, and the writer of replies with its disk: in some passes it copies the
 * pages that are marked, and no other, as appliance/keeper/replies/writer.c does. After that an
 * appliance that begins with the disk alone must know what the core knows: each record, and all
 * tokens of it. What the core changes without a mark would be missing there.
 *
 * The writer comes between two passes. That it may come at any moment, so that a page is torn, is
 * for unit net/kept, whose garbage is worse. What links records is made anew by each core, and is
 * not compared.
 */
#include <string.h>

#include "net/kept/places.h"
#include "net/kept/replies.h"
#include "selftest/sim/sim.h"

static void write_page(struct sim *sim, const struct pages *pages, uint64_t page)
{
    uint64_t from = page * PAGES_BYTES, rest = pages->bytes - from;
    memcpy(sim->disk + from, pages->base + from, rest < PAGES_BYTES ? rest : PAGES_BYTES);
    pages->marks[page].written = pages->marks[page].changed;
}

static bool is_alike(const struct sim *sim, const void *in_memory, uint64_t bytes)
{
    const uint8_t *base = sim->loop.net.replies.pages.base;
    return memcmp(sim->disk + ((const uint8_t *)in_memory - base), in_memory, bytes) == 0;
}

/* A record that is free must be so on the disk, too. */
static void expect_same(struct sim *sim, const struct net_reply *reply)
{
    const struct net_replies *replies = &sim->loop.net.replies;
    uint32_t rest = reply->number != 0 ? reply->done.generated_tokens : 0;
    SIM_REQUIRE(sim, is_alike(sim, reply, offsetof(struct net_reply, domain)), INVARIANT_REPLIES,
                "reply %llu of call %llu is another one on the disk",
                (unsigned long long)reply->number, (unsigned long long)reply->done.call_id);
    for (uint32_t at = reply->chunk; rest > 0; at = replies->chunk_next[at]) {
        uint32_t part = rest < NET_REPLY_CHUNK ? rest : NET_REPLY_CHUNK;
        SIM_REQUIRE(sim, is_alike(sim, replies->tokens + (uint64_t)at * NET_REPLY_CHUNK,
                                  part * sizeof(uint32_t)) &&
                             is_alike(sim, &replies->chunk_next[at], sizeof(uint32_t)),
                    INVARIANT_REPLIES, "tokens of call %llu are others on the disk",
                    (unsigned long long)reply->done.call_id);
        rest -= part;
    }
}

void sim_write_replies(struct sim *sim)
{
    const struct net_replies *replies = &sim->loop.net.replies;
    const struct pages *pages = &replies->pages;
    struct pages_numbers *numbers = pages->numbers;
    if (numbers->written == numbers->changed || sim_fault(sim, SIM_FAULT_DISK)) {
        return;
    }
    for (uint64_t page = 0; page < pages_count(pages->bytes); page++) {
        if (pages->marks[page].written != pages->marks[page].changed) {
            write_page(sim, pages, page);
        }
    }
    numbers->written = numbers->changed;
    for (uint32_t i = 0; i < sim->limits.replies; i++) {
        expect_same(sim, &replies->records[i]);
    }
}
