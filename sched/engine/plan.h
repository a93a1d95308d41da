/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the state of the walk that makes one plan. Private to sched/. */
#include "sched/engine/queue.h"

#define SCHED_STANDBY_LOOKS 2           /* resident calls looked at, for each row of a step */

struct sched_walk {
    struct sched_engine *engine;
    uint64_t now_us;
    uint32_t tokens_count;          /* of all rows */
    uint32_t budget_tokens;         /* prefill tokens that are left */
    uint32_t vain_looks_left;       /* at calls that may need budget, when there is none */
    bool at_end;                    /* the walk has come past all calls */
    uint32_t reserved_tokens;       /* of KV, for what the rows so far will grow by (entry.h) */
    bool takes_all;                 /* calls of every tenant are victims (deal.c) */
    bool is_trial;                  /* for suspects alone (suspicion.h) */
    uint32_t rows_max;              /* of the batch */
};

/* A call has arrived: ends the running step early if the call can then have a row, a free one or
 * that of a call in a lower queue. O(1). */
void sched_plan_arrival(struct sched_engine *engine, const struct call *call);

/* True when the walk of this plan has come past the call. */
static inline bool sched_walk_has_passed(const struct sched_engine *engine,
                                         const struct call *call)
{
    return call->walk_sequence == engine->sequence;
}

/* What a row does (row.c). */
struct sched_row {
    uint32_t chunk;                 /* known tokens to feed; 0: there is no budget for any */
    uint32_t decode_steps;          /* then this many are sampled */
    uint32_t positions;             /* that the call's KV then holds */
};
/* The row of a call of which the first `held` positions are in the KV. */
struct sched_row sched_row_after(const struct sched_walk *walk, const struct call *call,
                                 uint32_t held);
/* Fills the next row of the record, which feeds the call from kv_tokens on. */
void sched_row_fill(struct sched_walk *walk, const struct call *call, const struct sched_row *row);
/* Copies the call's last `count` tokens into the row's past (step_past()). O(count). */
void sched_row_fill_past(const struct step *step, uint32_t index, const struct call *call,
                         uint32_t count);

/* What is done after the batch, with the calls that the walk did not reach (standby.c): rows that
 * wait for others to end; blocks that come back from the host ahead of their turn. */
void sched_standby_rows(struct sched_walk *walk);
void sched_standby_prefetch(struct sched_walk *walk);
