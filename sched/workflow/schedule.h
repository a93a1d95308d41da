/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a schedule of operators under way, and its cost in token steps (paper 002, section 5). All
 * costs are the paper's times M, the tokens of an engine's KV, so they are integers:
 *
 *   u(op) = out * new + out * (out + 1) / 2      new: tokens not shared with the op before
 *   e(op) = greatest of completion + M * out, over what it depends on; 0 without
 *   start = greater of now and e, completion = start + u, now = completion
 *
 * Every operator comes after what it depends on. Private to sched/workflow/.
 */
#include "sched/workflow/template_tree.h"

struct op_schedule {
    const struct op_graph *graph;
    const struct template_tree *tree;
    uint64_t kv_tokens;             /* M */
    uint64_t now;
    uint32_t count;
    struct op_set left, ready;      /* not scheduled; those of them that depend on none of `left` */
    uint64_t earliest[WORKFLOW_LLMS_MAX];       /* e, of what is ready */
    uint32_t shared[WORKFLOW_LLMS_MAX];         /* of what is left: tokens, with the last one */
    uint8_t order[WORKFLOW_LLMS_MAX];           /* [count] */
    uint32_t new_tokens[WORKFLOW_LLMS_MAX];     /* [count] */
};

void op_schedule_init(struct op_schedule *schedule, const struct template_tree *tree,
                      uint64_t kv_tokens);
/* Appends an operator that is ready. O(operators). */
void op_schedule_put(struct op_schedule *schedule, uint32_t op);

static inline uint32_t op_schedule_new(const struct op_schedule *schedule, uint32_t op)
{
    return schedule->graph->ops[op].prompt_tokens - schedule->shared[op];
}
/* u, if the operator were next. */
static inline uint64_t op_schedule_use(const struct op_schedule *schedule, uint32_t op)
{
    uint64_t out = schedule->graph->ops[op].out;
    return out * op_schedule_new(schedule, op) + out * (out + 1) / 2;
}
static inline bool op_schedule_is_done(const struct op_schedule *schedule)
{
    return op_set_is_empty(schedule->left);
}
