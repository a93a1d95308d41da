/* SPDX-License-Identifier: MIT */
/*
 * What: entry to the KV. A call that has no blocks gets its first ones only if it will keep them,
 * and if what others lose for it is paid for: else calls take turns with the blocks, and each turn
 * computes again what the one before had (docs/decisions/0120).
 *
 *   growth   beside its row there is room for half of what it, and the rows before it, are expected
 *            to grow by: half, for when the last ones grow the first ones have ended. Where calls
 *            come later from which it will take, there is room
 *   credit   it takes the blocks of later calls while there is credit for an exchange
 *            (exchange.c): what they had is computed again, and paid then. A call that was
 *            promoted needs none. One that gets no row for this leaves the engine to those that
 *            have the blocks, so there is a row
 *
 * A call that has blocks grows in any case, and takes what it needs for that. Without the active
 * set nothing is expected and nothing is paid: every call may enter, as in the paper.
 */
#include "sched/engine/active/entry.h"

#include "sched/engine/active/active.h"
#include "sched/engine/active/exchange.h"
#include "sched/engine/share/deal.h"

#define GROWTH_PARTS 2u

uint32_t sched_entry_growth(const struct call *call, const struct sched_row *row)
{
    return call->expected_tokens > row->positions ? call->expected_tokens - row->positions : 0;
}

bool sched_entry_takes(const struct sched_walk *walk, const struct call *call)
{
    const struct sched_engine *engine = walk->engine;
    return walk->takes_all || sched_call_is_resident(engine, call) ||
           sched_job_of(engine->sched, call)->promoted_from > 0 ||
           sched_active_is_off(engine->sched) || sched_exchange_may(engine);
}

static bool has_room_to_grow(const struct sched_walk *walk, const struct call *call,
                             const struct kvmem_answer *answer, const struct sched_row *row)
{
    uint32_t growth = (walk->growth_tokens + sched_entry_growth(call, row)) / GROWTH_PARTS;
    return kvmem_fits_beside(walk->engine->kv, answer, row->positions + growth);
}

bool sched_entry_is_worth_it(const struct sched_walk *walk, const struct call *call,
                             const struct kvmem_answer *answer, const struct sched_row *row)
{
    const struct sched_engine *engine = walk->engine;
    uint32_t tenant = sched_job_of(engine->sched, call)->tenant;
    return engine->planned_count == 0 || sched_call_is_resident(engine, call) ||
           has_room_to_grow(walk, call, answer, row) ||
           (sched_entry_takes(walk, call) &&
            sched_deal_has_later(engine, &engine->lanes[tenant]));
}
