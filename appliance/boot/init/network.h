/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the network of the machine: one IPv4 address that does not change, from the kernel's
 * command line, in the kernel's own form (Documentation/admin-guide/nfs/nfsroot.rst):
 *
 *   ip=ADDRESS:(ignored):GATEWAY:NETMASK:(ignored):DEVICE:off
 *
 * NETMASK is 255.255.255.0 and DEVICE eth0 when they are empty or missing. There is no DHCP.
 */
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>

struct network_address {
    struct in_addr address, gateway, netmask;       /* gateway 0: none */
    char device[IFNAMSIZ];
};

/* False when it is not of that form. */
bool network_parse(const char *text, struct network_address *address);
void network_up_loopback(void);
/* Gives the device its address and the way to others. A failure is logged. */
void network_up(const struct network_address *address);
