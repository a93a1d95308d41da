/* SPDX-License-Identifier: MIT */
/*
 * What: which records lie in kept memory, as one number: a core of another version takes over from
 * this one when it has the same (appliance/keeper/upgrade).
 *
 * LAYOUT stands for what no size shows: the order of members, what they mean, what a digest is of.
 * Count it up when any of that changes: a digest that is computed otherwise, too. `make check`
 * knows the text of these records, by the number after the colon, and asks for it.
 *
 * Replies have a number of their own: they may be in a file, which the next version is to read.
 *
 * records: 7915623a58ecd329
 */
#include "config/base/fnv.h"
#include "net/kept/connections.h"
#include "net/kept/progress.h"
#include "net/kept/replies.h"

#define LAYOUT         4u
#define REPLIES_LAYOUT 1u

uint64_t net_replies_layout(void)
{
    const uint64_t sizes[] = {REPLIES_LAYOUT, sizeof(struct net_reply), NET_REPLY_CHUNK};
    return fnv_add_words(FNV_START, sizes, sizeof sizes);
}

uint64_t net_kept_layout(void)
{
    const uint64_t sizes[] = {
        LAYOUT, sizeof(struct net_kept_head), sizeof(struct net_kept_connection),
        sizeof(struct net_progress), sizeof(struct net_reply), NET_REPLY_CHUNK,
        WIRE_HEADER_BYTES,
    };
    return fnv_add_words(FNV_START, sizes, sizeof sizes);
}
