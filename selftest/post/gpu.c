/* SPDX-License-Identifier: MIT */
/*
 * What: the checks of a GPU (selftest/burn), each in a GPU worker of its own. A check that crashes
 * or hangs there is a named fault, like a failure of the GPU.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "appliance/boot/gpu.h"
#include "selftest/post/check.h"

static enum status burn_in(struct burn *burn, const struct options *options,
                           struct config_error *error)
{
    struct gpu_binary program;
    if (!gpu_binary_open(&program)) {
        snprintf(error->text, sizeof error->text, "the GPU worker cannot be started: memfd: %s",
                 strerror(errno));
        return STATUS_CONFIG_ENGINE;
    }
    return gpu_burn(burn, &program, options, error);    /* this process ends then */
}

/* True when there is no driver or no device, as on most machines. */
static bool is_absence(enum status status)
{
    return status == STATUS_CONFIG_GPU_DRIVER || status == STATUS_CONFIG_GPU_NONE;
}

static void run_gpu(void *state, const struct post *post, uint32_t variant,
                    struct post_outcome *outcome)
{
    struct burn burn = {
        .check = variant,
        .is_quick = post->settings.level == POST_QUICK,
        .seed = post->settings.seed,
        .memory_bytes = post->settings.memory_bytes,
        .rounds_us = post->rounds_us,
    };
    struct config_error error = {.text = ""};
    enum status status = burn_in(&burn, &post->boot->options, &error);
    outcome->faults = burn.faults;
    outcome->has_gpu = !is_absence(status);
    memcpy(outcome->amount, burn.amount, sizeof burn.amount);
    if (is_absence(status) && post->settings.gpu == POST_GPU_IF_ANY) {
        snprintf(outcome->amount, sizeof outcome->amount, "none here");
    } else if (status != STATUS_OK) {
        post_fault_say(&outcome->faults, "%s", error.text);
    }
}

const struct post_check post_gpu = {NULL, NULL, run_gpu};
