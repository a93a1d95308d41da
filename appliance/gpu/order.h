/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the orders of the GPU worker's binary (appliance/gpu_binary.h), and their common start. */
#include "appliance/gpu_binary.h"
#include "kernels/cuda/driver/device.h"

/* The driver and the GPU that the page names. */
struct opened {
    struct driver driver;
    struct device device;
};
MUST_CHECK enum status opened_init(struct opened *opened, const struct gpu_page *page,
                                   struct config_error *error);

/* Returns the binary's exit status. */
int order_serve(struct gpu_page *page);
