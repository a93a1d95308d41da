/* SPDX-License-Identifier: MIT */
/*
 * What: the protocol of sd_listen_fds(3): $LISTEN_FDS descriptors from 3 on are for process
 * $LISTEN_PID. A socket is known by its address: names ($LISTEN_FDNAMES) could contradict the
 * configuration, and an address cannot.
 * Owner: the keeper, before it forks.
 */
#include "appliance/boot/inherited.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "appliance/log.h"

#define INHERITED_FIRST (STDERR_FILENO + 1)

static bool is_taken[INHERITED_MAX];
static uint32_t given_count;
static int given[INHERITED_MAX];        /* after those of the service manager */

static unsigned long number_of(const char *variable)
{
    const char *text = getenv(variable);
    return text != NULL ? strtoul(text, NULL, 10) : 0;
}

uint32_t inherited_count(void)
{
    unsigned long count = number_of("LISTEN_FDS");
    if (number_of("LISTEN_PID") != (unsigned long)getpid()) {
        return 0;
    }
    return count < INHERITED_MAX ? (uint32_t)count : INHERITED_MAX;
}

static uint32_t all_count(void)
{
    return inherited_count() + given_count;
}

static int handle_at(uint32_t i)
{
    uint32_t inherited = inherited_count();
    return i < inherited ? INHERITED_FIRST + (int)i : given[i - inherited];
}

void inherited_give(int handle)
{
    if (all_count() < INHERITED_MAX) {
        given[given_count++] = handle;
    }
}

static bool is_listening_stream(int handle)
{
    int type = 0, listens = 0;
    socklen_t type_bytes = sizeof type, listens_bytes = sizeof listens;
    return getsockopt(handle, SOL_SOCKET, SO_TYPE, &type, &type_bytes) == 0 &&
           getsockopt(handle, SOL_SOCKET, SO_ACCEPTCONN, &listens, &listens_bytes) == 0 &&
           type == SOCK_STREAM && listens != 0;
}

/* True when a socket at `own` is one for `wanted`. */
static bool is_same(const struct sockaddr_storage *own, const struct sockaddr *wanted)
{
    if (own->ss_family != wanted->sa_family) {
        return false;
    }
    if (own->ss_family == AF_UNIX) {
        const struct sockaddr_un *a = (const void *)own, *b = (const void *)wanted;
        return strncmp(a->sun_path, b->sun_path, sizeof a->sun_path) == 0;
    }
    if (own->ss_family == AF_INET) {
        const struct sockaddr_in *a = (const void *)own, *b = (const void *)wanted;
        return a->sin_addr.s_addr == b->sin_addr.s_addr &&
               (b->sin_port == 0 || a->sin_port == b->sin_port);
    }
    const struct sockaddr_in6 *a = (const void *)own, *b = (const void *)wanted;
    return memcmp(&a->sin6_addr, &b->sin6_addr, sizeof a->sin6_addr) == 0 &&
           (b->sin6_port == 0 || a->sin6_port == b->sin6_port);
}

static bool is_for(int handle, const struct sockaddr *address)
{
    struct sockaddr_storage own;
    socklen_t bytes = sizeof own;
    memset(&own, 0, sizeof own);
    return is_listening_stream(handle) &&
           getsockname(handle, (struct sockaddr *)&own, &bytes) == 0 && is_same(&own, address);
}

int inherited_take(const struct sockaddr *address, int backlog)
{
    uint32_t count = all_count();
    for (uint32_t i = 0; i < count; i++) {
        int handle = handle_at(i);
        if (is_taken[i] || !is_for(handle, address)) {
            continue;
        }
        is_taken[i] = fcntl(handle, F_SETFL, O_RDWR | O_NONBLOCK) == 0 &&
                      fcntl(handle, F_SETFD, FD_CLOEXEC) == 0 && listen(handle, backlog) == 0;
        return is_taken[i] ? handle : -1;
    }
    return -1;
}

void inherited_close_rest(void)
{
    uint32_t count = all_count(), inherited = inherited_count();
    for (uint32_t i = 0; i < count; i++) {
        if (!is_taken[i]) {
            log_event(LOG_WARN, "socket %u of the %s is none of net.unix, net.tcp and text.listen: "
                      "closed", i, i < inherited ? "service manager" : "appliance before this one");
            close(handle_at(i));
        }
    }
}
