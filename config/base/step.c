/* SPDX-License-Identifier: MIT */
/*
 * What: the geometry of a step record, and the proof that comes with its results.
 * Invariant: the proof believes no count that the worker has written.
 */
#include "config/base/step.h"

#include "config/base/assert.h"
#include "config/base/bounds.h"
#include "config/base/fnv.h"

STATIC_ASSERT(sizeof(struct step_header) <= ARENA_ALIGN_BYTES, "the header is one cache line");

static uint64_t page_ceil(uint64_t bytes)
{
    return (bytes + STEP_PAGE_BYTES - 1) / STEP_PAGE_BYTES * STEP_PAGE_BYTES;
}

static uint64_t section(uint64_t *end, uint64_t count, uint64_t size_bytes)
{
    uint64_t start = *end;
    *end = start + arena_ceil(count * size_bytes);
    return start;
}

void step_layout_init(struct step_layout *layout)
{
    uint64_t rows_max = layout->rows_max;
    uint64_t end = ARENA_ALIGN_BYTES;
    ASSERT(rows_max > 0 && layout->steps_max > 0);
    ASSERT(layout->tokens_max >= rows_max && layout->blocks_per_call > 0);
    layout->moves_offset = section(&end, layout->moves_max, sizeof(struct step_move));
    layout->rows_offset = section(&end, rows_max, sizeof(struct step_row));
    layout->tokens_offset = section(&end, layout->tokens_max, sizeof(uint32_t));
    layout->blocks_offset = section(&end, rows_max * layout->blocks_per_call, sizeof(uint32_t));
    layout->past_offset = section(&end, rows_max * layout->past_max, sizeof(uint32_t));
    end = page_ceil(end);
    layout->worker_offset = section(&end, 1, sizeof(struct step_progress));
    layout->outs_offset = section(&end, rows_max, sizeof(struct step_out));
    layout->out_tokens_offset = section(&end, rows_max * layout->steps_max, sizeof(uint32_t));
    layout->logprobs_offset = section(&end, rows_max * layout->steps_max * layout->logprobs_max,
                                      sizeof(struct call_logprob));
    layout->total_bytes = page_ceil(end);       /* another may follow */
}

static uint64_t add_row(uint64_t digest, const struct step *step, uint32_t row)
{
    const struct step_out *out = step_out(step, row);
    uint64_t produced = lesser(out->produced, step->layout.steps_max);
    uint64_t entries = lesser(call_logprob_entries(&step_row(step, row)->sampling),
                              step->layout.logprobs_max);
    digest = fnv_add_words(digest, out, sizeof *out);
    digest = fnv_add_words(digest, step_out_tokens(step, row), produced * sizeof(uint32_t));
    return fnv_add_words(digest, step_logprobs(step, row, 0),
                         produced * entries * sizeof(struct call_logprob));
}

uint64_t step_proof(const struct step *step, uint32_t sequence)
{
    uint64_t digest = fnv_add_words(FNV_START, &sequence, sizeof sequence);
    digest = fnv_add_words(digest, step_progress(step), sizeof(struct step_progress));
    for (uint32_t i = 0; i < step_header(step)->rows_count; i++) {
        digest = add_row(digest, step, i);
    }
    return digest;
}
