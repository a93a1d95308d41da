/* SPDX-License-Identifier: MIT */
#pragma once
/* What: who a program or a connection belongs to, as words without blanks. Names are what strangers
 * wrote: only printable ASCII of them is shown, a dot for each other byte, a dash for none. */
#include "appliance/text/view.h"
#include "config/base/text.h"

#define TEXT_DOMAIN_COLUMNS 16

/* At most `most` bytes of a name that ends with a zero or after `bytes`. */
void text_add_name(struct text *page, const char *name, uint32_t bytes, uint32_t most);
/* Its address, or `unix`. */
void text_add_peer(struct text *page, enum world_peer_kind kind, const uint8_t ip[16]);
/* The key that the client has proved to have, `user:1000` on the unix socket, or a dash. */
void text_add_client(struct text *page, const struct net *net,
                     const struct net_connection *connection);
/* A trust domain that has no name: `user:1000`, `tcp`, or `key:3`. */
void text_add_unnamed(struct text *page, uint64_t domain);
/* A trust domain: its name, `user:1000`, `tcp` for TCP without keys. O(tenants). */
void text_add_domain(struct text *page, const struct sched *sched, uint64_t domain);
/* The connection that the program's last call came by; NULL: it is closed. */
const struct net_connection *text_connection_of(const struct net *net,
                                                const struct program *program);
