/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: numeric socket addresses, `A.B.C.D:PORT` and `[v6]:PORT`. No names: nothing is looked up.
 * Port 0 lets the kernel choose one.
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/status.h"

enum config_address_family { CONFIG_ADDRESS_IPV4, CONFIG_ADDRESS_IPV6 };

struct config_address {
    enum config_address_family family;
    uint8_t bytes[16];              /* network order; IPv4 uses the first four */
    uint16_t port;                  /* host order */
};

/* BAD_ADDRESS for anything else; `address` is then unchanged. */
MUST_CHECK enum status config_address_parse(const char *text, struct config_address *address);
/* 127.0.0.0/8 or ::1. Mapped IPv4 addresses are not: write them as IPv4. */
bool config_address_is_loopback(const struct config_address *address);
bool config_address_is_equal(const struct config_address *a, const struct config_address *b);
