/* SPDX-License-Identifier: MIT */
/*
 * What: entry to the KV. A call that has no blocks gets its first ones only if it will keep them,
 * and if what others lose for it is paid for: else calls take turns with the blocks, and each turn
 * computes again what the one before had (docs/decisions/0120).
 *
 *   reserve  beside its row there is room for the rest of its prompt, and that of the rows before
 *            it, and for a quarter of what they all are expected to say yet: calls end at different
 *            times, and what ends leaves its blocks to the others. Where the host holds what a call
 *            loses, that costs little, and none is reserved for what is only expected
 *   credit   where calls come later, it takes their blocks while there is credit for an exchange
 *            (exchange.c): what they had is computed again, and paid then. A call that was promoted
 *            needs none. One that gets no row for this leaves the engine to those that have the
 *            blocks, so there is a row
 *
 * A call that has blocks grows in any case, and takes what it needs for that. Without the active
 * set nothing is expected and nothing is paid: every call may enter, as in the paper.
 */
#include "sched/engine/active/entry.h"

#include "sched/engine/active/active.h"
#include "sched/engine/active/exchange.h"
#include "sched/engine/share/deal.h"

#define EXPECTED_PARTS 4u

/* As long as no call has ended it is not known how long answers are. */
static uint32_t expected_output(const struct sched *sched, const struct call *call)
{
    uint64_t mean = sched->output_tokens;
    uint32_t left = call->max_tokens - call->generated_tokens;
    uint64_t expected = mean > call->generated_tokens ? mean - call->generated_tokens : 0;
    return expected < left ? (uint32_t)expected : left;
}

uint32_t sched_entry_reserve(const struct sched_engine *engine, const struct call *call,
                             const struct sched_row *row)
{
    uint32_t known = sched_call_known(call);
    if (sched_active_is_off(engine->sched)) {
        return 0;
    }
    uint32_t expected = sched_exchange_is_held(engine) ? 0 : expected_output(engine->sched, call);
    return (known > row->positions ? known - row->positions : 0) + expected / EXPECTED_PARTS;
}

bool sched_entry_takes(const struct sched_walk *walk, const struct call *call)
{
    const struct sched_engine *engine = walk->engine;
    return walk->takes_all || sched_call_is_resident(engine, call) ||
           sched_job_of(engine->sched, call)->promoted_from > 0 ||
           sched_active_is_off(engine->sched) || sched_exchange_may(engine);
}

static bool has_room(const struct sched_walk *walk, const struct call *call,
                     const struct kvmem_answer *answer, const struct sched_row *row)
{
    uint32_t reserve = walk->reserved_tokens + sched_entry_reserve(walk->engine, call, row);
    return kvmem_fits_beside(walk->engine->kv, answer, row->positions + reserve);
}

bool sched_entry_is_worth_it(const struct sched_walk *walk, const struct call *call,
                             const struct kvmem_answer *answer, const struct sched_row *row)
{
    const struct sched_engine *engine = walk->engine;
    const struct sched_lane *lane = &engine->lanes[sched_job_of(engine->sched, call)->tenant];
    if (sched_call_is_resident(engine, call) || has_room(walk, call, answer, row)) {
        return true;
    }
    return sched_deal_has_later(engine, lane) ? sched_entry_takes(walk, call)
                                              : engine->planned_count == 0;
}
