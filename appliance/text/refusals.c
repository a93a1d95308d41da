/* SPDX-License-Identifier: MIT */
/*
 * What: lines like these; a key that was named and not proved has a question mark.
 *
 *     ... core warn refused handshake from=10.0.0.5 key=mallory? name=bot-7: not admitted
 *     ... core warn refused call from=unix user:1000 name=agx id=17: no free call slot
 *     ... core warn refused call from=unix user:1000 id=18 field=top_p: field out of range (found
 *         2.000, allowed 0.000 to 1.000)
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

static void add_value(struct text *line, const struct net_refusal *refusal, uint64_t value)
{
    bool is_negative = refusal->in_thousandths && (int64_t)value < 0;
    text_add(line, is_negative ? "-" : "");
    text_add_fixed(line, is_negative ? -value : value, refusal->in_thousandths ? 3 : 0);
}

static void add_interval(struct text *line, const struct net_refusal *refusal)
{
    if (refusal->min != 0 || refusal->max != 0) {
        text_add(line, " (found ");
        add_value(line, refusal, refusal->found);
        text_add(line, ", allowed ");
        add_value(line, refusal, refusal->min);
        text_add(line, " to ");
        add_value(line, refusal, refusal->max);
        text_add(line, ")");
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
    if (refusal->field != NULL) {
        text_add(line, " field=");
        text_add(line, refusal->field);
    }
    text_add(line, ": ");
    text_add(line, refusal->why);
    add_interval(line, refusal);
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
