/* SPDX-License-Identifier: MIT */
#include "config/address.h"

#include <arpa/inet.h>
#include <string.h>

#include "config/base/assert.h"

/*
 * What: the strict parser of addresses. inet_pton() parses hosts of both families; it allocates
 * nothing and refuses octal, hexadecimal and short forms. Brackets and ports are parsed here.
 * Invariant: the bytes that a family does not use are zero, so addresses compare by memory.
 */

#define HOST_BYTES_MAX 46       /* INET6_ADDRSTRLEN, terminator included */

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
