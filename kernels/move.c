/* SPDX-License-Identifier: MIT */
/*
 * What: the moves of a step: KV blocks copied between the device's array and the host's before any
 * row runs.
 *
 *   pass 1   off the device       (a block that one move leaves may be filled by another)
 *   pass 2   onto the device
 *
 * Each thread takes a share of each pass (of the list as a whole it would be idle in one of them:
 * the core writes all that leave before all that come); in it, moves whose blocks lie side by side
 * on both tiers are one copy. Nobody begins a pass before everybody has ended the one before.
 *
 * Invariants: a copy never crosses from one array into the other; within a pass no block is read
 * and written, so the shares may run in any order.
 * Bounds: RUN_BYTES_MAX between two signs of life.
 */
#include <string.h>

#include "kernels/engine.h"

#define RUN_BYTES_MAX (UINT64_C(16) << 20)  /* one copy; a few milliseconds */

static bool is_host(const struct kernels *k, uint32_t block)
{
    return block >= k->settings.kv_blocks;
}

static float *block_at(const struct kernels *k, uint32_t block)
{
    ASSERT(block < (uint64_t)k->settings.kv_blocks + k->settings.kv_host_blocks);
    return is_host(k, block) ? k->kv_host + (block - k->settings.kv_blocks) * k->kv_block_floats
                             : k->kv + block * k->kv_block_floats;
}

static bool is_of_pass(const struct kernels *k, const struct step_move *move, bool is_out)
{
    ASSERT(is_host(k, move->from) != is_host(k, move->to));
    return is_host(k, move->to) == is_out;
}

/* How many of the moves from `first` on are one copy; all of the same pass. */
static uint32_t run_length(const struct kernels *k, uint32_t first, uint32_t end, bool is_out)
{
    const struct step_move *moves = step_moves(k->step);
    uint64_t block_bytes = k->kv_block_floats * sizeof(float);
    uint32_t count = 1;
    while (first + count < end && (count + 1) * block_bytes <= RUN_BYTES_MAX &&
           moves[first + count].from == moves[first].from + count &&
           moves[first + count].to == moves[first].to + count &&
           is_of_pass(k, &moves[first + count], is_out)) {
        count++;
    }
    return count;
}

/* Tiers that are small may lie in a cache as a whole; of larger ones, what a move reads has been
 * thrown out long ago, and what it writes would be. */
static void copy_run(const struct kernels *k, struct step_move first, uint32_t count)
{
    uint64_t blocks = (uint64_t)k->settings.kv_blocks + k->settings.kv_host_blocks;
    float *to = block_at(k, first.to);
    const float *from = block_at(k, first.from);
    if (blocks * k->kv_block_floats * sizeof(float) > k->cached_bytes_max) {
        k->ops->copy(to, from, count * k->kv_block_floats);
    } else {
        memcpy(to, from, count * k->kv_block_floats * sizeof(float));
    }
}

static uint32_t count_of_pass(const struct kernels *k, bool is_out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < step_header(k->step)->moves_count; i++) {
        count += is_of_pass(k, &step_moves(k->step)[i], is_out);
    }
    return count;
}

static void run_pass(struct kernels *k, uint32_t thread, bool is_out)
{
    const struct step_move *moves = step_moves(k->step);
    struct kernels_share share =
        kernels_share(count_of_pass(k, is_out), thread, k->threads.crew);
    uint32_t at = 0;                /* moves of this pass before moves[i] */
    for (uint32_t i = 0; at < share.end;) {
        if (at < share.first || !is_of_pass(k, &moves[i], is_out)) {
            at += is_of_pass(k, &moves[i], is_out);
            i++;
            continue;
        }
        uint32_t count = run_length(k, i, i + (share.end - at), is_out);
        copy_run(k, moves[i], count);
        at += count;
        i += count;
        if (thread == 0) {
            *k->heartbeat += 1;
        }
    }
    kernels_threads_wait(&k->threads);
    if (thread == 0) {
        *k->heartbeat += 1;
    }
}

void kernels_moves(struct kernels *kernels, uint32_t thread)
{
    if (step_header(kernels->step)->moves_count == 0) {
        return;
    }
    run_pass(kernels, thread, true);
    run_pass(kernels, thread, false);
}
