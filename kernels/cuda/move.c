/* SPDX-License-Identifier: MIT */
/*
 * What: the moves of a step; the phases are those of step.h. Each direction between the tiers has a
 * stream of its own, so that both run at the same time, and beside the rows. Work waits only for
 * work that must have read or filled one of its blocks before:
 *
 *   within, in, rows   wait for out, if they fill a block that it reads
 *   in                 waits for within, likewise
 *   rows               wait for in
 *
 * A stream copies in the order of the host, because a phase between the tiers has no order: blocks
 * that are neighbours on both tiers are one copy. If blocks are so small and so far apart on the
 * device that their copies would be many and short, a kernel there gathers them into one piece, or
 * scatters it. That is done only for blocks that are one piece on the host: there only this thread
 * could gather, and it would have to wait for the device in between.
 *
 * Bounds: a block, or GPU_STAGING_BYTES, for one copy.
 */
#include "config/base/assert.h"
#include "kernels/cuda/engine_state.h"

/* Copies are many and short if there are so many runs, and an average run has fewer bytes. vLLM
 * measured (its pull request 42212) 5 to 7 GB/s by copies of 4 to 24 KiB and 40 to 52 GB/s from
 * 28 KiB on; a kernel pays off from 16 copies on. */
#define SWAP_RUNS_MIN      16u
#define SWAP_RUN_BYTES_MIN (UINT64_C(28) << 10)

static uint32_t host_of(uint64_t swap)
{
    return (uint32_t)(swap >> 32);
}

static uint32_t device_of(uint64_t swap)
{
    return (uint32_t)swap;
}

static uint8_t *host_block(const struct gpu_engine *e, uint64_t swap)
{
    return e->kv_host + (host_of(swap) - e->settings.kv_blocks) * e->kv.block_bytes;
}

static uint64_t device_block(const struct gpu_engine *e, uint32_t block)
{
    return e->kv.blocks + block * e->kv.block_bytes;
}

static enum step_phase phase_of(const struct gpu_engine *e, const struct step_move *move)
{
    return step_move_phase(move, e->settings.kv_blocks);
}

/* ---- the swaps of a stream ---- */

/* Shell's sort with Knuth's gaps: in place, for a few thousand at most. */
static void sort_swaps(uint64_t *swaps, uint32_t count)
{
    uint32_t gap = 1;
    while (gap < count / 3) {
        gap = 3 * gap + 1;
    }
    for (; gap > 0; gap /= 3) {
        for (uint32_t i = gap; i < count; i++) {
            uint64_t swap = swaps[i];
            uint32_t at = i;
            for (; at >= gap && swaps[at - gap] > swap; at -= gap) {
                swaps[at] = swaps[at - gap];
            }
            swaps[at] = swap;
        }
    }
}

static void take_swaps(const struct gpu_engine *e, struct gpu_swap_stream *stream,
                       enum step_phase phase)
{
    const struct step_move *moves = step_moves(e->step);
    stream->count = 0;
    for (uint32_t i = 0; i < step_header(e->step)->moves_count; i++) {
        if (phase_of(e, &moves[i]) == phase) {
            uint32_t host = phase == STEP_PHASE_OUT ? moves[i].to : moves[i].from;
            uint32_t device = phase == STEP_PHASE_OUT ? moves[i].from : moves[i].to;
            ASSERT(stream->count < e->settings.kv_host_blocks);
            stream->swaps[stream->count++] = (uint64_t)host << 32 | device;
        }
    }
    sort_swaps(stream->swaps, stream->count);
    for (uint32_t i = 0; i < stream->count; i++) {
        stream->list[i] = device_of(stream->swaps[i]);
    }
}

/* ---- a piece of the host tier ---- */

struct piece {
    uint32_t first, count;              /* of the stream's swaps: neighbours on the host */
    uint32_t runs;                      /* of blocks that are neighbours on the device too */
};

static struct piece piece_at(const struct gpu_engine *e, const struct gpu_swap_stream *stream,
                             uint32_t first)
{
    const uint64_t *swap = stream->swaps + first;
    struct piece piece = {first, 1, 1};
    while (first + piece.count < stream->count &&
           host_of(swap[piece.count]) == host_of(swap[0]) + piece.count &&
           (piece.count + 1) * e->kv.block_bytes <= GPU_STAGING_BYTES) {
        piece.runs += device_of(swap[piece.count]) != device_of(swap[piece.count - 1]) + 1;
        piece.count++;
    }
    return piece;
}

/* The blocks of the piece's run that begins at swap `first`. */
static uint32_t run_length(const struct gpu_swap_stream *stream, struct piece piece, uint32_t first)
{
    uint32_t count = 1;
    while (first + count < piece.first + piece.count &&
           device_of(stream->swaps[first + count]) == device_of(stream->swaps[first]) + count) {
        count++;
    }
    return count;
}

static void copy(struct gpu_queue *queue, enum step_phase phase, uint8_t *host, uint64_t device,
                 uint64_t bytes)
{
    if (phase == STEP_PHASE_OUT) {
        gpu_download(queue, host, device, bytes);
    } else {
        gpu_upload(queue, device, host, bytes);
    }
}

static void queue_runs(struct gpu_engine *e, struct gpu_swap_stream *stream, enum step_phase phase,
                       struct piece piece)
{
    uint32_t end = piece.first + piece.count, count;
    for (uint32_t i = piece.first; i < end; i += count) {
        count = run_length(stream, piece, i);
        copy(&stream->queue, phase, host_block(e, stream->swaps[i]),
             device_block(e, device_of(stream->swaps[i])), count * e->kv.block_bytes);
    }
}

static void queue_bulk(struct gpu_engine *e, struct gpu_swap_stream *stream, enum step_phase phase,
                       struct piece piece)
{
    uint64_t list = stream->device_list + piece.first * sizeof *stream->list;
    uint64_t bytes = piece.count * e->kv.block_bytes;
    uint8_t *host = host_block(e, stream->swaps[piece.first]);
    const struct gpu_kv_gather gather = {e->kv.blocks, list, stream->staging, e->kv.block_bytes,
                                         piece.count};
    const struct gpu_kv_scatter scatter = {e->kv.blocks, list, stream->staging, e->kv.block_bytes,
                                           piece.count};
    gpu_upload(&stream->queue, list, stream->list + piece.first,
               piece.count * sizeof *stream->list);
    if (phase == STEP_PHASE_OUT) {
        GPU_LAUNCH(&stream->queue, kv_gather, &gather);
        gpu_download(&stream->queue, host, stream->staging, bytes);
    } else {
        gpu_upload(&stream->queue, stream->staging, host, bytes);
        GPU_LAUNCH(&stream->queue, kv_scatter, &scatter);
    }
}

static void queue_swaps(struct gpu_engine *e, struct gpu_swap_stream *stream, enum step_phase phase)
{
    struct piece piece;
    for (uint32_t first = 0; first < stream->count; first += piece.count) {
        piece = piece_at(e, stream, first);
        bool is_scattered = piece.runs >= SWAP_RUNS_MIN &&
                            piece.count * e->kv.block_bytes < piece.runs * SWAP_RUN_BYTES_MIN;
        (is_scattered ? queue_bulk : queue_runs)(e, stream, phase, piece);
    }
}

/* Moves within the device go one by one: a later one may fill a block that an earlier one reads,
 * and copies must not overlap. */
static void queue_within(struct gpu_engine *e)
{
    const struct step_move *moves = step_moves(e->step);
    for (uint32_t i = 0; i < step_header(e->step)->moves_count; i++) {
        if (phase_of(e, &moves[i]) == STEP_PHASE_WITHIN) {
            gpu_copy(e->queue, device_block(e, moves[i].to), device_block(e, moves[i].from),
                     e->kv.block_bytes);
        }
    }
}

/* ---- what waits for what ---- */

/* Records which phases read which block of the device, or clears that. */
static void mark_left(struct gpu_engine *e, bool forgets)
{
    const struct step_move *moves = step_moves(e->step);
    for (uint32_t i = 0; i < step_header(e->step)->moves_count; i++) {
        if (moves[i].from < e->settings.kv_blocks) {
            uint8_t *left = &e->left[moves[i].from];
            *left = forgets ? 0 : (uint8_t)(*left | 1u << phase_of(e, &moves[i]));
        }
    }
}

/* True when `phase` fills a block that `earlier` reads. */
static bool moves_fill(const struct gpu_engine *e, enum step_phase phase, enum step_phase earlier)
{
    const struct step_move *moves = step_moves(e->step);
    for (uint32_t i = 0; i < step_header(e->step)->moves_count; i++) {
        if (phase_of(e, &moves[i]) == phase && (e->left[moves[i].to] & 1u << earlier) != 0) {
            return true;
        }
    }
    return false;
}

/* True when a row has a block that the phase out reads, whether the row fills it or not. */
static bool rows_fill(const struct gpu_engine *e)
{
    for (uint32_t r = 0; r < step_header(e->step)->rows_count; r++) {
        for (uint32_t i = 0; i < step_row(e->step, r)->blocks_count; i++) {
            if ((e->left[step_blocks(e->step, r)[i]] & 1u << STEP_PHASE_OUT) != 0) {
                return true;
            }
        }
    }
    return false;
}

static void queue_in(struct gpu_engine *e)
{
    if (e->in.count == 0) {
        return;
    }
    if (moves_fill(e, STEP_PHASE_IN, STEP_PHASE_OUT)) {
        gpu_follow(&e->in.queue, &e->out.queue);
    }
    if (moves_fill(e, STEP_PHASE_IN, STEP_PHASE_WITHIN)) {
        gpu_follow(&e->in.queue, e->queue);
    }
    queue_swaps(e, &e->in, STEP_PHASE_IN);
    gpu_follow(e->queue, &e->in.queue);
}

void gpu_moves_queue(struct gpu_engine *engine)
{
    struct gpu_engine *e = engine;
    if (step_header(e->step)->moves_count == 0) {
        return;
    }
    mark_left(e, false);
    take_swaps(e, &e->out, STEP_PHASE_OUT);
    take_swaps(e, &e->in, STEP_PHASE_IN);
    queue_swaps(e, &e->out, STEP_PHASE_OUT);
    if (moves_fill(e, STEP_PHASE_WITHIN, STEP_PHASE_OUT)) {
        gpu_follow(e->queue, &e->out.queue);
    }
    queue_within(e);
    queue_in(e);
    if (rows_fill(e)) {
        gpu_follow(e->queue, &e->out.queue);
    }
    mark_left(e, true);
}
