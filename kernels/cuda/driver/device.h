/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the GPU of a process: its properties, its context, and whether this build has kernels for
 * it.
 * Owner: the GPU worker. BOOT_ONLY.
 */
#include <stdbool.h>
#include <stdint.h>

#include "kernels/cuda/driver/driver.h"

#define DEVICE_NAME_BYTES 64
#define DEVICE_BUS_BYTES  32

struct device {
    char name[DEVICE_NAME_BYTES];
    char bus[DEVICE_BUS_BYTES];     /* its PCI address */
    const char *arch;               /* of the image that it takes: kernels/cuda/driver/images.h */
    uint32_t capability;            /* 90: 9.0 */
    uint32_t processors;
    uint32_t shared_bytes_max;      /* for a thread block that requests it */
    bool corrects_errors;           /* ECC */
    uint64_t memory_bytes, free_bytes;  /* free: when it was measured last */
    struct CUctx_st *context;       /* current */
};

/* Opens device `number` of those that the driver shows (CUDA_VISIBLE_DEVICES chooses them). A
 * refusal names the call and its result. */
MUST_CHECK enum status device_open(struct device *device, const struct driver *driver,
                                   uint32_t number, struct config_error *error);
/* BOOT_ONLY. Reads again how much memory is free; device_open() has done so behind the context. */
MUST_CHECK enum status device_measure(struct device *device, const struct driver *driver,
                                      struct config_error *error);
