/* SPDX-License-Identifier: MIT */
/*
 * What: struct world over Linux. errno ends here: callers see counts, WORLD_E* or events.
 * Invariant: after boot only epoll_wait, epoll_ctl, accept4, recv, send, sendmsg, close,
 * setsockopt, getsockopt, getrandom, clock_gettime, futex, and read of the bells are called; seal.c
 * enforces that.
 * Owner: the core's one thread.
 */
#include "appliance/world_linux.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "appliance/clock.h"
#include "config/base/assert.h"
#include "config/address.h"

#define KERNEL_SEND_BYTES 16384     /* the kernel doubles it */

static uint64_t now_us(void *self)
{
    return clock_us(CLOCK_MONOTONIC);
}

static uint64_t wall_us(void *self)
{
    return clock_us(CLOCK_REALTIME);
}

static uint64_t tag_of(enum world_source source, uint32_t index)
{
    return (uint64_t)source << 32 | index;
}

/* Milliseconds for epoll_wait, rounded up so that a deadline has passed when it returns. */
static int timeout_ms_ceil(uint64_t now, uint64_t until_us)
{
    if (until_us == UINT64_MAX) {
        return -1;
    }
    if (until_us <= now) {
        return 0;
    }
    uint64_t ms = (until_us - now + 999) / 1000;
    return ms > 60000 ? 60000 : (int)ms;
}

static uint32_t ready_from_epoll(uint32_t events)
{
    uint32_t ready = 0;
    ready |= (events & (EPOLLIN | EPOLLRDHUP)) ? WORLD_READABLE : 0;
    ready |= (events & EPOLLOUT) ? WORLD_WRITABLE : 0;
    ready |= (events & (EPOLLERR | EPOLLHUP)) ? WORLD_HANGUP : 0;
    return ready;
}

static uint32_t wait_events(void *self, struct world_event *events, uint32_t max,
                            uint64_t until_us)
{
    struct world_linux *linux_world = self;
    struct epoll_event raw[WORLD_EVENTS_MAX];
    ASSERT(max > 0 && max <= WORLD_EVENTS_MAX);
    int count = epoll_wait(linux_world->epoll, raw, (int)max,
                           timeout_ms_ceil(now_us(self), until_us));
    uint32_t events_count = 0;
    for (int i = 0; i < count; i++) {
        struct world_event *event = &events[events_count++];
        event->source = (enum world_source)(raw[i].data.u64 >> 32);
        event->index = (uint32_t)raw[i].data.u64;
        event->ready = ready_from_epoll(raw[i].events);
        if (event->source == WORLD_SOURCE_ENGINE) {
            control_hush(linux_world->shared.engine_bell);
        } else if (event->source == WORLD_SOURCE_CONTROL) {
            control_hush(linux_world->shared.control_bell);
        }
    }
    return events_count;
}

/* ---- peers ----------------------------------------------------------------------------------- */

static void identify_local(int handle, struct world_peer *peer)
{
    struct ucred process;
    socklen_t bytes = sizeof process;
    bool known = getsockopt(handle, SOL_SOCKET, SO_PEERCRED, &process, &bytes) == 0;
    peer->kind = WORLD_PEER_LOCAL;
    peer->uid = known ? process.uid : UINT32_MAX;       /* no user: no list can hold it */
    peer->gids[0] = known ? process.gid : UINT32_MAX;
    peer->gids_count = 1;
    bytes = sizeof peer->gids - sizeof peer->gids[0];
    if (known && getsockopt(handle, SOL_SOCKET, SO_PEERGROUPS, peer->gids + 1, &bytes) == 0) {
        peer->gids_count += bytes / (uint32_t)sizeof peer->gids[0];
    }
}

static void identify(int handle, const struct sockaddr_storage *from, struct world_peer *peer)
{
    *peer = (struct world_peer){0};
    if (from->ss_family == AF_INET) {
        uint8_t ip[16] = {[10] = 0xff, [11] = 0xff};
        memcpy(ip + 12, &((const struct sockaddr_in *)from)->sin_addr, 4);
        config_peer_from_ip(peer, ip);
    } else if (from->ss_family == AF_INET6) {
        /* A listener on [::] takes IPv4 too and shows it as ::ffff:A.B.C.D. */
        config_peer_from_ip(peer, ((const struct sockaddr_in6 *)from)->sin6_addr.s6_addr);
    } else {
        identify_local(handle, peer);
    }
}

static int32_t accept_peer(void *self, int32_t listener, struct world_peer *peer)
{
    struct sockaddr_storage from = {.ss_family = AF_UNIX};
    socklen_t from_bytes = sizeof from;
    int handle = accept4(listener, (struct sockaddr *)&from, &from_bytes,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (handle < 0) {
        bool full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
        return full ? WORLD_EFULL : WORLD_EAGAIN;
    }
    /* Here it can be refused; later watch() only changes what exists. */
    struct epoll_event nothing = {.events = 0};
    if (epoll_ctl(((struct world_linux *)self)->epoll, EPOLL_CTL_ADD, handle, &nothing) != 0) {
        close(handle);
        return WORLD_EFULL;
    }
    int on = 1;     /* fails on a unix socket, which does not need it */
    setsockopt(handle, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    /* So that a reader that stops is noticed before the kernel has buffered megabytes. */
    int send_bytes_max = KERNEL_SEND_BYTES;
    setsockopt(handle, SOL_SOCKET, SO_SNDBUF, &send_bytes_max, sizeof send_bytes_max);
    identify(handle, &from, peer);
    return handle;
}

static void watch(void *self, int32_t handle, enum world_source source, uint32_t index,
                  uint32_t interest)
{
    struct world_linux *linux_world = self;
    struct epoll_event event = {.data.u64 = tag_of(source, index)};
    event.events = ((interest & WORLD_READABLE) ? EPOLLIN : 0u) |
                   ((interest & WORLD_WRITABLE) ? EPOLLOUT : 0u);
    int rc = epoll_ctl(linux_world->epoll, EPOLL_CTL_MOD, handle, &event);
    if (rc < 0 && errno == ENOENT) {
        rc = epoll_ctl(linux_world->epoll, EPOLL_CTL_ADD, handle, &event);
    }
    ASSERT(rc == 0);
}

static int64_t result_of(ssize_t count)
{
    if (count >= 0) {
        return count;
    }
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ENOBUFS
               ? WORLD_EAGAIN
               : WORLD_ECLOSED;
}

static int64_t recv_bytes(void *self, int32_t handle, void *bytes, uint32_t max)
{
    return result_of(recv(handle, bytes, max, MSG_DONTWAIT));
}

static int64_t send_bytes(void *self, int32_t handle, const void *bytes, uint32_t count)
{
    return result_of(send(handle, bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL));
}

/* A core that has yielded may still have the connection while it ends: as long as anybody has, the
 * kernel goes on to tell of what is watched. */
static void close_handle(void *self, int32_t handle)
{
    (void)epoll_ctl(((struct world_linux *)self)->epoll, EPOLL_CTL_DEL, handle, NULL);
    close(handle);
}

/* ---- for a successor ------------------------------------------------------------------------- */

static bool keep(void *self, int32_t handle, uint32_t index)
{
    return pocket_keep(&((struct world_linux *)self)->pockets, handle, index);
}

static void forget(void *self, uint32_t index)
{
    pocket_forget(&((struct world_linux *)self)->pockets, index);
}

static int32_t recall(void *self, uint32_t index, struct world_kept *kept)
{
    return pocket_recall(&((struct world_linux *)self)->pockets, index, kept);
}

static void entropy(void *self, void *bytes, uint32_t count)
{
    uint32_t have = 0;
    while (have < count) {
        ssize_t got = getrandom((uint8_t *)bytes + have, count - have, 0);
        have += got > 0 ? (uint32_t)got : 0;
    }
}

/* ---- engines --------------------------------------------------------------------------------- */

static struct control_engine *control_of(const struct world_linux *linux_world, uint32_t engine)
{
    ASSERT(engine < linux_world->shared.control->engines_count);
    return &linux_world->shared.control->engines[engine];
}

static void engine_submit(void *self, uint32_t engine)
{
    struct world_linux *linux_world = self;
    control_submit(&linux_world->engines[engine], control_of(linux_world, engine));
}

static enum world_engine engine_poll(void *self, uint32_t engine)
{
    struct world_linux *linux_world = self;
    const struct step step = step_at(&linux_world->step, engine);
    return control_poll(&linux_world->engines[engine], control_of(linux_world, engine), &step);
}

static void engine_condemn(void *self, uint32_t engine, enum world_fault fault)
{
    static const enum control_failure failures[] = {
        [WORLD_FAULT_WRONG] = CONTROL_WRONG, [WORLD_FAULT_LATE] = CONTROL_HUNG,
        [WORLD_FAULT_INCONSISTENT] = CONTROL_INCONSISTENT};
    struct world_linux *linux_world = self;
    control_condemn(&linux_world->engines[engine], control_of(linux_world, engine),
                    failures[fault]);
}

static void engine_ask(void *self, uint32_t engine)
{
    control_ask(control_of(self, engine));
}

static uint64_t engine_heartbeat(void *self, uint32_t engine)
{
    return control_of(self, engine)->heartbeat;
}

enum status world_linux_init(struct world_linux *linux_world, const struct shared *shared,
                             const struct step *step, const struct pockets *pockets)
{
    ASSERT(shared->control->engines_count <= WORLD_ENGINES_MAX);
    *linux_world = (struct world_linux){.shared = *shared, .step = *step, .pockets = *pockets};
    linux_world->world = (struct world){
        .self = linux_world,
        .now_us = now_us,
        .wall_us = wall_us,
        .wait = wait_events,
        .accept = accept_peer,
        .watch = watch,
        .recv = recv_bytes,
        .send = send_bytes,
        .close = close_handle,
        .keep = keep,
        .forget = forget,
        .recall = recall,
        .entropy = entropy,
        .engine_submit = engine_submit,
        .engine_poll = engine_poll,
        .engine_condemn = engine_condemn,
        .engine_ask = engine_ask,
        .engine_heartbeat = engine_heartbeat,
    };
    for (uint32_t i = 0; i < shared->control->engines_count; i++) {
        control_adopt(&linux_world->engines[i], &shared->control->engines[i]);
    }
    linux_world->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (linux_world->epoll < 0) {
        return STATUS_DEVICE_IO;
    }
    watch(linux_world, shared->engine_bell, WORLD_SOURCE_ENGINE, 0, WORLD_READABLE);
    watch(linux_world, shared->control_bell, WORLD_SOURCE_CONTROL, 0, WORLD_READABLE);
    return STATUS_OK;
}
