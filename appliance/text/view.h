/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the sources of the text port's answers. */
#include <stdint.h>

#include "config/base/call.h"
#include "config/base/event_log.h"
#include "config/base/stats.h"
#include "appliance/health.h"
#include "config/config.h"
#include "net/net.h"
#include "sched/sched.h"

/* Read only, valid during textport_poll(). */
struct textport_view {
    const struct stats *stats;
    const struct sched *sched;
    const struct net *net;
    const struct call_table *calls;
    const struct event_log *event_log;
    const struct options *options;
    const struct limits *limits;
    const struct health *health;
    const char *version;                    /* of the program; NULL: none */
    const struct config_peers *askers;      /* beyond loopback */
    uint64_t wall_us;                       /* the wall clock now */
};
