/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the state of a check of the GPU while it runs. Private to selftest/burn. */
#include <stdbool.h>

#include "appliance/clock.h"
#include "kernels/cuda/driver/nvml.h"
#include "kernels/cuda/queue.h"
#include "selftest/burn/burn.h"

/* Figures of NVML during the check. Each kind of fault is reported once. */
struct burn_health {
    struct nvml nvml;
    struct config_error silence;    /* why there are no figures */
    struct nvml_reading first, last;
    uint64_t hottest_c;             /* 0: unknown */
    uint64_t polled_us;
    bool is_hot, is_held;
};

struct burning {
    struct burn *burn;
    const struct device *device;
    struct gpu_queue queue;
    struct burn_health health;
};

/* A heartbeat; reads the figures of NVML when it is time. */
void burn_beat(struct burning *b);
/* Waits until all that is queued is done. False: the GPU has failed. */
bool burn_settle(struct burning *b);
/* Pinned host memory for copies. NULL: there is none, which is a fault. */
void *burn_pinned(struct burning *b, uint64_t bytes);

/* Number `at` of the random list `seed`, uniform. */
static inline uint64_t burn_random(uint64_t seed, uint64_t at)
{
    const struct gpu_pattern pattern = {.seed = seed, .kind = GPU_PATTERN_RANDOM};
    return gpu_pattern_word(&pattern, at);
}

/* health.c */
void burn_health_begin(struct burning *b, const char *nvml_library);
void burn_health_poll(struct burning *b);
void burn_health_end(struct burning *b);
/* For an amount: the highest temperature so far, ", 61 C". */
struct burn_warmth {
    char text[16];
};
struct burn_warmth burn_warmth(const struct burning *b);

/* The checks: each one queues work, compares results, and writes an amount. */
void burn_health_run(struct burning *b);
void burn_memory_run(struct burning *b);
void burn_product_run(struct burning *b);
void burn_swap_run(struct burning *b);
