/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the inner sequences of an order (paper 002, section 5): operators that share a static
 * prefix run together, row by row where they share a value, too. Private to sched/workflow/. */
#include "sched/workflow/schedule.h"

enum sequence_kind {
    SEQUENCE_SHARED,                /* by static prefixes of `share_min` tokens or more */
    SEQUENCE_EACH,                  /* every operator is one */
    SEQUENCE_ALL,                   /* all operators are one, row by row */
};
/* What sequences are made of; the caller's scratch. */
struct sequence_groups {
    uint16_t group[TEMPLATE_TREE_NODES_MAX];    /* of a node: the deepest, from it up */
    uint32_t static_above[TEMPLATE_TREE_NODES_MAX];     /* UINT32_MAX: a value is above it */
    bool by_row[TEMPLATE_TREE_NODES_MAX];
    uint32_t members[TEMPLATE_TREE_NODES_MAX], seen[TEMPLATE_TREE_NODES_MAX];
    uint32_t number[TEMPLATE_TREE_NODES_MAX];
};

/* Writes flow->order from a schedule that is done. O(nodes of the tree and their labels). */
void sequence_write(struct sequence_groups *groups, const struct op_schedule *schedule,
                    enum sequence_kind kind, uint32_t share_min, struct workflow *flow);
