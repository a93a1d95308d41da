/* SPDX-License-Identifier: MIT */
/*
 * What: what a plan does for the calls behind its batch, in their order.
 *
 *   standbys   (paper 000, section 5: over-provisioning) rows for resident calls with one token to
 *              feed. When a row ends before the step does, a standby takes its place; without
 *              them that place is empty for up to N - 1 rounds. Blocks for them come from what
 *              nobody has SAVED and no call owns.
 *   prefetch   (sched.prefetch, ours: the paper's engine does not) calls whose KV lies on the host
 *              get it moved in with this step, into blocks that are free, so that they start with
 *              the next one at once. They get no row.
 *
 * Invariants: neither takes anything from a call that the walk has chosen, nor makes a victim.
 * Bounds: the search for standbys comes past resident calls only, SCHED_STANDBY_LOOKS times
 * as many as a step has rows; the one for prefetch looks at batch_calls calls.
 */
#include "sched/plan.h"

#include "sched/residency.h"

static bool is_seen(const struct sched *sched, const struct call *call)
{
    return call->walk_sequence == sched->sequence;
}

static void consider_standby(struct sched_walk *walk, uint32_t call_index)
{
    struct sched *sched = walk->sched;
    struct call *call = sched_call(sched, call_index);
    uint32_t known = call->prompt_tokens + call->generated_tokens;
    uint32_t decode_steps = call->max_tokens - call->generated_tokens;
    uint32_t rounds = sched->settings.steps_per_plan - 1;   /* none enters in the first one */
    decode_steps = decode_steps < rounds ? decode_steps : rounds;
    uint32_t positions = known + decode_steps - 1;
    if (sched_walk_skips(call) || call->kv_tokens + 1 != known ||
        kvmem_missing(sched->kv, call_index, positions) > kvmem_spare(sched->kv)) {
        return;
    }
    sched_residency_take(sched, call_index, positions, false, walk->now_us);
    sched_row_fill(walk, call_index, 1, decode_steps);
    call->walk_sequence = sched->sequence;
    sched->stats->standbys_planned++;
}

void sched_standby_rows(struct sched_walk *walk)
{
    struct sched *sched = walk->sched;
    uint32_t rows_max = sched->planned_active + sched->settings.standby_calls;
    struct sched_cursor cursor = walk->cursor;
    uint32_t looks = SCHED_STANDBY_LOOKS *
                     (sched->settings.batch_calls + sched->settings.standby_calls);
    if (walk->at_end || sched->settings.steps_per_plan == 1) {
        return;
    }
    for (; sched->planned_count < rows_max && looks > 0; looks--) {
        uint32_t call_index = sched_cursor_next(sched, &cursor, CALL_LIST_RESIDENT);
        if (call_index == CALL_NONE) {
            return;
        }
        if (!is_seen(sched, sched_call(sched, call_index))) {
            consider_standby(walk, call_index);
        }
        sched_cursor_pass(sched, &cursor, call_index);
    }
}

static void consider_prefetch(struct sched_walk *walk, uint32_t call_index)
{
    struct sched *sched = walk->sched;
    const struct call *call = sched_call(sched, call_index);
    sched_residency_claim(sched, call_index);
    if (kvmem_call_pins(sched->kv, call_index) > 0 &&
        kvmem_missing(sched->kv, call_index, call->kv_tokens) <= kvmem_free(sched->kv)) {
        sched_residency_take(sched, call_index, call->kv_tokens, true, walk->now_us);
        sched->stats->prefetched_calls++;
    } else {
        sched_residency_give_back(sched, call_index, walk->now_us);
    }
}

void sched_standby_prefetch(struct sched_walk *walk)
{
    struct sched *sched = walk->sched;
    uint32_t looks = sched->settings.prefetch ? sched->settings.batch_calls : 0;
    for (; !walk->at_end && looks > 0; looks--) {
        uint32_t call_index = sched_cursor_next(sched, &walk->cursor, CALL_LIST_ALL);
        if (call_index == CALL_NONE) {
            return;
        }
        const struct call *call = sched_call(sched, call_index);
        if (!is_seen(sched, call) && !sched_walk_skips(call) &&
            !sched_residency_has(sched, call_index)) {
            consider_prefetch(walk, call_index);
        }
        sched_cursor_pass(sched, &walk->cursor, call_index);
    }
}
