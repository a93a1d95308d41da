/* SPDX-License-Identifier: MIT */
/*
 * What: bind and listen, before anything slow, so that a second instance on an address fails at
 * once. A path that a dead instance has left is taken over; one that answers is not. A socket that
 * the service manager has opened is used instead of a new one (inherited.c); its path is not ours.
 */
#include "appliance/boot/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "appliance/boot/inherited.h"
#include "appliance/log.h"
#include "config/address.h"

#define TEXT_BACKLOG      128
#define KEEPALIVE_EVERY_S 3

/* What to do about it: the system says only what is so. */
static const char *hint_of(int cause)
{
    switch (cause) {
    case EAFNOSUPPORT:
        return " (under systemd: ListenStream= of the .socket unit)";
    case EADDRINUSE:
        return "; another instance or program has it (ss -lp shows which): stop that one, set "
               "another address here, or take over from an appliance with --upgrade";
    case EADDRNOTAVAIL:
        return "; no interface of this machine has this address";
    case EACCES:
        return "; this user may not: another port (from 1024) or folder, or another user";
    case ENOENT:
        return "; the folder of the socket must exist";
    default:
        return "";
    }
}

static enum boot_exit fail(const char *key, const char *value, const char *what)
{
    log_event(LOG_ERROR, "boot failed: %s = %s: %s: %s%s", key, value, what, strerror(errno),
              hint_of(errno));
    return BOOT_EXIT_LISTEN;
}

static void unix_address(struct sockaddr_un *address, const char *path)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path, path, strlen(path));
}

/* True when no process answers at the path, so that it may be removed. */
static bool unix_path_is_stale(const struct sockaddr_un *address)
{
    struct stat stat_buffer;
    if (lstat(address->sun_path, &stat_buffer) != 0 || !S_ISSOCK(stat_buffer.st_mode)) {
        return false;
    }
    /* Must not wait: a live instance with a full backlog would block the boot. */
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int rc = connect(probe, (const struct sockaddr *)address, sizeof *address);
    bool refused = rc != 0 && errno == ECONNREFUSED;
    close(probe);
    return refused;
}

/* The path may be removed only while it is still the socket that this instance bound. */
static struct stat unix_file;
static bool is_borrowed;                /* and only once the other one has given it up */

/* As if the user had bound it, so that its group may connect. Who is that user already is spared
 * the call: a filter of the service manager may end it. */
static bool give_path(const char *path, const struct config_user *user)
{
    return !user->is_named || user->uid == geteuid() || lchown(path, user->uid, user->gid) == 0;
}

static enum boot_exit open_unix(const char *path, const struct config_user *user, int backlog,
                                int *listener)
{
    struct sockaddr_un address;
    unix_address(&address, path);
    *listener = inherited_take((const struct sockaddr *)&address, backlog);
    if (*listener >= 0) {
        log_event(LOG_INFO, "listening net.unix=%s inherited", path);
        return BOOT_EXIT_OK;
    }
    if (unix_path_is_stale(&address)) {
        unlink(path);
    }
    int handle = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    mode_t mask = umask(0117);      /* 0660: owner and group */
    int rc = handle < 0 ? -1 : bind(handle, (struct sockaddr *)&address, sizeof address);
    umask(mask);
    if (rc != 0) {
        return fail("net.unix", path, "cannot bind");
    }
    (void)lstat(path, &unix_file);
    if (!give_path(path, user)) {
        return fail("net.unix", path, "cannot be given to appliance.user");
    }
    if (listen(handle, backlog) != 0) {
        return fail("net.unix", path, "cannot listen");
    }
    *listener = handle;
    log_event(LOG_INFO, "listening net.unix=%s", path);
    return BOOT_EXIT_OK;
}

static void log_inet(const char *key, int handle)
{
    struct sockaddr_storage storage;
    socklen_t length = sizeof storage;
    char text[INET6_ADDRSTRLEN] = "?";
    unsigned port = 0;
    getsockname(handle, (struct sockaddr *)&storage, &length);
    if (storage.ss_family == AF_INET) {
        const struct sockaddr_in *address = (const struct sockaddr_in *)&storage;
        inet_ntop(AF_INET, &address->sin_addr, text, sizeof text);
        port = ntohs(address->sin_port);
        log_event(LOG_INFO, "listening %s=%s:%u", key, text, port);
    } else {
        const struct sockaddr_in6 *address = (const struct sockaddr_in6 *)&storage;
        inet_ntop(AF_INET6, &address->sin6_addr, text, sizeof text);
        port = ntohs(address->sin6_port);
        log_event(LOG_INFO, "listening %s=[%s]:%u", key, text, port);
    }
}

static enum boot_exit open_inet(const char *key, const char *value, int backlog, int *listener)
{
    struct config_address parsed;
    struct sockaddr_storage storage;
    enum status status = config_address_parse(value, &parsed);
    if (status != STATUS_OK) {
        log_event(LOG_ERROR, "boot failed: %s = %s: %s", key, value, status_text(status));
        return BOOT_EXIT_CONFIG;
    }
    socklen_t length = config_address_to_socket(&parsed, &storage);
    *listener = inherited_take((const struct sockaddr *)&storage, backlog);
    if (*listener >= 0) {
        log_inet(key, *listener);
        return BOOT_EXIT_OK;
    }
    int handle = socket(storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int on = 1;
    if (handle < 0 || setsockopt(handle, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(handle, (struct sockaddr *)&storage, length) != 0) {
        return fail(key, value, "cannot bind");
    }
    if (listen(handle, backlog) != 0) {
        return fail(key, value, "cannot listen");
    }
    *listener = handle;
    log_inet(key, handle);
    return BOOT_EXIT_OK;
}

/* Connections inherit these from their listener, so that dead peers hold nothing. */
static enum boot_exit find_dead_peers(const struct options *options, int listener)
{
    int on = 1, every_s = KEEPALIVE_EVERY_S;
    int idle_s = (int)(options->net_keepalive.number / 1000000);
    unsigned timeout_ms = (unsigned)(options->net_user_timeout.number / 1000);
    if (setsockopt(listener, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on) != 0 ||
        setsockopt(listener, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s) != 0 ||
        setsockopt(listener, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof every_s) != 0 ||
        setsockopt(listener, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof timeout_ms) != 0) {
        return fail("net.tcp", options->net_tcp.text, "cannot set timeouts");
    }
    return BOOT_EXIT_OK;
}

static enum boot_exit open_tcp(const struct options *options, int backlog, int *listener)
{
    enum boot_exit exit_status = open_inet("net.tcp", options->net_tcp.text, backlog, listener);
    return exit_status == BOOT_EXIT_OK ? find_dead_peers(options, *listener) : exit_status;
}

static enum boot_exit open_all(struct boot *boot)
{
    const struct options *options = &boot->options;
    enum boot_exit exit_status = BOOT_EXIT_OK;
    int backlog = (int)options->net_backlog.number;
    for (uint32_t i = 0; i < BOOT_LISTENERS; i++) {
        boot->listeners[i] = -1;
    }
    if (options->net_unix.text[0] != '\0') {
        exit_status = open_unix(options->net_unix.text, &boot->user, backlog,
                                &boot->listeners[BOOT_LISTENER_UNIX]);
    }
    if (exit_status == BOOT_EXIT_OK && options->net_tcp.text[0] != '\0') {
        exit_status = open_tcp(options, backlog, &boot->listeners[BOOT_LISTENER_TCP]);
    }
    if (exit_status == BOOT_EXIT_OK && options->text_listen.text[0] != '\0') {
        exit_status = open_inet("text.listen", options->text_listen.text, TEXT_BACKLOG,
                                &boot->listeners[BOOT_LISTENER_TEXT]);
    }
    return exit_status;
}

enum boot_exit listen_open(struct boot *boot)
{
    enum boot_exit exit_status = open_all(boot);
    inherited_close_rest();
    if (exit_status != BOOT_EXIT_OK) {
        listen_remove(boot);
    } else if (boot->listeners[BOOT_LISTENER_UNIX] < 0 && boot->listeners[BOOT_LISTENER_TCP] < 0) {
        log_event(LOG_WARN, "net.unix and net.tcp are both off: no client can connect");
    }
    return exit_status;
}

void listen_forget(struct boot *boot)
{
    for (uint32_t i = 0; i < BOOT_LISTENERS; i++) {
        if (boot->listeners[i] >= 0) {
            close(boot->listeners[i]);
            boot->listeners[i] = -1;
        }
    }
}

const char *listen_path(const struct boot *boot)
{
    return unix_file.st_ino != 0 ? boot->options.net_unix.text : "";
}

void listen_remove(const struct boot *boot)
{
    struct stat now;
    const char *path = listen_path(boot);
    if (!is_borrowed && path[0] != '\0' && lstat(path, &now) == 0 &&
        now.st_dev == unix_file.st_dev && now.st_ino == unix_file.st_ino) {
        unlink(path);
    }
}

void listen_borrow(const struct boot *boot)
{
    is_borrowed = lstat(boot->options.net_unix.text, &unix_file) == 0;
}

void listen_own(void)
{
    is_borrowed = false;
}

void listen_disown(void)
{
    unix_file = (struct stat){.st_ino = 0};
}
