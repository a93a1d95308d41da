/* SPDX-License-Identifier: MIT */
#pragma once
/* What: a check of the GPU while it runs. Private to selftest/burn. */
#include <stdbool.h>

#include "kernels/cuda/driver/nvml.h"
#include "kernels/cuda/queue.h"
#include "selftest/burn/burn.h"

/* How the GPU feels meanwhile. Each kind of fault is said once. */
struct burn_health {
    struct nvml nvml;
    struct config_error silence;    /* why nothing is measured */
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

/* A sign of life; looks at the health when it is time. */
void burn_beat(struct burning *b);
/* All that is queued is done, or the GPU has failed: false. */
bool burn_settle(struct burning *b);
/* Host memory that copies may use; NULL, and a fault: there is none. */
void *burn_pinned(struct burning *b, uint64_t bytes);
uint64_t burn_now_us(void);

/* Number `at` of list `seed`, uniform. */
static inline uint64_t burn_random(uint64_t seed, uint64_t at)
{
    const struct gpu_pattern pattern = {.seed = seed, .kind = GPU_PATTERN_RANDOM};
    return gpu_pattern_word(&pattern, at);
}

/* health.c */
void burn_health_begin(struct burning *b, const char *nvml_library);
void burn_health_poll(struct burning *b);
void burn_health_end(struct burning *b);
/* For an amount: the most that was seen so far, ", 61 C". */
struct burn_warmth {
    char text[16];
};
struct burn_warmth burn_warmth(const struct burning *b);

/* The checks: each queues, compares, and leaves an amount. */
void burn_health_run(struct burning *b);
void burn_memory_run(struct burning *b);
void burn_product_run(struct burning *b);
void burn_swap_run(struct burning *b);
