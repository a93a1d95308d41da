/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: engine.devices as numbers: which GPUs serve. The order is that of the engines: engine i has
 * the device numbers[i].
 */
#include "config/base/bounds.h"
#include "config/config.h"

struct config_devices {
    uint32_t count;                     /* 1 .. BOUND_ENGINES */
    uint32_t numbers[BOUND_ENGINES];    /* of the driver, each below BOUND_DEVICES, none twice */
};

/* Refuses a list that says anything else. */
MUST_CHECK enum status config_devices_fill(struct config_devices *devices,
                                           const struct options *options,
                                           struct config_error *error);
