/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a virtual device: its KV, the step that it has in flight, and when that is done. All
 * devices of a run have one clock and are of one machine (cost.h); each has its own lanes for
 * copies.
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/step.h"
#include "kvmem/kvmem.h"
#include "tools/lab/device/cost.h"

struct lab_block {                  /* of KV */
    uint64_t moved_in;              /* the step that last filled it from the host */
    uint64_t step;                  /* of which the marks are (memory.c) */
    uint32_t marks;
};

struct lab_engine {
    uint32_t index;
    struct step step;               /* its record */
    const struct kvmem *kv;
    struct cost_row *rows;          /* [rows_max]: of the step in flight */
    struct cost_draft *drafts;      /* [rows_max][steps_max]: of its rows, round by round */
    struct lab_block *blocks;       /* [KV blocks] */
    bool in_flight;
    uint64_t step_began_us, rounds_begin_us, due_us;    /* of the step in flight */
    uint64_t copies_done_us;
    struct cost_round costs[COST_ROUNDS_MAX];   /* end_us: since rounds_begin_us */
    uint32_t rounds, rows_ran;      /* rounds that it has; rows that run */
    uint64_t down_until_us;         /* it died, and is back then */
};
