/* SPDX-License-Identifier: MIT */
#pragma once
/* What: connections on TCP that have not authenticated yet. Only net/ includes this. */
#include "net/net.h"

void net_preauth_init(struct net *net);
/* Adds a new connection; takes out one that was admitted or closed. */
void net_preauth_enter(struct net *net, uint32_t index);
void net_preauth_leave(struct net *net, uint32_t index);
/* When there is a place for one more: 0 (now), or when the time of an earlier one is over. */
uint64_t net_preauth_free_us(const struct net *net, uint64_t now_us);
/* True when the peer, which was accepted because net_preauth_free_us() was 0, may have a place;
 * the caller closes connection `yields` for it, unless that is NET_CONNECTION_NONE. False when too
 * many from its address still have time left: `fault` says how many there may be. */
bool net_preauth_admit(const struct net *net, const struct world_peer *peer, uint64_t now_us,
                       uint32_t *yields, struct wire_fault *fault);
/* The same for a client that a load balancer names. Its connection has a place already, so only its
 * address counts. */
bool net_preauth_share(const struct net *net, const struct world_peer *peer, uint64_t now_us,
                       uint32_t *yields, struct wire_fault *fault);
