/* SPDX-License-Identifier: MIT */
/*
 * What: lines like these; a key that was named and not proved has a question mark.
 *
 *     ... core warn refused handshake from=10.0.0.5 key=mallory? name=bot-7: not admitted
 *     ... core warn refused call from=unix user:1000 name=agx id=17: no free call slot
 *     ... core warn refused more=120
 *
 * Invariant: one line of printable ASCII, whatever names strangers choose.
 */
#include "appliance/text/refusals.h"

#include "appliance/log.h"
#include "appliance/text/page/who.h"

static void begin(struct text *line, uint64_t wall_us, uint64_t at_us)
{
    log_head(line, wall_us, at_us);
    text_add(line, "core warn refused ");
}

static void add_who(struct text *line, const struct net_refusal *refusal)
{
    text_add(line, " from=");
    text_add_peer(line, refusal->peer_kind, refusal->ip);
    if (refusal->peer_kind == WORLD_PEER_LOCAL) {
        text_add(line, " user:");
        text_add_u64(line, refusal->uid);
    }
    if (refusal->key_id[0] != '\0') {
        text_add(line, " key=");
        text_add_name(line, refusal->key_id, WIRE_KEY_ID_BYTES, WIRE_KEY_ID_BYTES);
        text_add(line, refusal->is_proven ? "" : "?");
    }
    if (refusal->name[0] != '\0') {
        text_add(line, " name=");
        text_add_name(line, refusal->name, WIRE_NAME_BYTES, WIRE_NAME_BYTES);
    }
}

void refusals_line(struct text *line, const struct net_refusal *refusal,
                  const struct refusals_moment *moment)
{
    uint64_t ago_us = moment->now_us - refusal->at_us;
    begin(line, moment->wall_us - ago_us, refusal->at_us);
    text_add(line, refusal->what);
    add_who(line, refusal);
    if (refusal->call_id != 0) {
        text_add(line, " id=");
        text_add_u64(line, refusal->call_id);
    }
    text_add(line, ": ");
    text_add(line, refusal->why);
    text_add(line, "\n");
}

void refusals_tell(struct net *net, const struct refusals_moment *moment)
{
    struct net_refusal refusal;
    char bytes[REFUSALS_LINE_BYTES];
    struct text line;
    while (net_refusal_take(net, &refusal)) {
        text_init(&line, bytes, sizeof bytes);
        refusals_line(&line, &refusal, moment);
        log_line(bytes, line.length);
    }
    uint64_t left_out = net_refusal_take_left_out(net, moment->now_us);
    if (left_out > 0) {
        text_init(&line, bytes, sizeof bytes);
        begin(&line, moment->wall_us, moment->now_us);
        text_add(&line, "more=");
        text_add_u64(&line, left_out);
        text_add(&line, "\n");
        log_line(bytes, line.length);
    }
}
