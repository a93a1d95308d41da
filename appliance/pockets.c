/* SPDX-License-Identifier: MIT */
/*
 * What: handles in messages between two sockets of one process (unix(7), SCM_RIGHTS).
 *
 * How many bytes of a TCP connection have moved follows from two numbers of the kernel in each
 * direction: what the other end has acknowledged and what waits here to be; what has come and what
 * waits to be read. Both change at any time, so they are read until they agree.
 */
#include "appliance/pockets.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "appliance/log.h"

#define FIRST     16                /* what is open at boot lies below, more or less */
#define OTHERS    128               /* of keeper and core, places of the text port among them */
#define READS_MAX 1000
#define TCP_STATE_ESTABLISHED 1     /* in another one bytes are counted that are none */

/* ---- the pairs ------------------------------------------------------------------------------- */

static int end_of(const struct pockets *pockets, uint32_t index, int end)
{
    return pockets->first + 2 * (int)index + end;
}

/* As many as there is room for below the limit of descriptors, which is raised if it can be. */
static uint32_t count_that_fits(uint32_t count)
{
    struct rlimit limit = {.rlim_cur = 0};
    rlim_t others = FIRST + OTHERS;
    getrlimit(RLIMIT_NOFILE, &limit);
    rlim_t wanted = others + 3 * (rlim_t)count;     /* and the connections */
    if (limit.rlim_cur < wanted) {
        limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    rlim_t room = limit.rlim_cur > others + count ? limit.rlim_cur - others - count : 0;
    return room / 2 < count ? (uint32_t)(room / 2) : count;
}

/* Onto its two places; where these are open, to something else from now on. */
static bool open_pair(const struct pockets *pockets, uint32_t index, bool are_open)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) {
        return false;
    }
    bool is_placed = true;
    for (int end = 0; end < 2; end++) {
        int wanted = end_of(pockets, index, end);
        if (are_open) {
            close(wanted);
        }
        is_placed = is_placed && fcntl(pair[end], F_DUPFD_CLOEXEC, wanted) == wanted;
        close(pair[end]);
    }
    return is_placed;
}

void pockets_open(struct pockets *pockets, uint32_t count)
{
    uint32_t fits = count_that_fits(count < POCKETS_MAX ? count : POCKETS_MAX);
    *pockets = (struct pockets){.first = FIRST};
    while (pockets->count < fits && open_pair(pockets, pockets->count, false)) {
        pockets->count++;
    }
    if (pockets->count < count) {
        log_event(LOG_WARN, "limits.connections = %u: %u of them can outlive a core that dies, for "
                  "more there are no descriptors (ulimit -n)", count, pockets->count);
    }
}

bool pockets_renew(const struct pockets *pockets)
{
    uint32_t renewed = 0;
    while (renewed < pockets->count && open_pair(pockets, renewed, true)) {
        renewed++;
    }
    return renewed == pockets->count;
}

void pockets_forget(const struct pockets *pockets)
{
    for (uint32_t i = 0; i < pockets->count; i++) {
        close(end_of(pockets, i, 0));
        close(end_of(pockets, i, 1));
    }
}

/* ---- one of them ----------------------------------------------------------------------------- */

union handle_room {                 /* of a message with one handle */
    struct cmsghdr head;
    uint8_t bytes[CMSG_SPACE(sizeof(int))];
};

bool pocket_keep(const struct pockets *pockets, int32_t handle, uint32_t index)
{
    union handle_room room = {.bytes = {0}};
    uint8_t nothing = 0;
    struct iovec byte = {.iov_base = &nothing, .iov_len = 1};
    const struct msghdr message = {.msg_iov = &byte, .msg_iovlen = 1, .msg_control = room.bytes,
                                   .msg_controllen = sizeof room.bytes};
    if (index >= pockets->count) {
        return false;
    }
    room.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof handle), .cmsg_level = SOL_SOCKET,
                                 .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&room.head), &handle, sizeof handle);
    return sendmsg(end_of(pockets, index, 0), &message, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
}

/* A message that is received without room for its handle loses it. */
void pocket_forget(const struct pockets *pockets, uint32_t index)
{
    uint8_t nothing;
    if (index < pockets->count) {
        (void)recv(end_of(pockets, index, 1), &nothing, 1, MSG_DONTWAIT);
    }
}

/* ---- for a successor ------------------------------------------------------------------------- */

static bool read_tcp(int handle, struct tcp_info *info, struct world_kept *kept)
{
    int unread = 0, unacknowledged = 0;
    socklen_t bytes = sizeof *info;
    bool is_read = getsockopt(handle, IPPROTO_TCP, TCP_INFO, info, &bytes) == 0 &&
                   bytes >= offsetof(struct tcp_info, tcpi_segs_out) &&
                   ioctl(handle, SIOCINQ, &unread) == 0 &&
                   ioctl(handle, SIOCOUTQ, &unacknowledged) == 0;
    kept->taken = info->tcpi_bytes_received - (uint64_t)unread;
    kept->sent = info->tcpi_bytes_acked + (uint64_t)unacknowledged;
    return is_read;
}

/* Nothing can change when both numbers of the kernel are the same before and after the others. */
static void count_bytes(int handle, struct world_kept *kept)
{
    *kept = (struct world_kept){.is_exact = false};
    for (int i = 0; i < READS_MAX && !kept->is_exact; i++) {
        struct tcp_info before = {0}, after = {0};
        struct world_kept later;
        if (!read_tcp(handle, &before, kept) || !read_tcp(handle, &after, &later) ||
            before.tcpi_state != TCP_STATE_ESTABLISHED) {
            return;
        }
        kept->is_exact = before.tcpi_bytes_received == after.tcpi_bytes_received &&
                         before.tcpi_bytes_acked == after.tcpi_bytes_acked &&
                         after.tcpi_state == TCP_STATE_ESTABLISHED;
    }
}

int32_t pocket_recall(const struct pockets *pockets, uint32_t index, struct world_kept *kept)
{
    union handle_room room = {.bytes = {0}};
    uint8_t nothing;
    int32_t handle = -1;
    struct iovec byte = {.iov_base = &nothing, .iov_len = 1};
    struct msghdr message = {.msg_iov = &byte, .msg_iovlen = 1, .msg_control = room.bytes,
                             .msg_controllen = sizeof room.bytes};
    if (index >= pockets->count || recvmsg(end_of(pockets, index, 1), &message,
                                           MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != 1 ||
        message.msg_controllen < CMSG_LEN(sizeof handle) ||
        room.head.cmsg_len != CMSG_LEN(sizeof handle)) {
        return WORLD_ECLOSED;
    }
    memcpy(&handle, CMSG_DATA(&room.head), sizeof handle);
    count_bytes(handle, kept);
    return handle;
}
