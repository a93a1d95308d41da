/* SPDX-License-Identifier: MIT */
/*
 * What: the moves of a step: KV blocks copied between the device's array and the host's, and within
 * the device's, before any row runs. The phases are those of step.h.
 *
 * Between the tiers each thread takes a share of each phase. A share of the whole list would leave
 * threads idle: the core writes all blocks that leave before all that come. In a share, moves whose
 * blocks are neighbours on both tiers are one copy of each piece. Within the device each thread
 * copies its share of the pieces of every block in the order of the list, so no share waits for
 * another. A barrier ends each phase.
 *
 * Invariants: a copy never crosses from one array into the other. Between the tiers no block of a
 * phase is both read and written, so its shares may run in any order.
 * Bounds: RUN_BYTES_MAX, or a block, between two heartbeats.
 */
#include <string.h>

#include "kernels/round/piece.h"

#define RUN_BYTES_MAX (UINT64_C(16) << 20)  /* one copy; a few milliseconds */

static bool is_of_phase(const struct kernels *k, const struct step_move *move,
                        enum step_phase phase)
{
    ASSERT(!kernels_is_host(k, move->from) || !kernels_is_host(k, move->to));
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
static uint64_t bytes_past_caches(const struct kernels *k, uint64_t bytes)
{
    uint64_t blocks = (uint64_t)k->settings.kv_blocks + k->settings.kv_host_blocks;
    uint64_t least = KERNELS_COPY_FLOATS * sizeof(float);
    return blocks * k->kv_block_bytes > k->cached_bytes_max ? bytes - bytes % least : 0;
}

/* Of neighbouring blocks the pieces of a head are neighbours, too. */
static void copy_run(const struct kernels *k, struct step_move first, uint32_t count)
{
    for (uint32_t i = 0; i < kernels_pieces(k); i++) {
        struct kernels_piece to = kernels_piece(k, first.to, i);
        struct kernels_piece from = kernels_piece(k, first.from, i);
        uint64_t bytes = count * from.bytes, past = bytes_past_caches(k, bytes);
        k->ops->copy((float *)(void *)to.at, (const float *)(void *)from.at, past / sizeof(float));
        memcpy(to.at + past, from.at + past, bytes - past);
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

static void copy_pieces(const struct kernels *k, const struct step_move *move,
                        struct kernels_share share)
{
    for (uint32_t i = share.first; i < share.end; i++) {
        struct kernels_piece from = kernels_piece(k, move->from, i);
        memcpy(kernels_piece(k, move->to, i).at, from.at, from.bytes);
    }
}

/* Through the caches: the rows read it next. */
static void run_within(struct kernels *k, uint32_t thread)
{
    struct kernels_share share = kernels_share(kernels_pieces(k), thread, k->threads.active);
    for (uint32_t i = 0; i < step_header(k->step)->moves_count; i++) {
        const struct step_move *move = &step_moves(k->step)[i];
        if (is_of_phase(k, move, STEP_PHASE_WITHIN)) {
            copy_pieces(k, move, share);
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
