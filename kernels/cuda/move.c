/* SPDX-License-Identifier: MIT */
/*
 * What: the moves of a step, before any row runs; the passes are those of step.h. Blocks that lie
 * side by side on both sides are one copy.
 * Bounds: RUN_BYTES_MAX, or a block, for one copy.
 */
#include "kernels/cuda/engine_state.h"

#define RUN_BYTES_MAX (UINT64_C(64) << 20)

static uint8_t *host_block(const struct gpu_engine *e, uint32_t block)
{
    return e->kv_host + (block - e->settings.kv_blocks) * e->kv.block_bytes;
}

static uint64_t device_block(const struct gpu_engine *e, uint32_t block)
{
    return e->kv.blocks + block * e->kv.block_bytes;
}

static bool is_of_pass(const struct gpu_engine *e, const struct step_move *move,
                       enum step_pass pass)
{
    return step_move_pass(move, e->settings.kv_blocks) == pass;
}

/* How many moves from `first` on are one copy. */
static uint32_t run_length(const struct gpu_engine *e, uint32_t first, enum step_pass pass)
{
    const struct step_move *moves = step_moves(e->step);
    uint32_t end = step_header(e->step)->moves_count, count = 1;
    while (first + count < end && (count + 1) * e->kv.block_bytes <= RUN_BYTES_MAX &&
           moves[first + count].from == moves[first].from + count &&
           moves[first + count].to == moves[first].to + count &&
           is_of_pass(e, &moves[first + count], pass)) {
        count++;
    }
    return count;
}

static void copy_run(struct gpu_engine *e, struct step_move first, uint32_t count,
                     enum step_pass pass)
{
    uint64_t bytes = count * e->kv.block_bytes;
    switch (pass) {
    case STEP_PASS_OUT:
        gpu_download(e->queue, host_block(e, first.to), device_block(e, first.from), bytes);
        break;
    case STEP_PASS_IN:
        gpu_upload(e->queue, device_block(e, first.to), host_block(e, first.from), bytes);
        break;
    case STEP_PASS_WITHIN:
    case STEP_PASSES:
        gpu_copy(e->queue, device_block(e, first.to), device_block(e, first.from), bytes);
        break;
    }
}

/* Within the device one by one: what one reads a later one may fill, and copies may not overlap. */
void gpu_moves_queue(struct gpu_engine *engine, enum step_pass pass)
{
    const struct step_move *moves = step_moves(engine->step);
    uint32_t end = step_header(engine->step)->moves_count, count;
    for (uint32_t i = 0; i < end; i += count) {
        count = 1;
        if (!is_of_pass(engine, &moves[i], pass)) {
            continue;
        }
        if (pass != STEP_PASS_WITHIN) {
            count = run_length(engine, i, pass);
        }
        copy_run(engine, moves[i], count, pass);
    }
}
