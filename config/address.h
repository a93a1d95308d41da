/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: numeric socket addresses, `A.B.C.D:PORT` and `[v6]:PORT`. No names: nothing is looked up.
 * Port 0 lets the kernel choose one. Addresses of peers, and lists of them and of networks,
 * `10.0.0.5, 10.1.0.0/16, fd00::/8`.
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/status.h"
#include "config/base/world.h"

struct sockaddr_storage;            /* of <sys/socket.h> */

enum config_address_family { CONFIG_ADDRESS_IPV4, CONFIG_ADDRESS_IPV6 };

struct config_address {
    enum config_address_family family;
    uint8_t bytes[16];              /* network order; IPv4 uses the first four */
    uint16_t port;                  /* host order */
};

/* BAD_ADDRESS for anything else; `address` is then unchanged. */
MUST_CHECK enum status config_address_parse(const char *text, struct config_address *address);
/* The same for the kernel; how many bytes of it count. */
uint32_t config_address_to_socket(const struct config_address *from, struct sockaddr_storage *to);
/* 127.0.0.0/8 or ::1. Mapped IPv4 addresses are not: write them as IPv4. */
bool config_address_is_loopback(const struct config_address *address);
bool config_address_is_equal(const struct config_address *a, const struct config_address *b);

/* ---- peers ----------------------------------------------------------------------------------- */

#define CONFIG_PEERS_MAX 16

struct config_peers {
    uint32_t count;
    struct config_network {
        uint8_t ip[16];             /* IPv4 as ::ffff:A.B.C.D, like world_peer.ip */
        uint32_t bits;              /* that must agree: 0 .. 128 */
    } of[CONFIG_PEERS_MAX];
};

/* BAD_ADDRESS for anything else; `peers` is then undefined. An empty text is an empty list. */
MUST_CHECK enum status config_peers_parse(const char *text, struct config_peers *peers);
/* True when the address is in the list. */
bool config_peers_hold(const struct config_peers *peers, const uint8_t ip[16]);
/* True for ::ffff:A.B.C.D: the last four bytes are an IPv4 address. */
bool config_ip_is_ipv4(const uint8_t ip[16]);
/* The peer at an address: `kind` and `address` follow from it. */
void config_peer_from_ip(struct world_peer *peer, const uint8_t ip[16]);
