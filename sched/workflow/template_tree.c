/* SPDX-License-Identifier: MIT */
/*
 * What: building the tree, one operator after the other.
 *
 * Two literals that lie at one place are equal without a look at their tokens. Of two that differ,
 * no symbol after them is compared: values and literals take turns, so where two literals of one
 * length are equal they are the same. Hence a prompt that repeats a long literal costs its pieces.
 */
#include "sched/workflow/template_tree.h"

#include <string.h>

/* A place in the prompt of an operator. */
struct cursor {
    const struct workflow_piece *pieces;
    uint32_t pieces_count;
    struct template_place at;
};

static void skip_to_symbol(struct cursor *cursor)
{
    while (cursor->at.piece < cursor->pieces_count) {
        const struct workflow_piece *piece = &cursor->pieces[cursor->at.piece];
        uint32_t symbols = piece->node == WORKFLOW_NONE ? piece->tokens.count : 1;
        if (cursor->at.token < symbols) {
            return;
        }
        cursor->at = (struct template_place){cursor->at.piece + 1, 0};
    }
}

static struct cursor cursor_at(const struct template_tree *tree, uint32_t op,
                               struct template_place at)
{
    const struct workflow *flow = tree->graph->flow;
    const struct workflow_node *node = &flow->nodes[tree->graph->ops[op].node];
    struct cursor cursor = {flow->pieces + node->pieces_first, node->pieces_count, at};
    skip_to_symbol(&cursor);
    return cursor;
}

static bool is_at_end(const struct cursor *cursor)
{
    return cursor->at.piece == cursor->pieces_count;
}

static bool is_at(const struct cursor *cursor, struct template_place place)
{
    return cursor->at.piece == place.piece && cursor->at.token == place.token;
}

/* The node whose value the symbol is; WORKFLOW_NONE: it is a token. */
static uint32_t value_at(const struct template_tree *tree, const struct cursor *cursor)
{
    uint32_t node = cursor->pieces[cursor->at.piece].node;
    return node == WORKFLOW_NONE ? WORKFLOW_NONE : tree->graph->flow->nodes[node].same_as;
}

static const uint32_t *token_at(const struct template_tree *tree, const struct cursor *cursor)
{
    const struct workflow_piece *piece = &cursor->pieces[cursor->at.piece];
    return tree->graph->flow->tokens + piece->tokens.first + cursor->at.token;
}

/* Tokens of the literal before its end, or before `end`, if that comes first. */
static uint32_t tokens_left(const struct cursor *cursor, const struct template_place *end)
{
    uint32_t until = cursor->pieces[cursor->at.piece].tokens.count;
    bool ends_here = end != NULL && end->piece == cursor->at.piece && end->token < until;
    return (ends_here ? end->token : until) - cursor->at.token;
}

static void advance(struct cursor *cursor, uint32_t symbols)
{
    cursor->at.token += symbols;
    skip_to_symbol(cursor);
}

static bool begins_alike(const struct template_tree *tree, const struct cursor *a,
                         const struct cursor *b)
{
    uint32_t value = value_at(tree, a);
    return value == value_at(tree, b) &&
           (value != WORKFLOW_NONE || *token_at(tree, a) == *token_at(tree, b));
}

/* Advances both over the symbols that they share, the label up to its end. Returns their tokens. */
static uint64_t match(struct template_tree *tree, struct cursor *label,
                      const struct template_place *label_end, struct cursor *own)
{
    uint64_t tokens = 0;
    while (!is_at(label, *label_end) && !is_at_end(own) && begins_alike(tree, label, own)) {
        uint32_t value = value_at(tree, label), count = 1;
        tree->work++;
        if (value == WORKFLOW_NONE) {
            const uint32_t *of_label = token_at(tree, label), *of_own = token_at(tree, own);
            uint32_t a = tokens_left(label, label_end), b = tokens_left(own, NULL);
            uint32_t most = a < b ? a : b;
            while (of_label != of_own && count < most && of_label[count] == of_own[count]) {
                count++;
                tree->work++;
            }
            count = of_label == of_own ? most : count;
        }
        tokens += value == WORKFLOW_NONE
                      ? count : op_graph_value_tokens(tree->graph->flow, value, tree->input_tokens);
        advance(label, count);
        advance(own, count);
    }
    return tokens;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

void template_tree_init(struct template_tree *tree, const struct op_graph *graph,
                        uint32_t input_tokens)
{
    tree->graph = graph;
    tree->input_tokens = input_tokens;
    tree->count = 1;
    tree->nodes[TEMPLATE_TREE_ROOT] = (struct template_node){
        .parent = TEMPLATE_TREE_NONE, .first_child = TEMPLATE_TREE_NONE,
        .last_child = TEMPLATE_TREE_NONE, .next = TEMPLATE_TREE_NONE, .op = TEMPLATE_TREE_NONE};
}

static uint32_t capped(uint64_t tokens)
{
    return tokens < OP_TOKENS_MAX ? (uint32_t)tokens : OP_TOKENS_MAX;
}

/* A leaf for what is left of the prompt, after all children that are there. */
static void append_leaf(struct template_tree *tree, uint16_t parent, uint32_t op,
                        const struct cursor *rest)
{
    uint16_t leaf = (uint16_t)tree->count++;
    struct template_node *above = &tree->nodes[parent];
    ASSERT(tree->count <= TEMPLATE_TREE_NODES_MAX);
    tree->nodes[leaf] = (struct template_node){
        .parent = parent, .first_child = TEMPLATE_TREE_NONE, .last_child = TEMPLATE_TREE_NONE,
        .next = TEMPLATE_TREE_NONE, .op = (uint16_t)op, .label_op = (uint16_t)op,
        .begin = rest->at, .end = {rest->pieces_count, 0},
        .tokens = tree->graph->ops[op].prompt_tokens};
    op_set_add(&tree->nodes[leaf].leaves, op);
    if (above->last_child == TEMPLATE_TREE_NONE) {
        above->first_child = leaf;
    } else {
        tree->nodes[above->last_child].next = leaf;
    }
    above->last_child = leaf;
    tree->leaf[op] = leaf;
}

/* Puts a new node in the place of this one, with the label up to `middle` and this one below it. */
static uint16_t split(struct template_tree *tree, uint16_t node, struct template_place middle,
                      uint32_t tokens)
{
    uint16_t upper = (uint16_t)tree->count++;
    struct template_node *lower = &tree->nodes[node], *parent = &tree->nodes[lower->parent];
    ASSERT(tree->count <= TEMPLATE_TREE_NODES_MAX);
    tree->nodes[upper] = *lower;
    tree->nodes[upper].op = TEMPLATE_TREE_NONE;
    tree->nodes[upper].end = middle;
    tree->nodes[upper].tokens = tokens;
    tree->nodes[upper].first_child = tree->nodes[upper].last_child = node;
    if (parent->first_child == node) {
        parent->first_child = upper;
    }
    for (uint16_t child = parent->first_child; child != TEMPLATE_TREE_NONE;
         child = tree->nodes[child].next) {
        tree->nodes[child].next = tree->nodes[child].next == node ? upper : tree->nodes[child].next;
    }
    parent->last_child = parent->last_child == node ? upper : parent->last_child;
    lower->parent = upper;
    lower->next = TEMPLATE_TREE_NONE;
    lower->begin = middle;
    return upper;
}

/* The child whose label begins with the symbol here. */
static uint16_t child_for(struct template_tree *tree, uint16_t node, const struct cursor *own)
{
    uint16_t child = tree->nodes[node].first_child;
    for (; child != TEMPLATE_TREE_NONE; child = tree->nodes[child].next) {
        const struct template_node *of = &tree->nodes[child];
        const struct cursor label = cursor_at(tree, of->label_op, of->begin);
        tree->work++;
        if (!is_at(&label, of->end) && begins_alike(tree, &label, own)) {
            break;
        }
    }
    return child;
}

void template_tree_add(struct template_tree *tree, uint32_t op)
{
    struct cursor own = cursor_at(tree, op, (struct template_place){0, 0});
    uint16_t node = TEMPLATE_TREE_ROOT;
    tree->work = 0;
    for (;;) {
        op_set_add(&tree->nodes[node].leaves, op);
        uint16_t child = is_at_end(&own) ? TEMPLATE_TREE_NONE : child_for(tree, node, &own);
        if (child == TEMPLATE_TREE_NONE) {
            append_leaf(tree, node, op, &own);
            return;
        }
        const struct template_place end = tree->nodes[child].end;
        struct cursor label = cursor_at(tree, tree->nodes[child].label_op,
                                        tree->nodes[child].begin);
        uint64_t tokens = tree->nodes[node].tokens + match(tree, &label, &end, &own);
        bool is_inner = tree->nodes[child].op == TEMPLATE_TREE_NONE;
        node = is_at(&label, end) && is_inner ? child
                                              : split(tree, child, label.at, capped(tokens));
    }
}

uint32_t template_tree_static(const struct template_tree *tree, uint32_t node, bool *is_static)
{
    const struct template_node *of = &tree->nodes[node];
    uint32_t tokens = 0;
    *is_static = true;
    if (node == TEMPLATE_TREE_ROOT) {
        return 0;
    }
    struct cursor label = cursor_at(tree, of->label_op, of->begin);
    while (*is_static && !is_at(&label, of->end)) {
        *is_static = value_at(tree, &label) == WORKFLOW_NONE;
        uint32_t count = *is_static ? tokens_left(&label, &of->end) : 0;
        tokens += count;
        advance(&label, count);
    }
    return tokens;
}

void template_tree_check(const struct template_tree *tree)
{
    for (uint32_t n = 0; n < tree->count; n++) {
        const struct template_node *of = &tree->nodes[n];
        struct op_set below = {{0}};
        uint16_t last = TEMPLATE_TREE_NONE;
        for (uint16_t child = of->first_child; child != TEMPLATE_TREE_NONE;
             last = child, child = tree->nodes[child].next) {
            const struct template_node *its = &tree->nodes[child];
            ASSERT(its->parent == n && its->tokens >= of->tokens);
            ASSERT(!op_set_meet(below, its->leaves));
            below = op_set_union(below, its->leaves);
        }
        ASSERT(last == of->last_child);
        if (of->op != TEMPLATE_TREE_NONE) {
            ASSERT(of->first_child == TEMPLATE_TREE_NONE && tree->leaf[of->op] == n);
            op_set_add(&below, of->op);
        }
        ASSERT(memcmp(&below, &of->leaves, sizeof below) == 0);
        ASSERT(n == TEMPLATE_TREE_ROOT || of->op != TEMPLATE_TREE_NONE ||
               of->first_child != of->last_child);
    }
}
