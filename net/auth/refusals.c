/* SPDX-License-Identifier: MIT */
/*
 * What: the last refusals, until the core has written them to its log (struct net_refusals).
 * Bounds: at most NET_REFUSALS_PER_SECOND are noted; the others are counted. A flood of strangers
 * makes neither a long log nor long passes.
 */
#include "net/auth/refusals.h"

#include <string.h>

#include "net/net.h"

#define SECOND_US UINT64_C(1000000)

/* The place of a refusal; NULL: this second has had its share, or the log has not been written. */
static struct net_refusal *add(struct net *net, uint64_t now_us)
{
    struct net_refusals *refusals = &net->refusals;
    if (now_us >= refusals->second_us + SECOND_US) {
        refusals->second_us = now_us;
        refusals->in_second = 0;
    }
    if (refusals->in_second == NET_REFUSALS_PER_SECOND ||
        refusals->count == NET_REFUSALS_PER_SECOND) {
        refusals->left_out++;
        return NULL;
    }
    refusals->in_second++;
    struct net_refusal *refusal = &refusals->of[refusals->count++];
    *refusal = (struct net_refusal){.at_us = now_us};
    return refusal;
}

/* What is known of the client. */
static struct net_refusal *add_client(struct net *net, const struct net_connection *connection,
                                      uint64_t now_us)
{
    struct net_refusal *refusal = add(net, now_us);
    if (refusal != NULL) {
        refusal->what = connection->state == NET_OPEN ? "frame" : "handshake";
        refusal->peer_kind = connection->peer_kind;
        refusal->uid = (uint32_t)connection->domain;
        refusal->is_proven = connection->key != NET_KEY_NONE;
        memcpy(refusal->ip, connection->ip, sizeof refusal->ip);
        memcpy(refusal->key_id, refusal->is_proven ? net->keys[connection->key].id
                                                   : connection->key_id, sizeof refusal->key_id);
        memcpy(refusal->name, connection->name, sizeof refusal->name);
    }
    return refusal;
}

/* What a client has to mend. A limit is named by the status, and a call by its id. */
static void add_field(struct net_refusal *refusal, const struct wire_fault *fault)
{
    if (status_class(fault->status) == STATUS_CLASS_BAD && fault->field != WIRE_FIELD_NONE &&
        fault->field != WIRE_FIELD_CALL_ID) {
        refusal->field = wire_field_name(fault->field);
        refusal->in_thousandths = wire_field_is_float(fault->field);
        refusal->found = fault->found;
        refusal->min = fault->min;
        refusal->max = fault->max;
    }
}

void net_refusal_note(struct net *net, const struct net_connection *connection,
                      const struct wire_fault *fault, uint64_t now_us)
{
    if (fault->status == STATUS_GONE_DEADLINE && connection->state == NET_OPEN) {
        return;                         /* an idle client has had its time */
    }
    struct net_refusal *refusal = add_client(net, connection, now_us);
    if (refusal != NULL) {
        bool is_call = connection->state == NET_OPEN && fault->frame_type == WIRE_CALL;
        refusal->what = is_call ? "call" : refusal->what;
        refusal->why = status_text(fault->status);
        refusal->call_id = is_call ? fault->call_id : 0;
        if (connection->state == NET_OPEN) {
            add_field(refusal, fault);
        }
    }
}

void net_refusal_note_drop(struct net *net, const struct net_connection *connection,
                           const char *why, uint64_t now_us)
{
    struct net_refusal *refusal = add_client(net, connection, now_us);
    if (refusal != NULL) {
        refusal->what = connection->state == NET_OPEN ? "connection" : refusal->what;
        refusal->why = why;
    }
}

void net_refusal_note_peer(struct net *net, const struct world_peer *peer, enum status status,
                           uint64_t now_us)
{
    struct net_refusal *refusal = add(net, now_us);
    if (refusal != NULL) {
        refusal->what = "connection";
        refusal->why = status_text(status);
        refusal->peer_kind = peer->kind;
        refusal->uid = peer->uid;
        memcpy(refusal->ip, peer->ip, sizeof refusal->ip);
    }
}

bool net_refusal_take(struct net *net, struct net_refusal *refusal)
{
    struct net_refusals *refusals = &net->refusals;
    if (refusals->count == 0) {
        return false;
    }
    *refusal = refusals->of[0];
    refusals->count--;
    memmove(&refusals->of[0], &refusals->of[1], refusals->count * sizeof refusals->of[0]);
    return true;
}

uint64_t net_refusal_take_left_out(struct net *net, uint64_t now_us)
{
    uint64_t left_out = net->refusals.left_out;
    if (now_us < net->refusals.second_us + SECOND_US) {
        return 0;
    }
    net->refusals.left_out = 0;
    return left_out;
}
