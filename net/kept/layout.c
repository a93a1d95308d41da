/* SPDX-License-Identifier: MIT */
/*
 * What: which records lie in kept memory, as one number: a core of another version takes over from
 * this one when it has the same (appliance/keeper/upgrade).
 *
 * LAYOUT stands for what no size shows: the order of members, what they mean, what a digest is of.
 * Count it up when any of that changes: a digest that is computed otherwise, too. `make check`
 * knows the text of these records, by the numbers after the colons, and asks for it.
 *
 * Replies have a number of their own, REPLIES_LAYOUT: they may be in a file, which the next version
 * is to read. A file of another layout is refused. A change of theirs is one of kept memory, too.
 *
 * records: db0ccd90246fe5ab
 * replies: 50b84d9b04cbe11e
 */
#include "config/base/fnv.h"
#include "net/kept/connections.h"
#include "net/kept/progress.h"
#include "net/kept/replies.h"
#include "net/kept/workflows.h"

#define LAYOUT         10u
#define REPLIES_LAYOUT 2u

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
        WIRE_HEADER_BYTES, sizeof(struct net_kept_flow), sizeof(struct net_kept_row),
        sizeof(struct workflow_kept_end),
    };
    return fnv_add_words(FNV_START, sizes, sizeof sizes);
}
