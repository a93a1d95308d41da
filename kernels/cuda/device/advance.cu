/* SPDX-License-Identifier: MIT */
/*
 * What: from one round of a step to the next, on the device (config/base/step.h: which rows go on,
 * which enter, when a step ends). One thread block; a CUDA thread has every 256th place.
 *
 * Free places are counted in shared memory: the n-th one gets the n-th standby row. Only one CUDA
 * thread reads the core's early stop, because it may change in between.
 */
#include "kernels/cuda/device/goes_on.h"

enum { STOP_ROW = 1, STOP_ROUND = 2 };      /* enum step_stop */

GPU_INLINE const uint32_t *tokens_of(const struct gpu_advance *args, uint32_t row)
{
    return (const uint32_t *)args->out_tokens + (uint64_t)row * args->steps_max;
}

/* True when the place's row needs another token. */
GPU_INLINE bool goes_on(const struct gpu_advance *args, const struct gpu_place *place)
{
    if (place->slot == GPU_NONE) {
        return false;
    }
    const struct gpu_row *row = (const struct gpu_row *)args->rows + place->row;
    const struct gpu_out *out = (const struct gpu_out *)args->outs + place->row;
    return gpu_row_goes_on(row, out, tokens_of(args, place->row));
}

/* The next token slot of row `index`: the token that it sampled last, or a standby row's only
 * token. */
GPU_INLINE struct gpu_slot slot_of(const struct gpu_advance *args, uint32_t index)
{
    const struct gpu_row *row = (const struct gpu_row *)args->rows + index;
    uint32_t produced = ((const struct gpu_out *)args->outs + index)->produced;
    struct gpu_slot slot;
    slot.token = produced > 0 ? tokens_of(args, index)[produced - 1] : row->token;
    slot.position = row->first_position + row->tokens_count + produced - 1;
    slot.row = index;
    return slot;
}

/* The number of free places before `end`. */
GPU_INLINE uint32_t count_free(const uint32_t *is_free, uint32_t end)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < end; i++) {
        count += is_free[i];
    }
    return count;
}

/* The number of places that sampled. */
GPU_INLINE uint32_t count_sampled(const struct gpu_place *places, uint32_t count)
{
    uint32_t sampled = 0;
    for (uint32_t i = 0; i < count; i++) {
        sampled += places[i].slot != GPU_NONE;
    }
    return sampled;
}

/* True when the step ends after this round, in which `sampled` places sampled; in the next `next`
 * places would. */
GPU_INLINE bool has_ended(uint32_t early_stop, uint32_t sampled, uint32_t next)
{
    return next == 0 || early_stop == STOP_ROUND || (early_stop == STOP_ROW && next < sampled);
}

/* Fills the place for the next round. If it is free, it goes to row `standby`, if there is one. */
GPU_INLINE void place_fill(const struct gpu_advance *args, uint32_t p, bool is_free,
                           uint32_t standby)
{
    struct gpu_place *place = (struct gpu_place *)args->places + p;
    struct gpu_slot *slot = (struct gpu_slot *)args->slots + p;
    struct gpu_slot none = {0, 0, GPU_NONE};
    place->row = !is_free ? place->row : standby < args->rows_count ? standby : GPU_NONE;
    place->slot = place->row == GPU_NONE ? GPU_NONE : p;
    place->ahead = 0;
    *slot = place->row == GPU_NONE ? none : slot_of(args, place->row);
}

GPU_KERNEL(advance)
{
    struct gpu_round *round = (struct gpu_round *)args.round, before = *round;
    const struct gpu_place *places = (const struct gpu_place *)args.places;
    uint32_t *early_stop = (uint32_t *)gpu_shared, *is_free = early_stop + 1;
    if (before.has_ended != 0) {
        return;
    }
    if (threadIdx.x == 0) {
        *early_stop = *(volatile const uint32_t *)args.early_stop;
    }
    for (uint32_t p = threadIdx.x; p < args.own_count; p += blockDim.x) {
        is_free[p] = !goes_on(&args, &places[p]);
    }
    uint32_t sampled = count_sampled(places, args.own_count);
    __syncthreads();
    uint32_t free = count_free(is_free, args.own_count);
    uint32_t enter = gpu_smaller(free, args.rows_count - before.standby_next);
    bool ended = before.round + 1 == args.rounds_max ||
                 has_ended(*early_stop, sampled, args.own_count - free + enter);
    for (uint32_t p = threadIdx.x; p < args.own_count; p += blockDim.x) {
        uint32_t standby = ended ? GPU_NONE : before.standby_next + count_free(is_free, p);
        place_fill(&args, p, ended || is_free[p] != 0, standby);
    }
    if (threadIdx.x == 0) {
        round->round = before.round + 1;
        round->standby_next = before.standby_next + (ended ? 0 : enter);
        round->has_ended = ended;
    }
}
