/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the orders of the GPU worker's binary (appliance/gpu_binary.h), and their common start. */
#include "appliance/gpu_binary.h"
#include "kernels/cuda/driver/device.h"

/* The driver and its device. */
struct opened {
    struct driver driver;
    struct device device;
};
MUST_CHECK enum status opened_init(struct opened *opened, const char *cuda_library,
                                   struct config_error *error);

/* Returns the binary's exit status. */
int order_serve(struct gpu_page *page);
