/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the header that a load balancer puts before the client's first byte: PROXY protocol,
 * version 2 (the text form, version 1, is not taken). Only net/ includes this.
 *
 *   offset 0   signature  u8[12]  \r\n\r\n\0\r\nQUIT\n
 *          12  version    u8      0x20 LOCAL: a connection of the balancer's own
 *                                 0x21 PROXY: the addresses of a client follow
 *          13  family     u8      0x11 TCP over IPv4, 0x21 TCP over IPv6; of LOCAL any
 *          14  length     u16     big-endian: of what follows, at most 520
 *          16  addresses          4 + 4 + 2 + 2 bytes, or 16 + 16 + 2 + 2: the source comes first
 *              the rest           is skipped
 */
#include "net/intake.h"

#define NET_PROXY_FIXED_BYTES 16
#define NET_PROXY_BYTES_MAX   536       /* what every TCP segment can carry */

struct net_proxy_header {
    enum { NET_PROXY_PARTIAL, NET_PROXY_BAD, NET_PROXY_OWN, NET_PROXY_CLIENT } kind;
    uint32_t bytes;             /* its length; while PARTIAL, the least that it can be */
    uint8_t ip[16];             /* of a CLIENT; IPv4 as ::ffff:A.B.C.D */
};

/* Judges a header by its first `count` bytes; it is BAD as soon as they cannot begin one. */
void net_proxy_parse(const uint8_t *bytes, uint32_t count, struct net_proxy_header *header);
/* True when a peer's connections must begin with the header. */
static inline bool net_proxy_is_due(const struct net *net, const struct world_peer *peer)
{
    return peer->kind != WORLD_PEER_LOCAL &&
           config_peers_hold(&net->settings.access.proxies, peer->ip);
}

/* Bytes to receive before the next look; nothing after the header is among them. */
uint32_t net_proxy_due_bytes(const struct net_connection *connection);
/* Acts on the header, if it is whole: the connection then waits for HELLO, or is refused. May close
 * it. */
void net_proxy_take(struct net *net, uint32_t index, uint64_t now_us);
