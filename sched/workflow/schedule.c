/* SPDX-License-Identifier: MIT */
/*
 * What: appending to a schedule, and its clock.
 *
 * Bounds: 128 ops of at most 2^24 tokens, prompts and M of at most 2^31: the clock stays below
 * 2^64.
 */
#include "sched/workflow/schedule.h"

void op_schedule_init(struct op_schedule *schedule, const struct template_tree *tree,
                      uint64_t kv_tokens)
{
    const struct op_graph *graph = tree->graph;
    schedule->graph = graph;
    schedule->tree = tree;
    schedule->kv_tokens = kv_tokens < OP_TOKENS_MAX ? kv_tokens : OP_TOKENS_MAX;
    schedule->now = 0;
    schedule->count = 0;
    schedule->left = schedule->ready = (struct op_set){{0}};
    for (uint32_t op = 0; op < graph->count; op++) {
        schedule->earliest[op] = 0;
        schedule->shared[op] = 0;
        op_set_add(&schedule->left, op);
        if (op_set_is_empty(graph->ops[op].depends)) {
            op_set_add(&schedule->ready, op);
        }
    }
}

/* What each op that is left shares with this one: the prompt down to where their paths part. */
static void share(struct op_schedule *schedule, uint32_t last)
{
    const struct template_tree *tree = schedule->tree;
    struct op_set known = {{0}};
    uint16_t node = tree->leaf[last];
    for (; node != TEMPLATE_TREE_NONE; node = tree->nodes[node].parent) {
        const struct template_node *of = &tree->nodes[node];
        struct op_set part = op_set_both(op_set_without(of->leaves, known), schedule->left);
        OP_SET_EACH(op, part) {
            schedule->shared[op] = of->tokens;
        }
        known = of->leaves;
    }
}

static void free_readers(struct op_schedule *schedule, uint32_t op)
{
    const struct op_graph *graph = schedule->graph;
    uint64_t earliest = schedule->now + schedule->kv_tokens * graph->ops[op].out;
    OP_SET_EACH(reader, graph->ops[op].readers) {
        if (schedule->earliest[reader] < earliest) {
            schedule->earliest[reader] = earliest;
        }
        if (!op_set_meet(graph->ops[reader].depends, schedule->left)) {
            op_set_add(&schedule->ready, reader);
        }
    }
}

void op_schedule_put(struct op_schedule *schedule, uint32_t op)
{
    ASSERT(op_set_has(schedule->ready, op));
    uint64_t earliest = schedule->earliest[op];
    schedule->new_tokens[schedule->count] = op_schedule_new(schedule, op);
    schedule->now = (schedule->now > earliest ? schedule->now : earliest) +
                    op_schedule_use(schedule, op);
    schedule->order[schedule->count++] = (uint8_t)op;
    op_set_remove(&schedule->left, op);
    op_set_remove(&schedule->ready, op);
    share(schedule, op);
    free_readers(schedule, op);
}
