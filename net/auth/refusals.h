/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the record of clients and frames that were refused, for the log: net notes them, and the
 * core takes them off (net.h) and writes their lines (appliance/text/refusals.h).
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/world.h"
#include "net/wire.h"

#define NET_REFUSALS_PER_SECOND 8       /* that are noted */
struct net_refusal {                /* of a client, of a frame; for the log */
    uint64_t at_us;
    const char *what, *why;         /* constants */
    enum world_peer_kind peer_kind;
    uint8_t ip[16];                 /* of a LOOPBACK or REMOTE peer */
    uint32_t uid;                   /* of a LOCAL one */
    char key_id[WIRE_KEY_ID_BYTES]; /* that it has named; empty: none. Not its place in the table
                                       of keys: the refusal may be a reload's */
    bool is_proven;                 /* it has that key */
    char name[WIRE_NAME_BYTES];     /* as in its connection */
    uint64_t call_id;               /* 0: it is about no call */
    const char *field;              /* the wrong field of the frame; NULL: none. A constant */
    uint64_t found, min, max;       /* its value, and the allowed range; both 0: nothing to say */
    bool in_thousandths;            /* these are int64_t, of a float */
};
struct net_refusals {
    struct net_refusal of[NET_REFUSALS_PER_SECOND];     /* [count], the oldest first */
    uint32_t count, in_second;
    uint64_t second_us;             /* when the second began that in_second counts */
    uint64_t left_out;              /* not noted since they were last told */
};

/* ---- net's own ------------------------------------------------------------------------------- */

struct net;
struct net_connection;
/* The client of this connection, or what it has sent, is refused. O(1). */
void net_refusal_note(struct net *net, const struct net_connection *connection,
                      const struct wire_fault *fault, uint64_t now_us);
/* The client of this connection is dropped without an answer; `why` is a string constant. */
void net_refusal_note_drop(struct net *net, const struct net_connection *connection,
                           const char *why, uint64_t now_us);
/* A peer gets no connection. */
void net_refusal_note_peer(struct net *net, const struct world_peer *peer, enum status status,
                           uint64_t now_us);
