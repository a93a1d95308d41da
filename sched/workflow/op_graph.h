/* SPDX-License-Identifier: MIT */
#pragma once
/* What: what is left of a workflow when it is pruned and merged: its operators, and who depends on
 * whom (paper 002, section 4). Private to sched/workflow/. */
#include "sched/workflow/op_set.h"

/* Bounds of the cost model: a sum over all operators fits 64 bits. */
#define OP_TOKENS_MAX  (UINT32_C(1) << 31)      /* of a prompt, and of an engine's KV */
#define OP_OUT_MAX     (UINT32_C(1) << 24)

struct op_graph {
    const struct workflow *flow;
    uint32_t count;
    struct op {
        uint32_t node;
        uint32_t out;               /* tokens of its value, as foreseen */
        uint32_t prompt_tokens, static_tokens;  /* values as foreseen; before the first value */
        struct op_set depends;      /* ops whose value it reads, at once or through lambdas */
        struct op_set readers;      /* the other way round */
    } ops[WORKFLOW_LLMS_MAX];       /* in the order of nodes */
    /* private */
    uint64_t digests[WORKFLOW_NODES_MAX];       /* of what makes two nodes equal */
    struct op_set given[WORKFLOW_NODES_MAX];    /* ops on which a reader of the value depends */
};

/* Prunes, merges and counts the workflow, and fills what the nodes say of it. BAD_FLOW_SIZE: more
 * than WORKFLOW_LLMS_MAX ops are left. Cost: some hundred thousand comparisons at the very most. */
MUST_CHECK enum status op_graph_fill(struct op_graph *graph, struct workflow *flow,
                                     uint32_t input_tokens);
/* Tokens of a node's value, as foreseen. */
uint32_t op_graph_value_tokens(const struct workflow *flow, uint32_t node, uint32_t input_tokens);
