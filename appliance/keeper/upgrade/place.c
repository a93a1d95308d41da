/* SPDX-License-Identifier: MIT */
/* What: where two keepers meet (upgrade/place.h). */
#include "appliance/keeper/upgrade/place.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "config/address.h"

#define PREFIX "agentix-upgrade/"

/* False: no address. */
static bool tcp_name(const struct options *options, int tcp, char *name, size_t bytes)
{
    struct config_address parsed;
    struct sockaddr_storage socket;
    socklen_t length = sizeof socket;
    char ip[INET6_ADDRSTRLEN] = "";
    if (tcp >= 0) {
        if (getsockname(tcp, (struct sockaddr *)&socket, &length) != 0) {
            return false;
        }
    } else if (config_address_parse(options->net_tcp.text, &parsed) == STATUS_OK) {
        (void)config_address_to_socket(&parsed, &socket);
    } else {
        return false;
    }
    const void *address = socket.ss_family == AF_INET
                              ? (const void *)&((struct sockaddr_in *)&socket)->sin_addr
                              : (const void *)&((struct sockaddr_in6 *)&socket)->sin6_addr;
    in_port_t port = socket.ss_family == AF_INET ? ((struct sockaddr_in *)&socket)->sin_port
                                                 : ((struct sockaddr_in6 *)&socket)->sin6_port;
    return inet_ntop(socket.ss_family, address, ip, sizeof ip) != NULL &&
           snprintf(name, bytes, PREFIX "%s:%u", ip, ntohs(port)) < (int)bytes;
}

uint32_t upgrade_place(struct sockaddr_un *place, const struct options *options, int tcp)
{
    char name[sizeof place->sun_path - 1];
    const char *path = options->net_unix.text;
    *place = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (path[0] != '\0') {
        if (snprintf(name, sizeof name, PREFIX "%s", path) >= (int)sizeof name) {
            snprintf(name, sizeof name, PREFIX "%s", path + strlen(path) - 80);
        }
    } else if (!tcp_name(options, tcp, name, sizeof name)) {
        return 0;
    }
    memcpy(place->sun_path + 1, name, strlen(name));
    return (uint32_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
}

bool upgrade_knows_peer(int socket, const struct config_user *user, pid_t *pid)
{
    struct ucred process;
    socklen_t bytes = sizeof process;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &process, &bytes) != 0) {
        return false;
    }
    *pid = process.pid;
    return process.uid == 0 || process.uid == geteuid() ||
           (user->is_named && process.uid == user->uid);
}
