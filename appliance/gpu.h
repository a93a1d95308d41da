/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the GPU worker, a program of its own in this one: dynamic, because the driver exists only
 * as a shared library (docs/decisions/0038). It is started from memory and shares one page with who
 * starts it: orders in, report out.
 */
#include <stdint.h>

#include "appliance/base/status.h"
#include "config/config.h"
#include "selftest/burn/burn.h"

#define GPU_PAGE_DESCRIPTOR 3       /* of the program: the page */
#define GPU_NAME_BYTES      64

enum gpu_order { GPU_PROBE, GPU_BURN };

struct gpu_page {
    /* orders */
    uint32_t order;                 /* enum gpu_order */
    char cuda_library[CONFIG_TEXT_BYTES], cublas_library[CONFIG_TEXT_BYTES];
    char nvml_library[CONFIG_TEXT_BYTES];
    struct burn burn;               /* of GPU_BURN, with its report */
    /* report */
    _Atomic uint32_t is_reported;
    uint32_t status;                /* enum status; not OK: `error` says why */
    char error[CONFIG_ERROR_BYTES];
    char name[GPU_NAME_BYTES], arch[GPU_NAME_BYTES];
    uint32_t driver_version, processors;
    uint64_t memory_bytes, free_bytes;
};

struct gpu {                        /* what the report says, checked */
    char name[GPU_NAME_BYTES], arch[GPU_NAME_BYTES];
    uint32_t driver_version, processors;
    uint64_t memory_bytes, free_bytes;
};

/* BOOT_ONLY. Runs the program until it has looked at the device. A refusal says what is missing. */
MUST_CHECK enum status gpu_probe(struct gpu *gpu, const struct options *options,
                                 struct config_error *error);
/* BOOT_ONLY. Runs it until a check of the GPU is done, or its beats stand still for engine.hang.
 * What it has found by then is in `burn`; a GPU or a program that failed is a refusal. */
MUST_CHECK enum status gpu_burn(struct burn *burn, const struct options *options,
                                struct config_error *error);
