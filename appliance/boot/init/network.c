/* SPDX-License-Identifier: MIT */
/*
 * What: the network of the machine (appliance/boot/init/network.h).
 * Why by ioctl(): three requests and a route need no library, and netlink would need a parser.
 */
#include "appliance/boot/init/network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/route.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "appliance/log.h"

enum field { CLIENT, SERVER, GATEWAY, NETMASK, HOSTNAME, DEVICE, AUTOCONF, FIELDS };
#define FIELD_BYTES 32

/* ---- what the command line says ---- */

/* False when there are too many fields, or one is too long. Missing ones are empty. */
static bool split(const char *text, char fields[FIELDS][FIELD_BYTES])
{
    uint32_t field = 0, used = 0;
    memset(fields, 0, FIELDS * FIELD_BYTES);
    for (; *text != '\0'; text++) {
        if (*text == ':') {
            field++;
            used = 0;
        } else if (field < FIELDS && used + 1 < FIELD_BYTES) {
            fields[field][used++] = *text;
        } else {
            return false;
        }
    }
    return field < FIELDS;
}

/* An empty field leaves the value as it is. */
static bool read_ip(const char *field, struct in_addr *value)
{
    return field[0] == '\0' || inet_pton(AF_INET, field, value) == 1;
}

bool network_parse(const char *text, struct network_address *address)
{
    char fields[FIELDS][FIELD_BYTES];
    *address = (struct network_address){.netmask.s_addr = htonl(0xffffff00u), .device = "eth0"};
    if (!split(text, fields) || fields[CLIENT][0] == '\0' ||
        strlen(fields[DEVICE]) >= sizeof address->device) {
        return false;
    }
    if (fields[DEVICE][0] != '\0') {
        memcpy(address->device, fields[DEVICE], strlen(fields[DEVICE]) + 1);
    }
    bool is_fixed = fields[AUTOCONF][0] == '\0' || strcmp(fields[AUTOCONF], "off") == 0 ||
                    strcmp(fields[AUTOCONF], "none") == 0;
    return is_fixed && read_ip(fields[CLIENT], &address->address) &&
           read_ip(fields[GATEWAY], &address->gateway) &&
           read_ip(fields[NETMASK], &address->netmask);
}

/* ---- the device ---- */

static void write_ip(struct sockaddr *to, struct in_addr ip)
{
    const struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr = ip};
    memcpy(to, &from, sizeof from);
}

static struct ifreq request_of(const char *device)
{
    struct ifreq request = {0};
    memcpy(request.ifr_name, device, strnlen(device, IFNAMSIZ - 1));
    return request;
}

/* False with errno. */
static bool set_ip(int handle, const char *device, unsigned long what, struct in_addr ip)
{
    struct ifreq request = request_of(device);
    write_ip(&request.ifr_addr, ip);
    return ioctl(handle, what, &request) == 0;
}

static bool set_up(int handle, const char *device)
{
    struct ifreq request = request_of(device);
    if (ioctl(handle, SIOCGIFFLAGS, &request) != 0) {
        return false;
    }
    request.ifr_flags = (short)(request.ifr_flags | IFF_UP);
    return ioctl(handle, SIOCSIFFLAGS, &request) == 0;
}

static bool add_gateway(int handle, struct in_addr gateway)
{
    const struct in_addr any = {0};
    struct rtentry route = {.rt_flags = RTF_UP | RTF_GATEWAY};
    if (gateway.s_addr == 0) {
        return true;
    }
    write_ip(&route.rt_dst, any);
    write_ip(&route.rt_genmask, any);
    write_ip(&route.rt_gateway, gateway);
    return ioctl(handle, SIOCADDRT, &route) == 0;
}

void network_up_loopback(void)
{
    int handle = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (handle < 0 || !set_up(handle, "lo")) {
        log_event(LOG_ERROR, "lo: %s", strerror(errno));
    }
    close(handle);
}

void network_up(const struct network_address *address)
{
    char text[INET_ADDRSTRLEN];
    const char *device = address->device;
    int handle = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    inet_ntop(AF_INET, &address->address, text, sizeof text);
    if (handle >= 0 && set_ip(handle, device, SIOCSIFADDR, address->address) &&
        set_ip(handle, device, SIOCSIFNETMASK, address->netmask) && set_up(handle, device) &&
        add_gateway(handle, address->gateway)) {
        log_event(LOG_INFO, "%s=%s", device, text);
    } else {
        log_event(LOG_ERROR, "%s=%s: %s", device, text, strerror(errno));
    }
    close(handle);
}
