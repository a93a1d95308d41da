/* SPDX-License-Identifier: MIT */
/*
 * What: the checks of a GPU (selftest/burn), each in a GPU worker of its own. A check that crashes
 * or hangs there is a named fault, like a failure of the GPU.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "appliance/boot/gpu.h"
#include "config/base/assert.h"
#include "config/devices.h"
#include "selftest/post/check.h"

static enum status burn_in(struct burn *burn, uint32_t device, const struct options *options,
                           struct config_error *error)
{
    struct gpu_binary program;
    if (!gpu_binary_open(&program)) {
        snprintf(error->text, sizeof error->text, "the GPU worker cannot be started: memfd: %s",
                 strerror(errno));
        return STATUS_CONFIG_ENGINE;
    }
    return gpu_burn(burn, device, &program, options, error);    /* this process ends then */
}

/* True when there is no driver or no device, as on most machines. */
static bool is_absence(enum status status)
{
    return status == STATUS_CONFIG_GPU_DRIVER || status == STATUS_CONFIG_GPU_NONE;
}

static void add_name(struct post_fault *fault, uint32_t device)
{
    char where[POST_WHERE_BYTES];
    memcpy(where, fault->where, sizeof where);
    snprintf(fault->where, sizeof fault->where, "GPU %u: %.100s", device, where);
}

/* Adds what a device has shown; a fault of one among several says whose it is. */
static void take_findings(struct post_outcome *outcome, struct burn *burn,
                          const struct config_devices *devices, uint32_t device)
{
    for (uint32_t i = 0; i < POST_FAULTS_KEPT && devices->count > 1; i++) {
        add_name(&burn->faults.kept[i], device);
    }
    post_faults_add(&outcome->faults, &burn->faults);
    if (devices->count == 1) {
        memcpy(outcome->amount, burn->amount, sizeof burn->amount);
    } else {
        snprintf(outcome->amount, sizeof outcome->amount, "%u GPUs: %.50s", devices->count,
                 burn->amount);
    }
}

/* False: there is none, and there need not be one. */
static bool run_device(const struct post *post, uint32_t variant, uint32_t number,
                       struct post_outcome *outcome)
{
    struct config_devices devices;
    struct config_error error = {.text = ""};
    const struct options *options = &post->boot->options;
    enum status status = config_devices_fill(&devices, options, &error);
    ASSERT(status == STATUS_OK && number < devices.count);
    struct burn burn = {
        .check = variant,
        .is_quick = post->settings.level == POST_QUICK,
        .seed = post->settings.seed,
        .memory_bytes = post->settings.memory_bytes,
        .rounds_us = post->rounds_us / devices.count,
    };
    status = burn_in(&burn, devices.numbers[number], options, &error);
    outcome->has_gpu = !is_absence(status);
    take_findings(outcome, &burn, &devices, devices.numbers[number]);
    if (is_absence(status) && post->settings.gpu == POST_GPU_IF_ANY && number == 0) {
        snprintf(outcome->amount, sizeof outcome->amount, "none here");
        return false;
    }
    if (status != STATUS_OK && devices.count > 1) {
        post_fault_say(&outcome->faults, "GPU %u: %s", devices.numbers[number], error.text);
    } else if (status != STATUS_OK) {
        post_fault_say(&outcome->faults, "%s", error.text);
    }
    return number + 1 < devices.count;
}

/* One after the other: a fault is then found by itself, and the host's memory is enough. */
static void run_gpu(void *state, const struct post *post, uint32_t variant,
                    struct post_outcome *outcome)
{
    uint32_t number = 0;
    while (run_device(post, variant, number, outcome)) {
        number++;
    }
}

const struct post_check post_gpu = {NULL, NULL, run_gpu};
