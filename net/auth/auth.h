/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the identity of a client, and the proof of it. Only net/ includes this. */
#include "net/intake.h"

void net_auth_plan_memory(struct memory_plan *plan, const struct limits *limits);
/* Copies the keys; the caller wipes its own. */
void net_auth_init(struct net *net, const struct config_keys *keys, struct arena *arena);
/* Replaces the keys, with no calls open on them. */
void net_auth_fill_keys(struct net *net, const struct config_keys *keys);
/* True when peers of this kind must prove that they have a key. */
bool net_auth_asks(const struct net *net, enum world_peer_kind kind);
/* True when this peer may connect, as far as the operating system can say. */
bool net_auth_allows(const struct net *net, const struct world_peer *peer);
/* The trust domain of a peer without a key. */
uint64_t net_auth_domain(const struct world_peer *peer);
/* AUTH: admits the connection, or BAD_AUTH. */
MUST_CHECK enum status net_auth_intake(struct net_frame *frame);
