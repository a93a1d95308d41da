/* SPDX-License-Identifier: MIT */
#include "config/address.h"

#include <arpa/inet.h>
#include <string.h>

#include "config/base/assert.h"

/*
 * What: the strict parser of addresses, and of lists of networks, with the search in them.
 * inet_pton() parses hosts of both families; it allocates nothing and refuses octal, hexadecimal
 * and short forms. Brackets, ports, commas and the bits of a network are parsed here.
 * Invariant: the bytes that a family does not use, and the bits beyond those that a network names,
 * are zero, so addresses compare by memory.
 */

#define HOST_BYTES_MAX 46       /* INET6_ADDRSTRLEN, terminator included */
#define MAPPED_BITS    96       /* before the address in ::ffff:A.B.C.D */

/* All of `text`: one to five digits, at most 65535. */
static bool parse_port(const char *text, uint16_t *port)
{
    uint32_t number = 0, digits = 0;
    for (; text[digits] >= '0' && text[digits] <= '9' && digits < 5; digits++) {
        number = number * 10 + (uint32_t)(text[digits] - '0');
    }
    if (digits == 0 || text[digits] != '\0' || number > UINT16_MAX) {
        return false;
    }
    *port = (uint16_t)number;
    return true;
}

enum status config_address_parse(const char *text, struct config_address *address)
{
    char host[HOST_BYTES_MAX];
    struct config_address parsed = {0};
    bool bracketed = text[0] == '[';
    const char *start = text + bracketed;
    const char *end = strchr(start, bracketed ? ']' : ':');
    if (end == NULL || end - start >= HOST_BYTES_MAX) {
        return STATUS_BAD_ADDRESS;
    }
    const char *colon = end + bracketed;
    if (*colon != ':' || !parse_port(colon + 1, &parsed.port)) {
        return STATUS_BAD_ADDRESS;
    }
    memcpy(host, start, (size_t)(end - start));
    host[end - start] = '\0';
    parsed.family = bracketed ? CONFIG_ADDRESS_IPV6 : CONFIG_ADDRESS_IPV4;
    if (inet_pton(bracketed ? AF_INET6 : AF_INET, host, parsed.bytes) != 1) {
        return STATUS_BAD_ADDRESS;
    }
    *address = parsed;
    return STATUS_OK;
}

uint32_t config_address_to_socket(const struct config_address *from, struct sockaddr_storage *to)
{
    memset(to, 0, sizeof *to);
    if (from->family == CONFIG_ADDRESS_IPV4) {
        struct sockaddr_in *address = (struct sockaddr_in *)to;
        address->sin_family = AF_INET;
        address->sin_port = htons(from->port);
        memcpy(&address->sin_addr, from->bytes, 4);
        return sizeof *address;
    }
    struct sockaddr_in6 *address = (struct sockaddr_in6 *)to;
    address->sin6_family = AF_INET6;
    address->sin6_port = htons(from->port);
    memcpy(&address->sin6_addr, from->bytes, 16);
    return sizeof *address;
}

bool config_address_is_loopback(const struct config_address *address)
{
    static const uint8_t v6_loopback[16] = {[15] = 1};
    if (address->family == CONFIG_ADDRESS_IPV4) {
        return address->bytes[0] == 127;
    }
    ASSERT(address->family == CONFIG_ADDRESS_IPV6);
    return memcmp(address->bytes, v6_loopback, sizeof v6_loopback) == 0;
}

bool config_address_is_equal(const struct config_address *a, const struct config_address *b)
{
    ASSERT(a != NULL && b != NULL);
    return a->family == b->family && a->port == b->port &&
           memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

/* ---- peers ----------------------------------------------------------------------------------- */

/* The number of bits after the slash: one to three digits, all of the text. */
static bool parse_bits(const char *text, uint32_t bytes, uint32_t most, uint32_t *bits)
{
    *bits = 0;
    for (uint32_t i = 0; i < bytes; i++) {
        if (text[i] < '0' || text[i] > '9' || bytes > 3) {
            return false;
        }
        *bits = *bits * 10 + (uint32_t)(text[i] - '0');
    }
    return bytes > 0 && *bits <= most;
}

static bool parse_host(const char *text, uint32_t bytes, uint8_t ip[16], bool *is_ipv4)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    char host[HOST_BYTES_MAX];
    if (bytes >= sizeof host) {
        return false;
    }
    memcpy(host, text, bytes);
    host[bytes] = '\0';
    *is_ipv4 = memchr(host, ':', bytes) == NULL;
    if (*is_ipv4) {
        memcpy(ip, mapped, sizeof mapped);
    }
    return inet_pton(*is_ipv4 ? AF_INET : AF_INET6, host, *is_ipv4 ? ip + 12 : ip) == 1;
}

/* Compares the first `bits` bits. */
static bool agree(const uint8_t *a, const uint8_t *b, uint32_t bits)
{
    uint32_t whole = bits / 8, rest = bits % 8;
    return memcmp(a, b, whole) == 0 && (rest == 0 || (a[whole] ^ b[whole]) >> (8 - rest) == 0);
}

/* True when no bit is set after the first `bits`: 10.1.2.3/16 is more likely a slip than a wish. */
static bool is_network(const uint8_t ip[16], uint32_t bits)
{
    uint8_t masked[16] = {0};
    memcpy(masked, ip, bits / 8);
    if (bits % 8 != 0) {
        masked[bits / 8] = (uint8_t)(ip[bits / 8] & (0xff << (8 - bits % 8)));
    }
    return memcmp(masked, ip, sizeof masked) == 0;
}

static bool parse_network(const char *text, uint32_t bytes, struct config_network *network)
{
    const char *slash = memchr(text, '/', bytes);
    uint32_t host_bytes = slash != NULL ? (uint32_t)(slash - text) : bytes;
    bool is_ipv4;
    if (!parse_host(text, host_bytes, network->ip, &is_ipv4)) {
        return false;
    }
    uint32_t most = is_ipv4 ? 32 : 128, bits = most;
    if (slash != NULL && !parse_bits(slash + 1, bytes - host_bytes - 1, most, &bits)) {
        return false;
    }
    network->bits = bits + (is_ipv4 ? MAPPED_BITS : 0);
    return is_network(network->ip, network->bits);
}

enum status config_peers_parse(const char *text, struct config_peers *peers)
{
    *peers = (struct config_peers){0};
    while (*text != '\0') {
        uint32_t bytes = (uint32_t)strcspn(text, ",");
        bool more = text[bytes] == ',';
        if (peers->count == CONFIG_PEERS_MAX ||
            !parse_network(text, bytes, &peers->of[peers->count])) {
            return STATUS_BAD_ADDRESS;
        }
        peers->count++;
        text += bytes + more;
        text += strspn(text, " ");
        if (more && *text == '\0') {
            return STATUS_BAD_ADDRESS;
        }
    }
    return STATUS_OK;
}

bool config_peers_hold(const struct config_peers *peers, const uint8_t ip[16])
{
    ASSERT(peers->count <= CONFIG_PEERS_MAX);
    for (uint32_t i = 0; i < peers->count; i++) {
        if (agree(peers->of[i].ip, ip, peers->of[i].bits)) {
            return true;
        }
    }
    return false;
}

static uint64_t number_of(const uint8_t *bytes, uint32_t count)
{
    uint64_t number = 0;
    for (uint32_t i = 0; i < count; i++) {
        number = number << 8 | bytes[i];
    }
    return number;
}

bool config_ip_is_ipv4(const uint8_t ip[16])
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    return memcmp(ip, mapped, sizeof mapped) == 0;
}

void config_peer_from_ip(struct world_peer *peer, const uint8_t ip[16])
{
    static const uint8_t loopback[16] = {[15] = 1};
    bool is_ipv4 = config_ip_is_ipv4(ip);
    bool is_loopback = is_ipv4 ? ip[12] == 127 : memcmp(ip, loopback, sizeof loopback) == 0;
    *peer = (struct world_peer){.kind = is_loopback ? WORLD_PEER_LOOPBACK : WORLD_PEER_REMOTE,
                                .address = is_ipv4 ? number_of(ip + 12, 4) : number_of(ip, 8)};
    memcpy(peer->ip, ip, sizeof peer->ip);
}
