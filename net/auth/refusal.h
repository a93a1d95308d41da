/* SPDX-License-Identifier: MIT */
#pragma once
/* What: notes who was refused, and why, for the log. Only net/ includes this; refusals.h has
 * the record, and net.h how it is taken. */
#include "net/net.h"

/* The client of this connection, or what it has sent, is refused. O(1). */
void net_refusal_note(struct net *net, const struct net_connection *connection,
                      const struct wire_fault *fault, uint64_t now_us);
/* It is dropped without an answer; `why` is a string constant. */
void net_refusal_note_drop(struct net *net, const struct net_connection *connection,
                           const char *why, uint64_t now_us);
/* A peer gets no connection. */
void net_refusal_note_peer(struct net *net, const struct world_peer *peer, enum status status,
                           uint64_t now_us);
