/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the product's side of the seam (config/base/world.h): epoll, sockets, the monotonic clock
 * and the control pages. world_linux.c holds all that the core asks of the operating system.
 */
#include "config/base/world.h"
#include "appliance/control.h"
#include "appliance/pockets.h"

struct world_linux {
    struct world world;
    int epoll;
    struct shared shared;
    struct pockets pockets;
    struct step step;               /* the record of engine 0: step_at() */
    struct control_view engines[WORLD_ENGINES_MAX];     /* [shared.control->engines_count] */
};

/* BOOT_ONLY. Opens the epoll descriptor and watches the bells. */
MUST_CHECK enum status world_linux_init(struct world_linux *linux_world,
                                        const struct shared *shared, const struct step *step,
                                        const struct pockets *pockets);
