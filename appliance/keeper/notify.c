/* SPDX-License-Identifier: MIT */
/*
 * What: the protocol of sd_notify(3). It is a page of text, so no library is needed.
 * Invariant: values of the control page are only taken as numbers in a range: an attacker may have
 * taken over the core that writes them.
 * Owner: the keeper.
 */
#include "appliance/keeper/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "appliance/health.h"
#include "appliance/log.h"

#define LOADING_PATIENCE_US UINT64_C(60000000)  /* for a percent of the model */
#define IDLE_US_MAX         UINT64_C(2000000)   /* core, keeper and worker together: 1.5 wake-ups
                                                   a second */

/* "/path", or "@name" in the abstract name space. */
static bool address_from_text(struct notify *notify, const char *text)
{
    size_t length = strlen(text);
    bool is_abstract = text[0] == '@';
    if ((text[0] != '/' && !is_abstract) || length >= sizeof notify->address.sun_path) {
        return false;
    }
    notify->address.sun_family = AF_UNIX;
    memcpy(notify->address.sun_path, text, length);
    if (is_abstract) {
        notify->address.sun_path[0] = '\0';
    }
    notify->address_bytes = (uint32_t)(offsetof(struct sockaddr_un, sun_path) + length);
    return true;
}

/* 0 unless $WATCHDOG_PID names this process, or is not set. */
static uint64_t own_watchdog_us(void)
{
    const char *time = getenv("WATCHDOG_USEC");
    const char *pid = getenv("WATCHDOG_PID");
    bool is_ours = time != NULL && (pid == NULL || strtol(pid, NULL, 10) == getpid());
    return is_ours ? strtoull(time, NULL, 10) : 0;
}

void notify_open(struct notify *notify)
{
    const char *path = getenv("NOTIFY_SOCKET");
    *notify = (struct notify){.handle = -1, .health = HEALTH_STARTING, .percent = UINT32_MAX};
    if (path == NULL) {
        return;
    }
    if (!address_from_text(notify, path)) {
        log_event(LOG_WARN, "NOTIFY_SOCKET=%s: neither a path nor an abstract name", path);
        return;
    }
    notify->watchdog_us = own_watchdog_us();
    notify->handle = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (notify->handle < 0) {
        log_event(LOG_WARN, "NOTIFY_SOCKET=%s: %s", path, strerror(errno));
    }
}

uint64_t notify_idle_us(const struct notify *notify)
{
    bool hurries = notify->watchdog_us > 0 && notify->watchdog_us / 4 < IDLE_US_MAX;
    return hurries ? notify->watchdog_us / 4 : IDLE_US_MAX;
}

void notify_close(struct notify *notify)
{
    if (notify->handle >= 0) {
        close(notify->handle);
        notify->handle = -1;
    }
}

/* False when it was not sent. */
static bool tell(const struct notify *notify, const char *text)
{
    return notify->handle >= 0 && !notify->is_muted &&
           sendto(notify->handle, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL,
                  (const struct sockaddr *)&notify->address, notify->address_bytes) >= 0;
}

void notify_loading(struct notify *notify, uint32_t permille)
{
    char text[80];
    uint32_t percent = permille / 10;
    snprintf(text, sizeof text, "STATUS=loading model %u%%\nEXTEND_TIMEOUT_USEC=%llu", percent,
             (unsigned long long)LOADING_PATIENCE_US);
    if (percent != notify->percent && tell(notify, text)) {
        notify->percent = percent;
    }
}

static bool tell_health(const struct notify *notify, enum health_state health)
{
    char text[40];
    snprintf(text, sizeof text, "%sSTATUS=%s", health == HEALTH_READY ? "READY=1\n" : "",
             health_name(health));
    return tell(notify, text);
}

void notify_successor(const struct notify *notify, int32_t pid)
{
    char text[40];
    snprintf(text, sizeof text, "MAINPID=%d", (int)pid);
    (void)tell(notify, text);
}

void notify_tick(struct notify *notify, const struct control *control)
{
    uint32_t health = atomic_load(&control->health);
    uint32_t progress = atomic_load(&control->progress);
    uint32_t stop = atomic_load(&control->stop);
    if ((stop == CONTROL_DRAIN || stop == CONTROL_STOP_NOW) && !notify->is_stopping) {
        notify->is_stopping = tell(notify, "STOPPING=1");
    }
    if (health != notify->health && health <= HEALTH_FAILED &&
        tell_health(notify, (enum health_state)health)) {
        notify->health = health;
    }
    if (notify->watchdog_us > 0 && progress != notify->progress && tell(notify, "WATCHDOG=1")) {
        notify->progress = progress;
    }
}
