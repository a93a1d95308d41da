/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: if AGENTIX_TEST_CUDA names a CUDA driver, tests of the GPU run on its device instead of on
 * the host or the soft GPU: kernels as nvcc has compiled them, with the same expected results.
 * tools/gpu-check sets it, and AGENTIX_TEST_CUBLAS as engine.cublas_library.
 *
 * Buffers of gpu_rig.h stay where they are and become pinned: the device reads and writes them at
 * their own addresses, so a test reads them as it does without a chip.
 */
#include "selftest/unit/test.h"

#include <stdlib.h>

#include "kernels/cuda/queue.h"

static struct {
    struct driver driver;
    struct device device;
    struct gpu_queue queue;
} chip;

/* NULL: there is none. */
static inline const char *chip_library(void)
{
    return getenv("AGENTIX_TEST_CUDA");
}

/* The driver of the tests that open one themselves. */
static inline const char *chip_library_or(const char *soft)
{
    return chip_library() != NULL ? chip_library() : soft;
}

static inline const char *chip_cublas_or(const char *soft)
{
    const char *library = getenv("AGENTIX_TEST_CUBLAS");
    return chip_library() == NULL ? soft : library != NULL ? library : "";
}

static inline struct gpu_queue *chip_queue(void)
{
    struct config_error error = {{0}};
    if (chip.queue.driver == NULL &&
        (driver_open(&chip.driver, chip_library(), DRIVER_VERSION_MIN, &error) != STATUS_OK ||
         device_open(&chip.device, &chip.driver, 0, &error) != STATUS_OK ||
         gpu_open(&chip.queue, &chip.driver, &chip.device, &error) != STATUS_OK)) {
        fail_msg("%s", error.text);
    }
    return &chip.queue;
}

static inline void chip_pin(void *memory, uint64_t bytes)
{
    gpu_pin(chip_queue(), memory, bytes);
}

static inline void chip_unpin(void *memory)
{
    chip.driver.cuMemHostUnregister(memory);
}

/* False: it failed, and so will every later launch. */
static inline bool chip_launch(enum gpu_kernel kernel, const struct gpu_launch *launch,
                               const void *args)
{
    struct config_error error = {{0}};
    gpu_launch_kernel(chip_queue(), kernel, launch, args);
    if (gpu_check(chip_queue(), &error) != STATUS_OK) {
        print_error("%s\n", error.text);
        return false;
    }
    return true;
}
