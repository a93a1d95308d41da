/* SPDX-License-Identifier: MIT */
/*
 * What: the header of a load balancer, and whose connection it is from then on.
 *
 *   accepted from net.proxy --> PROXIED --header--> GREETING
 *                                  |
 *                                  +-- no header, another one, the handshake's deadline --> closed
 *
 * Until the header has come, the address is the balancer's, which many clients share: it does not
 * count towards net.preauth_per_address, as on loopback. From then on the client's counts. LOCAL is
 * a check of the balancer's own, and stays spared.
 *
 * Invariants: exactly the header is received before it is taken, so `received` is empty afterwards;
 * from a listed peer nothing else is taken first, and from another peer the header never is: net
 * closes such a connection, as it does for all bytes that are not its protocol.
 * Bounds: O(bytes of the header) for each receive, O(limits.preauth) when it is whole.
 */
#include "net/auth/proxy.h"

#include <string.h>

#include "net/auth/preauth.h"
#include "net/auth/refusals.h"

#define SIGNATURE_BYTES 12
#define VERSION_AT      12
#define FAMILY_AT       13
#define LENGTH_AT       14
#define LOCAL_COMMAND   0x20
#define PROXY_COMMAND   0x21
#define TCP_OVER_IPV4   0x11
#define TCP_OVER_IPV6   0x21
#define IPV4_BYTES      12          /* two addresses and two ports */
#define IPV6_BYTES      36

static bool is_signature(const uint8_t *bytes, uint32_t count)
{
    static const uint8_t signature[SIGNATURE_BYTES] = {'\r', '\n', '\r', '\n', 0,   '\r',
                                                       '\n', 'Q',  'U',  'I',  'T', '\n'};
    return memcmp(bytes, signature, count < SIGNATURE_BYTES ? count : SIGNATURE_BYTES) == 0;
}

/* Bytes of the addresses, 0 for a family that is none of ours. */
static uint32_t address_bytes(uint8_t family)
{
    return family == TCP_OVER_IPV4 ? IPV4_BYTES : family == TCP_OVER_IPV6 ? IPV6_BYTES : 0;
}

/* Of the bytes 12 to 15, as far as they are there. */
static bool is_known(const uint8_t *bytes, uint32_t count)
{
    if (count > VERSION_AT && bytes[VERSION_AT] != LOCAL_COMMAND &&
        bytes[VERSION_AT] != PROXY_COMMAND) {
        return false;
    }
    bool is_own = count > VERSION_AT && bytes[VERSION_AT] == LOCAL_COMMAND;
    if (count > FAMILY_AT && !is_own && address_bytes(bytes[FAMILY_AT]) == 0) {
        return false;
    }
    if (count < NET_PROXY_FIXED_BYTES) {
        return true;
    }
    uint32_t length = (uint32_t)bytes[LENGTH_AT] << 8 | bytes[LENGTH_AT + 1];
    return length <= NET_PROXY_BYTES_MAX - NET_PROXY_FIXED_BYTES &&
           (is_own || length >= address_bytes(bytes[FAMILY_AT]));
}

void net_proxy_parse(const uint8_t *bytes, uint32_t count, struct net_proxy_header *header)
{
    *header = (struct net_proxy_header){.bytes = NET_PROXY_FIXED_BYTES};
    if (!is_signature(bytes, count) || !is_known(bytes, count)) {
        header->kind = NET_PROXY_BAD;
        return;
    }
    if (count < NET_PROXY_FIXED_BYTES) {
        return;
    }
    header->bytes += (uint32_t)bytes[LENGTH_AT] << 8 | bytes[LENGTH_AT + 1];
    if (count < header->bytes) {
        return;
    }
    if (bytes[VERSION_AT] == LOCAL_COMMAND) {
        header->kind = NET_PROXY_OWN;
        return;
    }
    const uint8_t *source = bytes + NET_PROXY_FIXED_BYTES;
    header->kind = NET_PROXY_CLIENT;
    if (bytes[FAMILY_AT] == TCP_OVER_IPV4) {
        header->ip[10] = header->ip[11] = 0xff;
        memcpy(header->ip + 12, source, 4);
    } else {
        memcpy(header->ip, source, sizeof header->ip);
    }
}

uint32_t net_proxy_due_bytes(const struct net_connection *connection)
{
    struct net_proxy_header header;
    net_proxy_parse(connection->received, connection->received_bytes, &header);
    ASSERT(header.kind == NET_PROXY_PARTIAL && header.bytes <= NET_PROXY_BYTES_MAX);
    return header.bytes;
}

/* The client is known now; false when others from its address have not had their time. */
static bool admit_client(struct net *net, uint32_t index, const uint8_t ip[16],
                         struct wire_fault *fault, uint64_t now_us)
{
    struct net_connection *connection = &net->connections[index];
    struct world_peer client;
    uint32_t yields;
    config_peer_from_ip(&client, ip);
    if (!net_preauth_share(net, &client, now_us, &yields, fault)) {
        return false;
    }
    if (yields != NET_CONNECTION_NONE) {
        net->stats->connections_displaced++;
        net_connection_close(net, yields);
    }
    connection->peer_kind = client.kind;
    connection->address = client.address;
    return true;
}

static void turn_away(struct net *net, uint32_t index, const struct wire_fault *fault,
                      uint64_t now_us)
{
    struct net_connection *connection = &net->connections[index];
    uint32_t count = net_connection_refusal(fault, true, net_connection_tail(net, connection),
                                            net_connection_room(net, connection));
    net_connection_push(net, connection, count, now_us);
    net_refusal_note(net, connection, fault, now_us);
    connection->state = NET_CLOSING;
    net->stats->connections_refused++;
}

void net_proxy_take(struct net *net, uint32_t index, uint64_t now_us)
{
    struct net_connection *connection = &net->connections[index];
    struct net_proxy_header header;
    struct wire_fault fault;
    ASSERT(connection->state == NET_PROXIED && connection->is_preauth);
    net_proxy_parse(connection->received, connection->received_bytes, &header);
    if (header.kind == NET_PROXY_PARTIAL) {
        return;
    }
    if (header.kind == NET_PROXY_BAD) {
        net->stats->proxy_headers_bad++;
        net->stats->connections_dropped++;
        net_refusal_note_drop(net, connection, "its PROXY header is missing or wrong", now_us);
        net_connection_close(net, index);
        return;
    }
    ASSERT(connection->received_bytes == header.bytes);
    net_connection_used(connection, header.bytes);
    connection->active_us = now_us;
    connection->state = NET_GREETING;
    if (header.kind == NET_PROXY_CLIENT) {
        memcpy(connection->ip, header.ip, sizeof connection->ip);
        if (!admit_client(net, index, header.ip, &fault, now_us)) {
            turn_away(net, index, &fault, now_us);
        }
    }
}
