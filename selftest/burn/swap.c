/* SPDX-License-Identifier: MIT */
/*
 * What: copies blocks from the GPU to the host and back to other addresses, in several streams at
 * once. The contents of a block can be computed, so every word is compared, on the host and, after
 * the way back, on the GPU. A checksum would say less.
 */
#include <stdio.h>

#include "selftest/burn/state.h"

#define STREAMS      4u
#define BLOCKS       16u            /* of a stream */
#define BLOCK_BYTES  (UINT64_C(1) << 20)
#define WORDS        (BLOCK_BYTES / sizeof(uint64_t))
#define BLOCK_REPORTS (WORDS / (GPU_PATTERN_THREADS * GPU_PATTERN_WORDS))

struct swap {
    struct burning *b;
    struct gpu_queue streams[STREAMS];
    struct gpu_pattern pattern;     /* of the round */
    uint64_t at, reports_at;        /* on the device: (STREAMS, BLOCKS) of blocks and reports */
    uint64_t *host;
    struct gpu_pattern_report (*reports)[BLOCK_REPORTS];
};

/* The block to which a block comes back; of the same stream. */
static uint32_t place_of(uint32_t block)
{
    return block / BLOCKS * BLOCKS + (block % BLOCKS * 5 + 3) % BLOCKS;
}

static bool swap_begin(struct swap *swap, struct burning *b)
{
    const uint64_t count = STREAMS * BLOCKS;
    const uint64_t report_bytes = sizeof *swap->reports;
    struct config_error error;
    *swap = (struct swap){.b = b};
    swap->host = burn_pinned(b, count * BLOCK_BYTES);
    swap->reports = burn_pinned(b, count * report_bytes);
    uint64_t bytes = gpu_taken_bytes(count, BLOCK_BYTES) + gpu_taken_bytes(count, report_bytes);
    if (swap->host == NULL || swap->reports == NULL ||
        gpu_reserve(&b->queue, bytes, &error) != STATUS_OK) {
        return false;
    }
    swap->at = gpu_take(&b->queue, count, BLOCK_BYTES);
    swap->reports_at = gpu_take(&b->queue, count, report_bytes);
    for (uint32_t i = 0; i < STREAMS; i++) {
        swap->streams[i] = b->queue;
        gpu_create_stream(&swap->streams[i]);
    }
    return true;
}

/* Waits for all streams. The first failure becomes the queue's. */
static bool settle(struct swap *swap)
{
    bool is_well = true;
    for (uint32_t i = 0; i < STREAMS; i++) {
        if (gpu_wait(&swap->streams[i]) != STATUS_OK && is_well) {
            is_well = false;
            swap->b->queue.result = swap->streams[i].result;
            swap->b->queue.failed = swap->streams[i].failed;
        }
    }
    burn_beat(swap->b);
    return is_well;
}

static void fill(struct swap *swap, uint32_t block, bool is_inverted)
{
    struct gpu_pattern_fill args = {.pattern = swap->pattern,
                                    .words = swap->at + block * BLOCK_BYTES,
                                    .first = block * WORDS, .count = WORDS};
    args.pattern.is_inverted = is_inverted;
    GPU_LAUNCH(&swap->streams[block / BLOCKS], pattern_fill, &args);
}

static void swap_out(struct swap *swap)
{
    for (uint32_t block = 0; block < STREAMS * BLOCKS; block++) {
        fill(swap, block, false);
        gpu_download(&swap->streams[block / BLOCKS], swap->host + block * WORDS,
                     swap->at + block * BLOCK_BYTES, BLOCK_BYTES);
    }
}

/* The device holds the inverse before the blocks come back, so old contents do not pass. */
static void swap_in(struct swap *swap)
{
    for (uint32_t block = 0; block < STREAMS * BLOCKS; block++) {
        fill(swap, block, true);
    }
    for (uint32_t block = 0; block < STREAMS * BLOCKS; block++) {
        struct gpu_queue *stream = &swap->streams[block / BLOCKS];
        uint64_t to = swap->at + place_of(block) * BLOCK_BYTES;
        const struct gpu_pattern_verify args = {
            .pattern = swap->pattern, .words = to, .first = block * WORDS, .count = WORDS,
            .reports = swap->reports_at + block * sizeof *swap->reports};
        gpu_upload(stream, to, swap->host + block * WORDS, BLOCK_BYTES);
        GPU_LAUNCH(stream, pattern_verify, &args);
        gpu_download(stream, swap->reports[block], args.reports, sizeof *swap->reports);
    }
}

static void compare_host(struct swap *swap)
{
    for (uint64_t i = 0; i < STREAMS * BLOCKS * WORDS; i++) {
        const struct post_fault fault = {.word = &swap->host[i],
                                         .expected = gpu_pattern_word(&swap->pattern, i),
                                         .found = swap->host[i]};
        if (fault.found != fault.expected) {
            post_fault_at(&swap->b->burn->faults, &fault, "stream %llu, block %llu on the host",
                          (unsigned long long)(i / WORDS / BLOCKS),
                          (unsigned long long)(i / WORDS % BLOCKS));
        }
    }
}

static void compare_device(struct swap *swap)
{
    for (uint32_t block = 0; block < STREAMS * BLOCKS; block++) {
        struct gpu_pattern_report sum = {0};
        for (uint32_t i = 0; i < BLOCK_REPORTS; i++) {
            gpu_pattern_report_add(&sum, &swap->reports[block][i]);
        }
        if (sum.wrong > 0) {
            uint64_t at = swap->at + place_of(block) * BLOCK_BYTES + sum.first * sizeof(uint64_t);
            const struct post_fault fault = {
                .word = (const uint64_t *)(uintptr_t)at,
                .expected = gpu_pattern_word(&swap->pattern, block * WORDS + sum.first),
                .found = sum.found};
            post_fault_at(&swap->b->burn->faults, &fault,
                          "stream %u, block %u come back (wrong words: %llu)", block / BLOCKS,
                          block % BLOCKS, (unsigned long long)sum.wrong);
        }
    }
}

static bool run_round(struct swap *swap)
{
    swap_out(swap);
    if (!settle(swap)) {
        return false;
    }
    compare_host(swap);
    swap_in(swap);
    if (!settle(swap)) {
        return false;
    }
    compare_device(swap);
    return true;
}

void burn_swap_run(struct burning *b)
{
    struct swap swap;
    uint64_t end_us = clock_us(CLOCK_MONOTONIC) + b->burn->rounds_us;
    uint32_t rounds = 0;
    if (!swap_begin(&swap, b)) {
        return;
    }
    do {
        swap.pattern = (struct gpu_pattern){.seed = b->burn->seed + rounds,
                                            .kind = GPU_PATTERN_RANDOM};
        if (!run_round(&swap)) {
            return;
        }
        rounds++;
    } while (clock_us(CLOCK_MONOTONIC) < end_us && b->burn->faults.count == 0);
    snprintf(b->burn->amount, sizeof b->burn->amount, "%u blocks x %u, %u streams%s",
             STREAMS * BLOCKS, rounds, STREAMS, burn_warmth(b).text);
}
