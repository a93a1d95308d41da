/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the state of the walk that makes one plan. Private to sched/. */
#include "sched/sched.h"

struct sched_walk {
    struct sched *sched;
    uint64_t now_us;
    uint32_t tokens_count;          /* of all rows */
    uint32_t budget_tokens;         /* prefill tokens that are left */
    uint32_t vain_claims_left;      /* claims for which there may be no budget */
    uint32_t residents_passed;      /* resident calls that the walk has come past */
    uint32_t victim_queue;          /* where the search for victims goes on */
    uint32_t victim;
    uint32_t stop_queue, stop_call; /* where the walk ended; CALL_NONE: it saw every call */
};

/* Its client does not read, or wants it ended. */
static inline bool sched_walk_skips(const struct call *call)
{
    return call->paused || call->cancel;
}
/* The call after this one, in the order of the walk; `queue` follows. CALL_NONE: the last one. */
uint32_t sched_walk_next(const struct sched *sched, uint32_t *queue, uint32_t call);

/* The next row of the record: `chunk` known tokens of the call from kv_tokens on, and then up to
 * `decode_steps` sampled ones (row.c). */
void sched_row_fill(struct sched_walk *walk, uint32_t call, uint32_t chunk, uint32_t decode_steps);

/* What is done behind the batch, with the calls that the walk did not reach (standby.c): rows that
 * wait for others to end; blocks that come back from the host ahead of their turn. */
void sched_standby_rows(struct sched_walk *walk);
void sched_standby_prefetch(struct sched_walk *walk);
