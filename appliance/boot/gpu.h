/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the properties of the GPU and its checks, from the GPU worker's binary. */
#include <stdint.h>

#include "appliance/gpu_binary.h"

struct gpu {                        /* the report, checked */
    uint32_t device;                /* its number */
    char name[GPU_NAME_BYTES], arch[GPU_NAME_BYTES];
    uint32_t driver_version, processors;
    uint32_t shared_bytes_max;      /* of a thread block */
    uint64_t memory_bytes, free_bytes;
};

/* BOOT_ONLY. Runs the binary until it has reported gpu->device. A refusal says what is missing. */
MUST_CHECK enum status gpu_probe(struct gpu *gpu, const struct gpu_binary *binary,
                                 const struct options *options, struct config_error *error);
/* BOOT_ONLY. Runs a check of the self-test on a device until it is done, or its beats stand still
 * for engine.hang. `burn` has its findings up to then; a GPU or binary that failed is a refusal. */
MUST_CHECK enum status gpu_burn(struct burn *burn, uint32_t device,
                                const struct gpu_binary *binary, const struct options *options,
                                struct config_error *error);
