/* SPDX-License-Identifier: MIT */
/*
 * What: which operators form an inner sequence, and writing the order.
 *
 * A sequence belongs to a node of the tree: the deepest on the path of its operators such that all
 * above its label is static, the static symbols to the first value in its label are `share_min` or
 * more, and two operators are below it. It is complete when its last operator is scheduled, and
 * then gets its number; an operator without such a node, or alone at it, is complete at once. Row
 * by row pays where the operators share a value (docs/decisions/0065): where they share static
 * tokens only, it would lose these between rows and gain nothing.
 */
#include "sched/workflow/sequence.h"

/* The node after this one, parents before children. */
static uint16_t next_node(const struct template_tree *tree, uint16_t node)
{
    if (tree->nodes[node].first_child != TEMPLATE_TREE_NONE) {
        return tree->nodes[node].first_child;
    }
    while (node != TEMPLATE_TREE_NONE && tree->nodes[node].next == TEMPLATE_TREE_NONE) {
        node = tree->nodes[node].parent;
    }
    return node == TEMPLATE_TREE_NONE ? TEMPLATE_TREE_NONE : tree->nodes[node].next;
}

static void find_groups(struct sequence_groups *groups, const struct template_tree *tree,
                        uint32_t share_min)
{
    uint16_t node = TEMPLATE_TREE_ROOT;
    groups->static_above[TEMPLATE_TREE_ROOT] = 0;
    for (; node != TEMPLATE_TREE_NONE; node = next_node(tree, node)) {
        const struct template_node *of = &tree->nodes[node];
        bool is_static, above_is_static = groups->static_above[node] != UINT32_MAX;
        uint32_t tokens = groups->static_above[node] + template_tree_static(tree, node, &is_static);
        bool may_be = above_is_static && of->op == TEMPLATE_TREE_NONE && tokens >= share_min;
        groups->group[node] = node;
        groups->by_row[node] = !is_static;
        groups->members[node] = groups->seen[node] = 0;
        if (!may_be && of->parent != TEMPLATE_TREE_NONE) {
            groups->group[node] = groups->group[of->parent];
        } else if (!may_be) {
            groups->group[node] = TEMPLATE_TREE_NONE;
        }
        for (uint16_t child = of->first_child; child != TEMPLATE_TREE_NONE;
             child = tree->nodes[child].next) {
            groups->static_above[child] = above_is_static && is_static ? tokens : UINT32_MAX;
        }
    }
}

/* Each operator's group: a node that others are in, too, or its own leaf. */
static void join_groups(struct sequence_groups *groups, const struct template_tree *tree,
                        enum sequence_kind kind)
{
    for (uint32_t op = 0; op < tree->graph->count; op++) {
        uint16_t leaf = tree->leaf[op];
        bool is_alone = kind == SEQUENCE_EACH || groups->group[leaf] == TEMPLATE_TREE_NONE;
        groups->group[leaf] = is_alone ? leaf : groups->group[leaf];
        groups->group[leaf] = kind == SEQUENCE_ALL ? TEMPLATE_TREE_ROOT : groups->group[leaf];
        groups->members[groups->group[leaf]]++;
    }
    groups->by_row[TEMPLATE_TREE_ROOT] = kind == SEQUENCE_ALL;
}

/* The place of each operator in its group, and the number of each group when it is complete. */
static void number_groups(struct sequence_groups *groups, const struct op_schedule *schedule,
                          struct workflow_order *order)
{
    for (uint32_t i = 0; i < schedule->count; i++) {
        uint16_t group = groups->group[schedule->tree->leaf[schedule->order[i]]];
        order->ops[i].place = groups->seen[group]++;
        if (groups->seen[group] == groups->members[group]) {
            groups->number[group] = order->sequences_count++;
            order->sequences[groups->number[group]] = (struct workflow_sequence){
                .ops_count = groups->members[group],
                .by_row = groups->by_row[group] && groups->members[group] > 1};
        }
    }
    for (uint32_t i = 0; i < schedule->count; i++) {
        uint16_t group = groups->group[schedule->tree->leaf[schedule->order[i]]];
        order->ops[i].sequence = groups->number[group];
    }
}

void sequence_write(struct sequence_groups *groups, const struct op_schedule *schedule,
                    enum sequence_kind kind, uint32_t share_min, struct workflow *flow)
{
    struct workflow_order *order = &flow->order;
    order->ops_count = schedule->count;
    order->sequences_count = 0;
    order->steps = schedule->now;
    for (uint32_t i = 0; i < schedule->count; i++) {
        const struct op *op = &schedule->graph->ops[schedule->order[i]];
        order->ops[i] = (struct workflow_op){
            .node = op->node, .prompt_tokens = op->prompt_tokens,
            .static_tokens = op->static_tokens, .new_tokens = schedule->new_tokens[i]};
    }
    find_groups(groups, schedule->tree, share_min);
    join_groups(groups, schedule->tree, kind);
    number_groups(groups, schedule, order);
}
