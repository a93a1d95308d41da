/* SPDX-License-Identifier: MIT */
/*
 * What: memory patterns on the GPU, over one piece of nearly all free memory. Each round writes a
 * pattern, compares all of it, and does the same with its inverse: a bit that sticks is wrong in
 * one of them. The piece is larger than the caches, so the comparison reads the memory.
 * Bounds: less than SHARE_MIN percent of the free memory is a fault.
 */
#include <stdio.h>

#include "config/base/assert.h"
#include "selftest/burn/state.h"

#define SHARE_MAX       99u
#define SHARE_MIN       95u
#define WALKING_ROUNDS  8u
#define WALKING_STRIDE  9u          /* 8 rounds cover each bit of a byte */
#define REPORTS_BYTES   (GPU_PATTERN_GRID_MAX * sizeof(struct gpu_pattern_report))

STATIC_ASSERT(BURN_RANDOM - BURN_OWN_ADDRESS == GPU_PATTERN_RANDOM &&
              BURN_WALKING_BIT - BURN_OWN_ADDRESS == GPU_PATTERN_WALKING_BIT,
              "checks are in the order of the patterns");

struct area {
    unsigned long long at;
    uint64_t count;                 /* of words */
    uint32_t share;                 /* percent of the free memory, rounded down */
    uint64_t reports_at;
    struct gpu_pattern_report *reports;
};

/* Separate from the queue's own reservation: a refusal would make the queue fail. */
static bool area_reserve(struct burning *b, struct area *area)
{
    const struct driver *driver = b->queue.driver;
    size_t free_bytes = 0, total_bytes = 0;
    unsigned result = driver->cuMemGetInfo(&free_bytes, &total_bytes);
    for (uint32_t share = SHARE_MAX; share >= SHARE_MIN && result == DRIVER_SUCCESS; share--) {
        uint64_t bytes = free_bytes / 100 * share;
        if (b->burn->memory_bytes != 0 && b->burn->memory_bytes < bytes) {
            bytes = b->burn->memory_bytes;
        }
        area->count = bytes / sizeof(uint64_t);
        result = driver->cuMemAlloc(&area->at, area->count * sizeof(uint64_t));
        if (result == DRIVER_SUCCESS) {
            area->share = (uint32_t)(bytes * 100 / free_bytes);
            return true;
        }
        result = result == DRIVER_OUT_OF_MEMORY ? DRIVER_SUCCESS : result;
    }
    post_fault_say(&b->burn->faults, "cannot reserve %u %% of the %zu MiB that are free",
                   SHARE_MIN, free_bytes >> 20);
    return false;
}

static void compare(struct burning *b, const struct area *area, const struct gpu_pattern *pattern)
{
    struct gpu_pattern_report sum = {0};
    for (uint32_t i = 0; i < gpu_pattern_grid(area->count); i++) {
        gpu_pattern_report_add(&sum, &area->reports[i]);
    }
    if (sum.wrong > 0) {
        uint64_t address = area->at + sum.first * sizeof(uint64_t);
        const struct post_fault fault = {
            .word = (const uint64_t *)(uintptr_t)address,
            .expected = gpu_pattern_word(pattern, address / sizeof(uint64_t)),
            .found = sum.found};
        post_fault_at(&b->burn->faults, &fault, "word %llu of the area (wrong words: %llu)",
                      (unsigned long long)sum.first, (unsigned long long)sum.wrong);
    }
}

/* Words are numbered by their addresses, so that a word which answers for another is found. */
static bool run_pattern(struct burning *b, const struct area *area,
                        const struct gpu_pattern *pattern)
{
    const struct gpu_pattern_fill fill = {.pattern = *pattern, .words = area->at,
                                          .first = area->at / sizeof(uint64_t),
                                          .count = area->count};
    const struct gpu_pattern_verify verify = {.pattern = *pattern, .words = area->at,
                                              .first = fill.first, .count = area->count,
                                              .reports = area->reports_at};
    GPU_LAUNCH(&b->queue, pattern_fill, &fill);
    GPU_LAUNCH(&b->queue, pattern_verify, &verify);
    gpu_download(&b->queue, area->reports, area->reports_at, REPORTS_BYTES);
    bool is_well = burn_settle(b);
    if (is_well) {
        compare(b, area, pattern);
    }
    return is_well;
}

void burn_memory_run(struct burning *b)
{
    struct config_error error;      /* the last gpu_check() of the queue reports it */
    struct area area = {.reports = burn_pinned(b, REPORTS_BYTES)};
    if (area.reports == NULL || gpu_reserve(&b->queue, REPORTS_BYTES, &error) != STATUS_OK ||
        !area_reserve(b, &area)) {
        return;
    }
    area.reports_at = gpu_take(&b->queue, 1, REPORTS_BYTES);
    uint32_t kind = b->burn->check - BURN_OWN_ADDRESS;
    uint32_t rounds = kind == GPU_PATTERN_WALKING_BIT ? WALKING_ROUNDS : 1;
    for (uint32_t i = 0; i < rounds * 2; i++) {
        const struct gpu_pattern pattern = {
            .seed = kind == GPU_PATTERN_RANDOM ? b->burn->seed : i / 2 * WALKING_STRIDE,
            .kind = kind, .is_inverted = i % 2};
        if (!run_pattern(b, &area, &pattern)) {
            return;
        }
    }
    snprintf(b->burn->amount, sizeof b->burn->amount, "%.1f MiB x %u, %u %%%s",
             (double)area.count * sizeof(uint64_t) / (1 << 20), rounds, area.share,
             burn_warmth(b).text);
}
