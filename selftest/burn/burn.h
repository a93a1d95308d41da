/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the self-test's checks of a GPU. They run where the driver is, in the GPU worker's binary
 * (appliance/gpu/main.c), each in a process of its own; orders and report are on its page.
 * selftest/post/gpu.c orders them. Every comparison is exact.
 */
#include <stdint.h>

#include "config/config.h"
#include "selftest/post/fault.h"

#define BURN_AMOUNT_BYTES 64u

enum burn_check {
    BURN_DEVICE,                    /* driver, device and kernels can be opened */
    BURN_OWN_ADDRESS, BURN_SOLID, BURN_CHECKERBOARD, BURN_WALKING_BIT, BURN_RANDOM,
    BURN_PRODUCT, BURN_SWAP, BURN_HEALTH,
    BURN_CHECKS
};

struct burn {
    /* orders */
    uint32_t check;
    uint32_t is_quick;
    uint64_t seed;
    uint64_t memory_bytes;          /* the most that patterns cover; 0: all that is free */
    uint64_t rounds_us;             /* for so long, a check of rounds begins another one */
    /* report */
    _Atomic uint64_t beats;         /* grows while the check lives */
    char amount[BURN_AMOUNT_BYTES];
    struct post_faults faults;
};

struct driver;
struct device;

/* In the GPU worker's binary. Not STATUS_OK: the GPU failed, which is a fault too, and `error` says
 * how. */
MUST_CHECK enum status burn_run(struct burn *burn, const struct driver *driver,
                                const struct device *device, const char *nvml_library,
                                struct config_error *error);
