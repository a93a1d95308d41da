/* SPDX-License-Identifier: MIT */
/*
 * What: the rules and limits of each role.
 *
 * Invariants: no rule maps memory, opens, executes, forks, or changes a protection; the only new
 * descriptors are accepted connections, at most as many as the plan has places for.
 */
#include "appliance/seal/seal.h"

#include <errno.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "appliance/seal/heap.h"
#include "appliance/seal/rights.h"
#include "appliance/seal/rules.h"
#include "appliance/log.h"

#define STACK_BYTES (64u << 10)     /* tools/stack: each role takes less than half */

#ifdef AGENTIX_NO_TRAP
enum { IS_SEALED = 0 };                 /* a sanitizer maps and opens at any time */
#else
enum { IS_SEALED = 1 };
#endif

enum descriptor {
    EPOLL, ENGINE_BELL, CONTROL_BELL, ADMISSION, LISTENER_UNIX, LISTENER_TCP, LISTENER_TEXT, KEPT,
    SINGLE_DESCRIPTORS,
    POCKETS = SINGLE_DESCRIPTORS, POCKETS_END,
    REPLIES_BELL, REPLIES_RINGS, REPLIES_FILE, DESCRIPTORS
};

static const struct filter_rule core_rules[] = {
    ALLOW(epoll_wait, ON(EPOLL)),
    ALLOW(recvfrom, IS(3, MSG_DONTWAIT)),
    ALLOW(sendto, IS(3, MSG_DONTWAIT | MSG_NOSIGNAL)),
    ALLOW(sendmsg, BETWEEN(POCKETS, POCKETS_END), IS(2, MSG_DONTWAIT | MSG_NOSIGNAL)),
    ALLOW(futex, IS(1, FUTEX_WAKE)),
    ALLOW(read, ON(ENGINE_BELL)),
    ALLOW(read, ON(CONTROL_BELL)),
    ALLOW(read, ON(ADMISSION)),
    ALLOW(clock_gettime),                       /* where the vDSO cannot read the clock */
    ALLOW(epoll_ctl, ON(EPOLL), IS(1, EPOLL_CTL_MOD)),
    ALLOW(epoll_ctl, ON(EPOLL), IS(1, EPOLL_CTL_ADD)),
    ALLOW(epoll_ctl, ON(EPOLL), IS(1, EPOLL_CTL_DEL)),
    ALLOW(accept4, ON(LISTENER_UNIX), IS(3, SOCK_NONBLOCK | SOCK_CLOEXEC)),
    ALLOW(accept4, ON(LISTENER_TCP), IS(3, SOCK_NONBLOCK | SOCK_CLOEXEC)),
    ALLOW(accept4, ON(LISTENER_TEXT), IS(3, SOCK_NONBLOCK | SOCK_CLOEXEC)),
    ALLOW(setsockopt, IS(1, SOL_SOCKET), IS(2, SO_SNDBUF)),
    ALLOW(setsockopt, IS(1, IPPROTO_TCP), IS(2, TCP_NODELAY)),
    ALLOW(getsockopt, IS(1, SOL_SOCKET), IS(2, SO_PEERCRED)),
    ALLOW(getsockopt, IS(1, SOL_SOCKET), IS(2, SO_PEERGROUPS)),
    ALLOW(close),
    ALLOW(getrandom, IS(2, 0)),
    ALLOW(poll, IS(1, 1), IS(2, 0)),            /* of standard error: config/base/say.c */
    ALLOW(write, ON(REPLIES_BELL)),
    ALLOW(write, IS(0, STDERR_FILENO)),
    ALLOW(exit_group),
};

static const struct filter_rule worker_rules[] = {
    ALLOW(futex, IS(1, FUTEX_WAKE_PRIVATE)),    /* barriers of the threads */
    ALLOW(futex, IS(1, FUTEX_WAIT_PRIVATE)),
    ALLOW(futex, IS(1, FUTEX_WAIT)),            /* for the next step or question */
    ALLOW(write, ON(ENGINE_BELL)),
    ALLOW(write, IS(0, STDERR_FILENO)),
    ALLOW(poll, IS(1, 1), IS(2, 0)),
    ALLOW(clock_gettime),
    ALLOW(exit_group),
};

static const struct filter_rule writer_rules[] = {
    ALLOW(read, ON(REPLIES_RINGS)),
    ALLOW(pwrite64, ON(REPLIES_FILE)),
    ALLOW(fdatasync, ON(REPLIES_FILE)),
    ALLOW(newfstatat, ON(REPLIES_FILE)),
    ALLOW(write, ON(CONTROL_BELL)),
    ALLOW(write, IS(0, STDERR_FILENO)),
    ALLOW(poll, IS(1, 1), IS(2, 0)),
    ALLOW(rt_sigtimedwait),                     /* a rest, after a disk has refused */
    ALLOW(clock_gettime),
    ALLOW(exit_group),
};

static const struct filter filters[SEAL_ROLES] = {
    [SEAL_CORE] = RULES(core_rules, FILTER_KILL),
    [SEAL_WORKER] = RULES(worker_rules, FILTER_KILL),
    [SEAL_WRITER] = RULES(writer_rules, FILTER_KILL),
};

/* So that no page of it is mapped later. */
static __attribute__((noinline)) void touch_stack(void)
{
    uint8_t room[STACK_BYTES];
    explicit_bzero(room, sizeof room);      /* the compiler would drop a memset() */
}

/* All that is open at once, and one peer without a place, while it is refused. */
static rlim_t descriptors_max(const struct boot *boot)
{
    return STDERR_FILENO + 1 + SINGLE_DESCRIPTORS + (rlim_t)boot->limits.connections +
           boot->limits.text_slots + 1 + 2 * (rlim_t)boot->pockets.count +
           (boot->replies_handle > 0);      /* the core rings */
}

static enum boot_exit fix_limits(const struct boot *boot)
{
    rlim_t descriptors = descriptors_max(boot);
    struct rlimit before = {.rlim_max = 0};
    getrlimit(RLIMIT_NOFILE, &before);
    if (setrlimit(RLIMIT_NOFILE, &(struct rlimit){descriptors, descriptors}) != 0) {
        log_event(LOG_ERROR, "boot failed: limits.connections = %u: needs %llu descriptors, the "
                  "system allows %llu: raise the limit (ulimit -n)",
                  boot->limits.connections, (unsigned long long)descriptors,
                  (unsigned long long)before.rlim_max);
        return BOOT_EXIT_SYSTEM;
    }
    setrlimit(RLIMIT_STACK, &(struct rlimit){STACK_BYTES, STACK_BYTES});    /* touched */
    return BOOT_EXIT_OK;
}

static enum boot_exit load_filter(enum seal_role role, const int *descriptors)
{
    if (filter_load(&filters[role], descriptors) != STATUS_OK) {
        log_event(LOG_ERROR, "boot failed: seccomp: %s", strerror(errno));
        return BOOT_EXIT_SYSTEM;
    }
    log_event(LOG_INFO, "sealed system_calls=%u", filter_calls_count(&filters[role]));
    return BOOT_EXIT_OK;
}

enum boot_exit seal_prepare(const struct boot *boot)
{
    touch_stack();
    enum boot_exit exit_status = boot_lock_memory(boot);
    if (exit_status == BOOT_EXIT_OK && IS_SEALED) {
        exit_status = fix_limits(boot);
    }
    if (exit_status == BOOT_EXIT_OK && rights_drop() != STATUS_OK) {
        log_event(LOG_ERROR, "boot failed: capabilities: %s", strerror(errno));
        exit_status = BOOT_EXIT_SYSTEM;
    }
    return exit_status;
}

enum boot_exit seal_process(enum seal_role role, const struct boot *boot, int epoll)
{
    bool has_file = boot->replies_handle > 0;
    const int descriptors[DESCRIPTORS] = {
        [EPOLL] = epoll,
        [ENGINE_BELL] = boot->shared.engine_bell,
        [CONTROL_BELL] = boot->shared.control_bell,
        [ADMISSION] = boot->shared.admission_pipe[0],
        [LISTENER_UNIX] = boot->listeners[BOOT_LISTENER_UNIX],
        [LISTENER_TCP] = boot->listeners[BOOT_LISTENER_TCP],
        [LISTENER_TEXT] = boot->listeners[BOOT_LISTENER_TEXT],
        [KEPT] = boot->kept_handle,     /* no rule has it: it may be closed */
        [REPLIES_BELL] = has_file ? boot->shared.replies_bell[1] : -1,
        [REPLIES_RINGS] = has_file ? boot->shared.replies_bell[0] : -1,
        [REPLIES_FILE] = has_file ? boot->replies_handle : -1,
        [POCKETS] = boot->pockets.first,
        [POCKETS_END] = boot->pockets.first + 2 * (int)boot->pockets.count,
    };
    heap_seal();
    if (!IS_SEALED) {
        log_event(LOG_WARN, "not sealed: a build with sanitizers");
        return BOOT_EXIT_OK;
    }
    return load_filter(role, descriptors);
}
