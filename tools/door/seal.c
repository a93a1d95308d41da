/* SPDX-License-Identifier: MIT */
/*
 * What: the rights, limits and system calls that the door keeps (tools/door/seal.h).
 *
 * The rules are those of the libraries as they are linked: malloc gets and gives back memory,
 * libmicrohttpd accepts and answers, the client library connects to the appliance. Whatever else is
 * called ends the process.
 * Why not as tight as the appliance's: the door takes memory as clients come, and connects again to
 * an appliance that was away.
 */
#include "tools/door/seal.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "appliance/log.h"
#include "appliance/seal/rights.h"
#include "appliance/seal/rules.h"

#define DESCRIPTORS_OWN 16          /* standard ones, the listener, epolls, the library's bell */

#ifdef AGENTIX_NO_TRAP
enum { IS_SEALED = 0 };             /* a sanitizer maps and opens at any time */
#else
enum { IS_SEALED = 1 };
#endif

#define STREAM              (SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC)

static const struct filter_rule rules[] = {
    ALLOW(epoll_wait), ALLOW(epoll_pwait), ALLOW(epoll_ctl),
    ALLOW(recvfrom), ALLOW(sendto), ALLOW(sendmsg), ALLOW(read), ALLOW(write), ALLOW(writev),
    ALLOW(accept4), ALLOW(close), ALLOW(shutdown), ALLOW(poll),
    ALLOW(setsockopt), ALLOW(getsockopt), ALLOW(getsockname), ALLOW(fcntl),
    ALLOW(socket, IS(0, AF_UNIX), IS(1, STREAM)),       /* to the appliance */
    ALLOW(socket, IS(0, AF_INET), IS(1, STREAM)),
    ALLOW(socket, IS(0, AF_INET6), IS(1, STREAM)),
    ALLOW(connect),
    KILL(mmap, HAS(2, PROT_EXEC)),
    ALLOW(mmap, HAS(3, MAP_ANONYMOUS)),
    ALLOW(munmap), ALLOW(mremap), ALLOW(brk), ALLOW(madvise, IS(2, MADV_DONTNEED)),
    ALLOW(futex),
    ALLOW(clock_gettime), ALLOW(gettimeofday), ALLOW(time),
    ALLOW(getrandom),
    ALLOW(rt_sigreturn), ALLOW(restart_syscall),        /* after SIGTERM, after SIGCONT */
    ALLOW(exit_group),
};

static bool refuse(const char *what)
{
    log_event(LOG_ERROR, "not sealed: %s: %s", what, strerror(errno));
    return false;
}

/* Files that libraries would read when they first need them: of time zones, of random numbers. */
static bool read_ahead(void)
{
    size_t seed = 0;
    tzset();
    while (seed == 0) {                                 /* 0 makes jansson open one itself */
        if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed) {
            return false;
        }
    }
    json_object_seed(seed);
    return true;
}

static bool fix_limits(const struct door *door)
{
    rlim_t descriptors = DESCRIPTORS_OWN + door->options.door_connections.number +
                         (rlim_t)door->domains_count * door->uplinks_count;
    if (setrlimit(RLIMIT_NOFILE, &(struct rlimit){descriptors, descriptors}) != 0) {
        log_event(LOG_ERROR, "door.connections = %llu: needs %llu descriptors, and the system "
                  "allows fewer: raise the limit (ulimit -n)",
                  (unsigned long long)door->options.door_connections.number,
                  (unsigned long long)descriptors);
        return false;
    }
    return setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}) == 0;
}

bool seal(const struct door *door)
{
    const struct filter filter = RULES(rules, FILTER_KILL);
    if (!read_ahead()) {
        return refuse("no random numbers");
    }
    if (!IS_SEALED) {
        log_event(LOG_WARN, "not sealed: a build with sanitizers");
        return true;
    }
    if (!fix_limits(door)) {
        return false;
    }
    if (rights_drop() != STATUS_OK) {
        return refuse("capabilities");
    }
    return filter_load(&filter, NULL) == STATUS_OK || refuse("seccomp");
}
