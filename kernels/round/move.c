/* SPDX-License-Identifier: MIT */
/*
 * What: the moves of a step: KV blocks copied between the device's array and the host's, and within
 * the device's, before any row runs. The phases are those of step.h.
 *
 * Between the tiers each thread takes a share of each phase. A share of the whole list would leave
 * threads idle: the core writes all blocks that leave before all that come. In a share, moves whose
 * blocks are neighbours on both tiers are one copy. Within the device each thread copies its share
 * of the bytes of every block in the order of the list, so no share waits for another. A barrier
 * ends each phase.
 *
 * Invariants: a copy never crosses from one array into the other. Between the tiers no block of a
 * phase is both read and written, so its shares may run in any order.
 * Bounds: RUN_BYTES_MAX, or a block, between two heartbeats.
 */
#include <string.h>

#include "kernels/engine_state.h"

#define RUN_BYTES_MAX (UINT64_C(16) << 20)  /* one copy; a few milliseconds */
#define LINE_BYTES    64u                   /* of a cache line: no two threads write one */

static bool is_host(const struct kernels *k, uint32_t block)
{
    return block >= k->settings.kv_blocks;
}

static uint8_t *block_at(const struct kernels *k, uint32_t block)
{
    ASSERT(block < (uint64_t)k->settings.kv_blocks + k->settings.kv_host_blocks);
    return is_host(k, block) ? k->kv_host + (block - k->settings.kv_blocks) * k->kv_block_bytes
                             : k->kv + block * k->kv_block_bytes;
}

static bool is_of_phase(const struct kernels *k, const struct step_move *move,
                        enum step_phase phase)
{
    ASSERT(!is_host(k, move->from) || !is_host(k, move->to));
    return step_move_phase(move, k->settings.kv_blocks) == phase;
}

/* The number of moves from `first` on that are one copy; all are of the same phase. */
static uint32_t run_length(const struct kernels *k, uint32_t first, uint32_t end,
                           enum step_phase phase)
{
    const struct step_move *moves = step_moves(k->step);
    uint32_t count = 1;
    while (first + count < end && (count + 1) * k->kv_block_bytes <= RUN_BYTES_MAX &&
           moves[first + count].from == moves[first].from + count &&
           moves[first + count].to == moves[first].to + count &&
           is_of_phase(k, &moves[first + count], phase)) {
        count++;
    }
    return count;
}

/* Small tiers may lie in a cache as a whole. Of larger ones, what a move reads has left the caches
 * long ago, and what it writes would leave them before it is read. */
static void copy_run(const struct kernels *k, struct step_move first, uint32_t count)
{
    uint64_t blocks = (uint64_t)k->settings.kv_blocks + k->settings.kv_host_blocks;
    uint64_t bytes = count * k->kv_block_bytes;
    void *to = block_at(k, first.to);
    const void *from = block_at(k, first.from);
    if (blocks * k->kv_block_bytes > k->cached_bytes_max) {
        k->ops->copy(to, from, bytes / sizeof(float));
    } else {
        memcpy(to, from, bytes);
    }
}

static uint32_t count_of_phase(const struct kernels *k, enum step_phase phase)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < step_header(k->step)->moves_count; i++) {
        count += is_of_phase(k, &step_moves(k->step)[i], phase);
    }
    return count;
}

/* Only thread 0 counts heartbeats. */
static void beat(struct kernels *k, uint32_t thread)
{
    if (thread == 0) {
        *k->heartbeat += 1;
    }
}

static void run_between(struct kernels *k, uint32_t thread, enum step_phase phase)
{
    const struct step_move *moves = step_moves(k->step);
    struct kernels_share share =
        kernels_share(count_of_phase(k, phase), thread, k->threads.active);
    uint32_t at = 0;                /* moves of this phase before moves[i] */
    for (uint32_t i = 0; at < share.end;) {
        if (at < share.first || !is_of_phase(k, &moves[i], phase)) {
            at += is_of_phase(k, &moves[i], phase);
            i++;
            continue;
        }
        uint32_t count = run_length(k, i, i + (share.end - at), phase);
        copy_run(k, moves[i], count);
        at += count;
        i += count;
        beat(k, thread);
    }
}

/* Through the caches: the rows read it next. */
static void run_within(struct kernels *k, uint32_t thread)
{
    uint32_t lines = (uint32_t)(k->kv_block_bytes / LINE_BYTES);
    struct kernels_share share = kernels_share(lines, thread, k->threads.active);
    uint64_t first = (uint64_t)share.first * LINE_BYTES;
    uint64_t count = (uint64_t)(share.end - share.first) * LINE_BYTES;
    for (uint32_t i = 0; i < step_header(k->step)->moves_count; i++) {
        const struct step_move *move = &step_moves(k->step)[i];
        if (is_of_phase(k, move, STEP_PHASE_WITHIN)) {
            memcpy(block_at(k, move->to) + first, block_at(k, move->from) + first, count);
            beat(k, thread);
        }
    }
}

void kernels_moves(struct kernels *kernels, uint32_t thread)
{
    if (step_header(kernels->step)->moves_count == 0) {
        return;
    }
    for (uint32_t phase = 0; phase < STEP_PHASES; phase++) {
        if (phase == STEP_PHASE_WITHIN) {
            run_within(kernels, thread);
        } else {
            run_between(kernels, thread, (enum step_phase)phase);
        }
        kernels_threads_wait(&kernels->threads);
        beat(kernels, thread);
    }
}
