/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the optimiser of workflows (paper 002): prunes, merges, and orders what is left. It reads a
 * record that workflow_compose() has filled, and fills what the record says is sched's: `order`,
 * and of each node what lies below its banner. Integers only: the same plan on every machine.
 *
 *   op_graph       pruned and merged operators, who depends on whom
 *   template_tree  what their prompts share
 *   schedule       the cost of an order, in token steps
 *   helium         Algorithm 1; greedy: other orders
 *   sequence       which operators run together
 */
#include "sched/workflow/greedy.h"
#include "sched/workflow/helium.h"
#include "sched/workflow/sequence.h"

struct workflow_optimise_params {
    uint64_t kv_tokens;             /* M: of an engine */
    uint32_t share_min;             /* S: static tokens that make an inner sequence */
    uint32_t input_tokens;          /* of an input of which the client foresees nothing */
    enum workflow_order_kind order;
    uint64_t seed;                  /* of a random order */
};

/* For one workflow at a time, in memory of the caller's. */
struct workflow_optimiser {
    /* private */
    struct workflow *flow;
    struct workflow_optimise_params params;
    struct op_graph graph;
    struct template_tree tree;
    struct op_schedule schedule, best;
    struct helium helium;
    struct greedy greedy;
    struct sequence_groups groups;
    enum { OPTIMISE_TREE, OPTIMISE_HELIUM, OPTIMISE_GREEDY, OPTIMISE_DONE } phase;
    uint32_t next;                  /* operator of the tree, or greedy rule */
};

#define WORKFLOW_OPTIMISE_INPUT_TOKENS 64
/* Work of a call that takes a fifth of a millisecond or less (docs/decisions/0065). */
#define WORKFLOW_OPTIMISE_WORK         50000u

/* Prunes and merges; the nodes are filled when it returns. BAD_FLOW_SIZE: more operators are left
 * than one workflow may have. */
MUST_CHECK enum status workflow_optimise_begin(struct workflow_optimiser *optimiser,
                                               struct workflow *flow,
                                               const struct workflow_optimise_params *params);
/* Goes on. True when flow->order is filled. */
bool workflow_optimise_step(struct workflow_optimiser *optimiser, uint32_t work);
