/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the keeper's reports to the service manager that has started it (systemd, Type=notify): one
 * datagram each to the socket that $NOTIFY_SOCKET names. Without that variable nothing is sent.
 *
 *   EXTEND_TIMEOUT_USEC  while the model is read, with each percent of it
 *   READY=1              whenever health becomes ready
 *   WATCHDOG=1           when the engines have moved, or had nothing to do, since the last one;
 *                        only if $WATCHDOG_USEC is set. An idle appliance is looked at four times
 *                        in that time, at least
 *   STATUS=              the first word of health, when that changes
 *   STOPPING=1           at SIGTERM
 *
 * Never waits: a datagram that the manager has no room for is sent again later.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/un.h>

#include "appliance/control.h"

struct notify {
    bool is_muted;                  /* another process is the service still */
    int handle;                     /* -1: there is no service manager */
    struct sockaddr_un address;
    uint32_t address_bytes;
    uint64_t watchdog_us;           /* within which it is to be fed; 0: there is none */
    uint32_t progress, health;      /* of the control page, as last told */
    uint32_t percent;               /* as last told; UINT32_MAX: none yet */
    bool is_stopping;               /* told */
};

/* Reads the environment, opens the socket. An address that is neither form is logged. */
void notify_open(struct notify *notify);
/* In a child: the socket is the keeper's alone. */
void notify_close(struct notify *notify);
/* How long an appliance that has nothing to do may sleep. */
uint64_t notify_idle_us(const struct notify *notify);
void notify_loading(struct notify *notify, uint32_t permille);
/* Another process is the service from now on. */
void notify_successor(const struct notify *notify, int32_t pid);
/* Reports what has changed on the control page since the last call. */
void notify_tick(struct notify *notify, const struct control *control);
