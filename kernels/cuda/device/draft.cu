/* SPDX-License-Identifier: MIT */
/*
 * What: the draft of a row for the next round: what came after the last of the longest matches in
 * its text, as kernels/round/draft.c finds it. There is a thread block for each place of a row.
 *
 * The thread block goes from the end of the text to its beginning. Each CUDA thread compares one
 * place at a time; of all places that match only the first DRAFT_LOOKS_MAX count, so they are
 * numbered.
 */
#include "kernels/cuda/device/largest.h"
#include "kernels/round/draft.h"

struct text {
    const uint32_t *past;               /* [past_count] */
    uint32_t *produced;                 /* [count - past_count]: in this step */
    uint32_t past_count, count;
};

struct search {
    /* Shared. */
    uint32_t *matched;                  /* (GPU_WARPS_MAX): a bit for each CUDA thread */
    struct largest *largest;            /* (GPU_WARPS_MAX) */
    uint32_t looks;                     /* places that matched so far */
};

GPU_INLINE uint32_t token_at(const struct text *text, uint32_t index)
{
    return index < text->past_count ? text->past[index]
                                    : text->produced[index - text->past_count];
}

/* Number of tokens before `at` that agree with the end of the text. */
GPU_INLINE uint32_t match_before(const struct text *text, uint32_t at)
{
    uint32_t match = 0;
    while (match < DRAFT_MATCH_MAX && match < at &&
           token_at(text, at - 1 - match) == token_at(text, text->count - 1 - match)) {
        match++;
    }
    return match;
}

/* The number of this CUDA thread's match, from the end of the text; they go on from `looks`. */
GPU_INLINE uint32_t look_number(struct search *s, bool has_matched)
{
    const uint32_t warp = threadIdx.x / GPU_WARP, lane = threadIdx.x % GPU_WARP;
    uint32_t bits = gpu_warp_ballot(has_matched), number = s->looks;
    if (lane == 0) {
        s->matched[warp] = bits;
    }
    __syncthreads();
    for (uint32_t w = 0; w < blockDim.x / GPU_WARP; w++) {
        uint32_t count = (uint32_t)__popc(s->matched[w]);
        number += w < warp ? count : 0;
        s->looks += count;
    }
    return number + (uint32_t)__popc(bits & ((1u << lane) - 1));
}

/* The index of the token that followed the longest match; 0: there is none. */
GPU_INLINE uint32_t find_longest(const struct text *text, struct search *s)
{
    struct largest own = largest_none();    /* its id: how far from the end of the text */
    uint32_t before = 1;
    while (before + DRAFT_MATCH_MIN <= text->count && s->looks < DRAFT_LOOKS_MAX) {
        uint32_t id = before + threadIdx.x;
        uint32_t match = id + DRAFT_MATCH_MIN <= text->count
                             ? match_before(text, text->count - id) : 0;
        bool has_matched = match >= DRAFT_MATCH_MIN;
        if (look_number(s, has_matched) < DRAFT_LOOKS_MAX && has_matched) {
            const struct largest of = {(float)match, id, 0};
            largest_add(&own, of);
        }
        before += blockDim.x;
        __syncthreads();
    }
    const struct largest all = largest_of_all(own, s->largest);
    return all.id != GPU_NONE ? text->count - all.id : 0;
}

GPU_INLINE struct text text_of(const struct gpu_draft *args, uint32_t r)
{
    const struct gpu_row *row = (const struct gpu_row *)args->rows + r;
    struct text text;
    text.past = (const uint32_t *)args->past + r * args->past_max;
    text.produced = (uint32_t *)args->out_tokens + (uint64_t)r * args->steps_max;
    text.past_count = row->past_count;
    text.count = row->past_count + ((const struct gpu_out *)args->outs)[r].produced;
    return text;
}

/* The place of the draft's `i`-th token and its slot, whose index it has; or neither. One CUDA
 * thread. */
GPU_INLINE void place_fill(const struct gpu_draft *args, uint32_t r, uint32_t i,
                           struct gpu_slot slot)
{
    uint32_t index = ((const struct gpu_row *)args->rows)[r].draft_place + i;
    struct gpu_place *place = (struct gpu_place *)args->places + index;
    place->row = slot.row;
    place->slot = slot.row == GPU_NONE ? GPU_NONE : index;
    place->ahead = i + 1;
    ((struct gpu_slot *)args->slots)[index] = slot;
}

/* Writes the draft after the row's tokens; beyond the end of the text it goes on. One CUDA
 * thread. */
GPU_INLINE void draft_write(const struct gpu_draft *args, uint32_t r, const struct text *text,
                            uint32_t from, uint32_t count)
{
    const struct gpu_slot own = ((const struct gpu_slot *)args->slots)[r], none = {0, 0, GPU_NONE};
    const uint32_t produced = text->count - text->past_count;
    for (uint32_t i = 0; i < ((const struct gpu_row *)args->rows)[r].drafts; i++) {
        struct gpu_slot slot = none;
        if (i < count) {
            slot.token = text->produced[produced + i] = token_at(text, from + i);
            slot.position = own.position + 1 + i;
            slot.row = r;
        }
        place_fill(args, r, i, slot);
    }
}

GPU_KERNEL_OF_FEW(draft)
{
    const uint32_t r = blockIdx.x;
    const struct gpu_row *row = (const struct gpu_row *)args.rows + r;
    const struct gpu_place *place = (const struct gpu_place *)args.places + r;
    uint32_t from = 0, most = 0;
    struct search search;
    if (row->drafts == 0) {
        return;
    }
    const struct text text = text_of(&args, r);
    search.matched = (uint32_t *)gpu_shared;
    search.largest = (struct largest *)(search.matched + GPU_WARPS_MAX);
    search.looks = 0;
    if (place->row == r) {              /* else a standby row has it */
        most = gpu_smaller(row->drafts,
                           row->decode_steps - (text.count - text.past_count) - 1);
    }
    if (most > 0 && text.count > DRAFT_MATCH_MIN) {     /* a search reads the whole text */
        from = find_longest(&text, &search);
    }
    if (threadIdx.x == 0) {
        draft_write(&args, r, &text, from, from > 0 ? most : 0);
    }
}
