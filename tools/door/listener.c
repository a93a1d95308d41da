/* SPDX-License-Identifier: MIT */
#include "tools/door/listener.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "appliance/boot/inherited.h"
#include "config/address.h"

#define BACKLOG 1024

static int listen_at(const struct sockaddr_storage *at, socklen_t bytes)
{
    int yes = 1, kind = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
    int handle = socket(at->ss_family, kind, 0);
    if (handle >= 0 && (setsockopt(handle, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
                        bind(handle, (const struct sockaddr *)at, bytes) != 0 ||
                        listen(handle, BACKLOG) != 0)) {
        int error = errno;
        close(handle);
        errno = error;
        return -1;
    }
    return handle;
}

static void print_port(int handle, const char *how)
{
    struct sockaddr_storage at;
    socklen_t bytes = sizeof at;
    (void)getsockname(handle, (struct sockaddr *)&at, &bytes);
    bool is_ipv4 = at.ss_family == AF_INET;
    uint16_t port = is_ipv4 ? ((struct sockaddr_in *)&at)->sin_port
                            : ((struct sockaddr_in6 *)&at)->sin6_port;
    fprintf(stderr, "agentix-door: %son port %u\n", how, ntohs(port));
}

int listener_open(const char *text)
{
    struct config_address address;
    struct sockaddr_storage at;
    if (config_address_parse(text, &address) != STATUS_OK) {
        fprintf(stderr, "agentix-door: door.listen = %s: this is no address\n", text);
        return -1;
    }
    socklen_t bytes = config_address_to_socket(&address, &at);
    int handle = inherited_take((const struct sockaddr *)&at, BACKLOG);
    if (handle >= 0) {
        print_port(handle, "a socket was handed over: listening ");
        return handle;
    }
    if (inherited_count() > 0) {
        fprintf(stderr, "agentix-door: no socket that was handed over is that of door.listen\n");
    }
    handle = listen_at(&at, bytes);
    if (handle < 0) {
        fprintf(stderr, "agentix-door: door.listen = %s: cannot listen: %s%s\n", text,
                strerror(errno), errno != EADDRINUSE ? "" : "; another door or program has it "
                "(ss -ltnp shows which): stop that one, or set another address here");
    } else {
        print_port(handle, "listening ");
    }
    return handle;
}
