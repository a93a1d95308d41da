/* SPDX-License-Identifier: MIT */
#pragma once
/* What: connections on TCP that have not got through the handshake yet. Only net/ includes this. */
#include "net/net.h"

void net_anteroom_init(struct net *net);
/* Appends a connection; takes one out that was admitted or closed. */
void net_anteroom_enter(struct net *net, uint32_t index);
void net_anteroom_leave(struct net *net, uint32_t index);
/* When there is a place for one more: 0 (now), or once the first one has had its time. */
uint64_t net_anteroom_free_us(const struct net *net, uint64_t now_us);
/* Makes the place for a peer who was accepted because there is one. False: others from its address
 * have had no time yet, and `fault` says how many there may be. */
bool net_anteroom_make_place(struct net *net, const struct world_peer *peer,
                             struct wire_fault *fault, uint64_t now_us);
