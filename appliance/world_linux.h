/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the product's side of the seam (config/base/world.h): epoll, sockets, the monotonic clock
 * and the control pages. world_linux.c holds all that the core asks of the operating system.
 */
#include "config/base/world.h"
#include "appliance/control.h"

struct world_linux {
    struct world world;
    int epoll;
    struct shared shared;
    struct world_linux_engine {
        uint32_t sequence;          /* of the newest submitted step */
        uint32_t epoch;             /* of the worker that the core believes in */
        uint32_t condemned;         /* epoch of the last one that had to go; 0: none */
        bool in_flight;
    } engines[WORLD_ENGINES_MAX];   /* [shared.control->engines_count] */
};

/* BOOT_ONLY. Opens the epoll descriptor and watches the bells. */
MUST_CHECK enum status world_linux_init(struct world_linux *linux_world,
                                        const struct shared *shared);
