/* SPDX-License-Identifier: MIT */
#pragma once
/* What: what GPU there is, and what is wrong with it, told by the GPU worker's program. */
#include <stdint.h>

#include "appliance/gpu_binary.h"

struct gpu {                        /* what the report says, checked */
    char name[GPU_NAME_BYTES], arch[GPU_NAME_BYTES];
    uint32_t driver_version, processors;
    uint32_t shared_bytes_max;      /* of a block */
    uint64_t memory_bytes, free_bytes;
};

/* BOOT_ONLY. Runs the program until it has looked at the device. A refusal says what is missing. */
MUST_CHECK enum status gpu_probe(struct gpu *gpu, const struct gpu_binary *program,
                                 const struct options *options, struct config_error *error);
/* BOOT_ONLY. Runs a check of the self-test until it is done, or its beats stand still for
 * engine.hang. What it has found by then is in `burn`; that GPU or program failed is a refusal. */
MUST_CHECK enum status gpu_burn(struct burn *burn, const struct gpu_binary *program,
                                const struct options *options, struct config_error *error);
