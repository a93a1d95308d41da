/* SPDX-License-Identifier: MIT */
#include "tools/door/listener.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "appliance/boot/inherited.h"
#include "appliance/log.h"
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

/* As the appliance does. Port 0 let the kernel choose one. */
static void tell_address(int handle, const char *text, const char *how)
{
    struct sockaddr_storage at;
    socklen_t bytes = sizeof at;
    (void)getsockname(handle, (struct sockaddr *)&at, &bytes);
    bool is_ipv4 = at.ss_family == AF_INET;
    uint16_t port = is_ipv4 ? ((struct sockaddr_in *)&at)->sin_port
                            : ((struct sockaddr_in6 *)&at)->sin6_port;
    log_event(LOG_INFO, "%slistening door.listen=%.*s:%u", how,
              (int)(strrchr(text, ':') - text), text, ntohs(port));
}

int listener_open(const char *text)
{
    struct config_address address;
    struct sockaddr_storage at;
    if (config_address_parse(text, &address) != STATUS_OK) {
        log_event(LOG_ERROR, "door.listen = %s: this is no address", text);
        return -1;
    }
    socklen_t bytes = config_address_to_socket(&address, &at);
    int handle = inherited_take((const struct sockaddr *)&at, BACKLOG);
    if (handle >= 0) {
        tell_address(handle, text, "a socket was handed over: ");
        return handle;
    }
    if (inherited_count() > 0) {
        log_event(LOG_WARN, "no socket that was handed over is that of door.listen");
    }
    handle = listen_at(&at, bytes);
    if (handle < 0) {
        log_event(LOG_ERROR, "door.listen = %s: cannot listen: %s%s", text, strerror(errno),
                  errno != EADDRINUSE ? "" : "; another door or program has it (ss -ltnp shows "
                  "which): stop that one, or set another address here");
    } else {
        tell_address(handle, text, "");
    }
    return handle;
}
