/* SPDX-License-Identifier: MIT */
#include "tools/sdk/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "config/base/assert.h"
#include "config/address.h"

/*
 * What: connect, send, receive and wait on one non-blocking socket; errno ends here, but for the
 * cause of a connection that was not made.
 *
 * Bounds: only agx_socket_wait() and connecting wait, both up to a deadline. Names are never looked
 * up, because that allocates, blocks and reads files.
 * Why not SO_RCVTIMEO: a timeout for each system call is not a deadline for the whole.
 */

#define FULL_BACKLOG_PAUSE_MS 10

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

uint64_t agx_socket_deadline(int timeout_ms)
{
    return timeout_ms < 0 ? UINT64_MAX : now_ms() + (uint64_t)timeout_ms;
}

/* For poll(): -1 is for ever; at least 1 before the deadline, so that waiting never spins. */
static int left_ms(uint64_t deadline_ms)
{
    uint64_t now = now_ms();
    if (deadline_ms == UINT64_MAX) {
        return -1;
    }
    if (now >= deadline_ms) {
        return 0;
    }
    return deadline_ms - now < 1000000 ? (int)(deadline_ms - now) : 1000000;
}

enum agx_result agx_socket_wait(int descriptor, short events, uint64_t deadline_ms)
{
    struct pollfd watched = {.fd = descriptor, .events = events};
    for (;;) {
        int timeout = left_ms(deadline_ms);
        int ready = poll(&watched, 1, timeout);
        if (ready > 0) {
            return AGX_OK;
        }
        if (ready < 0 && errno != EINTR) {
            return AGX_ERROR_SYSTEM;
        }
        if (timeout == 0) {
            return AGX_AGAIN;
        }
    }
}

void agx_socket_pause(uint64_t until_ms)
{
    int timeout;
    while ((timeout = left_ms(until_ms)) > 0) {
        poll(NULL, 0, timeout);
    }
}

/* ---- connecting ------------------------------------------------------------------------------ */

struct target {
    union {
        struct sockaddr any;
        struct sockaddr_un local;
        struct sockaddr_storage storage;
    } address;
    socklen_t bytes;
};

static bool target_local(const char *path, struct target *target)
{
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof target->address.local.sun_path) {
        return false;
    }
    target->address.local.sun_family = AF_UNIX;
    memcpy(target->address.local.sun_path, path, length);
    target->bytes = sizeof target->address.local;
    return true;
}

static bool target_parse(const char *address, struct target *target)
{
    struct config_address numeric;
    memset(target, 0, sizeof *target);
    if (strncmp(address, "unix:", 5) == 0) {
        return target_local(address + 5, target);
    }
    if (config_address_parse(address, &numeric) != STATUS_OK || numeric.port == 0) {
        return false;
    }
    target->bytes = config_address_to_socket(&numeric, &target->address.storage);
    return true;
}

/* A unix socket answers EAGAIN while its backlog is full; no event says when to try again. */
static enum agx_result start_connect(int descriptor, const struct target *target,
                                     uint64_t deadline_ms)
{
    while (connect(descriptor, &target->address.any, target->bytes) != 0) {
        if (errno == EINPROGRESS || errno == EINTR) {
            return AGX_AGAIN;
        }
        if (errno != EAGAIN || left_ms(deadline_ms) == 0) {
            return AGX_ERROR_CONNECT;
        }
        poll(NULL, 0, FULL_BACKLOG_PAUSE_MS);
    }
    return AGX_OK;
}

static enum agx_result finish_connect(int descriptor, uint64_t deadline_ms)
{
    int error = 0;
    socklen_t bytes = sizeof error;
    enum agx_result result = agx_socket_wait(descriptor, POLLOUT, deadline_ms);
    if (result == AGX_AGAIN) {
        errno = ETIMEDOUT;
        return AGX_ERROR_CONNECT;
    }
    if (result != AGX_OK || getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) {
        return AGX_ERROR_SYSTEM;
    }
    errno = error;
    return error == 0 ? AGX_OK : AGX_ERROR_CONNECT;
}

enum agx_result agx_socket_connect(const char *address, uint64_t deadline_ms, int *descriptor)
{
    struct target target;
    int one = 1;
    if (!target_parse(address, &target)) {
        return AGX_ERROR_ADDRESS;
    }
    int fresh = socket(target.address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fresh < 0) {
        return AGX_ERROR_SYSTEM;
    }
    if (target.address.any.sa_family != AF_UNIX) {
        /* A request is one small frame; waiting for more bytes would only delay it. */
        (void)setsockopt(fresh, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
    enum agx_result result = start_connect(fresh, &target, deadline_ms);
    if (result == AGX_AGAIN) {
        result = finish_connect(fresh, deadline_ms);
    }
    if (result != AGX_OK) {
        int cause = errno;
        close(fresh);
        errno = cause;
        return result;
    }
    *descriptor = fresh;
    return AGX_OK;
}

enum agx_result agx_socket_adopt(int descriptor)
{
    int flags = fcntl(descriptor, F_GETFL);
    return flags >= 0 && fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) == 0 ? AGX_OK
                                                                           : AGX_ERROR_SYSTEM;
}

enum agx_result agx_socket_entropy(uint8_t *bytes, uint32_t count)
{
    ASSERT(count <= 256);               /* up to here getrandom() gives all or nothing */
    return getrandom(bytes, count, 0) == (ssize_t)count ? AGX_OK : AGX_ERROR_SYSTEM;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static enum agx_result moved_result(ssize_t count, uint32_t *moved)
{
    *moved = count > 0 ? (uint32_t)count : 0;
    if (count > 0) {
        return AGX_OK;
    }
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ||
                      errno == ENOBUFS)) {
        return AGX_AGAIN;
    }
    bool is_ours = count < 0 && (errno == EBADF || errno == EFAULT || errno == EINVAL ||
                                 errno == ENOTSOCK);
    return is_ours ? AGX_ERROR_SYSTEM : AGX_ERROR_CLOSED;   /* a lost route, too, can be resumed */
}

enum agx_result agx_socket_receive(int descriptor, uint8_t *bytes, uint32_t max, uint32_t *moved)
{
    ASSERT(max > 0);
    return moved_result(recv(descriptor, bytes, max, 0), moved);
}

enum agx_result agx_socket_send(int descriptor, const uint8_t *bytes, uint32_t count,
                                uint32_t *moved)
{
    ASSERT(count > 0);
    return moved_result(send(descriptor, bytes, count, MSG_NOSIGNAL), moved);
}
