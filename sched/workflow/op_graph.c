/* SPDX-License-Identifier: MIT */
/*
 * What: pruning, merging, and what depends on what.
 *
 * Nodes are in topological order, as every operand is an earlier node. So pruning is one walk
 * backwards, and merging one walk forwards, which meets a node when its operands are merged. TEXT
 * nodes are inlined: only one that is an output is needed itself, and none is merged.
 *
 * Equal are LLM nodes, or LAMBDA nodes of one name, with equal pieces, max_tokens, sampling and
 * stops; what the client foresees (est) makes no difference, so the first one's counts. A seed
 * counts for a greedy call, too: the specification lists it without a condition.
 */
#include "sched/workflow/op_graph.h"

#include <string.h>

#include "config/base/fnv.h"

static bool is_operator(const struct workflow_node *node)
{
    return node->kind == WORKFLOW_LLM || node->kind == WORKFLOW_LAMBDA;
}

/* The node whose value a piece is, after merging; WORKFLOW_NONE: a literal. */
static uint32_t value_of(const struct workflow *flow, const struct workflow_piece *piece)
{
    return piece->node == WORKFLOW_NONE ? WORKFLOW_NONE : flow->nodes[piece->node].same_as;
}

static const struct workflow_piece *pieces_of(const struct workflow *flow, uint32_t node)
{
    return flow->pieces + flow->nodes[node].pieces_first;
}

uint32_t op_graph_value_tokens(const struct workflow *flow, uint32_t node, uint32_t input_tokens)
{
    const struct workflow_node *of = &flow->nodes[node];
    uint32_t unknown = of->kind == WORKFLOW_INPUT ? input_tokens : of->max_tokens;
    uint32_t tokens = of->est_tokens > 0 ? of->est_tokens : unknown;
    return tokens < OP_OUT_MAX ? tokens : OP_OUT_MAX;
}

/* ---- prune ----------------------------------------------------------------------------------- */

static void prune(struct workflow *flow)
{
    for (uint32_t n = 0; n < flow->nodes_count; n++) {
        flow->nodes[n].is_needed = false;
        flow->nodes[n].same_as = n;
    }
    for (uint32_t i = 0; i < flow->outputs_count; i++) {
        flow->nodes[flow->outputs[i]].is_needed = true;
    }
    for (uint32_t n = flow->nodes_count; n-- > 0;) {
        const struct workflow_piece *pieces = pieces_of(flow, n);
        for (uint32_t i = 0; flow->nodes[n].is_needed && i < flow->nodes[n].pieces_count; i++) {
            if (pieces[i].node != WORKFLOW_NONE) {
                ASSERT(pieces[i].node < n);
                flow->nodes[pieces[i].node].is_needed = true;
            }
        }
    }
}

/* ---- merge ----------------------------------------------------------------------------------- */

static uint64_t digest_of(const struct workflow *flow, uint32_t node)
{
    const struct workflow_node *of = &flow->nodes[node];
    const struct workflow_piece *pieces = pieces_of(flow, node);
    const uint32_t head[] = {of->kind, of->pieces_count, of->max_tokens};
    uint64_t digest = fnv_add_words(FNV_START, head, sizeof head);
    digest = fnv_add_words(digest, &of->call, sizeof of->call);
    digest = fnv_add_words(digest, of->name, sizeof of->name);
    for (uint32_t i = 0; i < of->pieces_count; i++) {
        const uint32_t piece[] = {value_of(flow, &pieces[i]), pieces[i].tokens.first,
                                  pieces[i].tokens.count};
        bool is_value = piece[0] != WORKFLOW_NONE;
        digest = fnv_add_words(digest, piece, is_value ? sizeof piece[0] : sizeof piece);
    }
    return digest;
}

/* Equal literals are kept once (compose.c), so equal ones lie at one place. */
static bool pieces_equal(const struct workflow *flow, uint32_t a, uint32_t b)
{
    const struct workflow_piece *of_a = pieces_of(flow, a), *of_b = pieces_of(flow, b);
    for (uint32_t i = 0; i < flow->nodes[a].pieces_count; i++) {
        uint32_t value = value_of(flow, &of_a[i]);
        bool is_equal = value == value_of(flow, &of_b[i]) &&
                        (value != WORKFLOW_NONE ||
                         (of_a[i].tokens.first == of_b[i].tokens.first &&
                          of_a[i].tokens.count == of_b[i].tokens.count));
        if (!is_equal) {
            return false;
        }
    }
    return true;
}

static bool nodes_equal(const struct workflow *flow, uint32_t a, uint32_t b)
{
    const struct workflow_node *of_a = &flow->nodes[a], *of_b = &flow->nodes[b];
    return of_a->kind == of_b->kind && of_a->pieces_count == of_b->pieces_count &&
           of_a->max_tokens == of_b->max_tokens &&
           memcmp(of_a->name, of_b->name, sizeof of_a->name) == 0 &&
           memcmp(&of_a->call, &of_b->call, sizeof of_a->call) == 0 && pieces_equal(flow, a, b);
}

static void merge(struct op_graph *graph, struct workflow *flow)
{
    struct workflow_order *order = &flow->order;
    for (uint32_t n = 0; n < flow->nodes_count; n++) {
        struct workflow_node *node = &flow->nodes[n];
        if (!is_operator(node)) {
            continue;
        }
        order->given++;
        order->pruned += !node->is_needed;
        graph->digests[n] = node->is_needed ? digest_of(flow, n) : 0;
        for (uint32_t first = 0; node->is_needed && first < n && node->same_as == n; first++) {
            if (workflow_is_op(flow, first) && graph->digests[first] == graph->digests[n] &&
                nodes_equal(flow, first, n)) {
                node->same_as = first;
                order->merged++;
            }
        }
    }
    order->left = order->given - order->pruned - order->merged;
}

/* ---- what the nodes say ---------------------------------------------------------------------- */

static void fill_columns(struct workflow *flow)
{
    for (uint32_t i = 0; i < flow->inputs_count; i++) {
        flow->nodes[flow->inputs[i]].columns = UINT64_C(1) << i;
    }
    for (uint32_t n = 0; n < flow->nodes_count; n++) {
        const struct workflow_piece *pieces = pieces_of(flow, n);
        struct workflow_node *node = &flow->nodes[n];
        if (node->kind == WORKFLOW_INPUT) {
            continue;
        }
        node->columns = 0;
        for (uint32_t i = 0; i < node->pieces_count; i++) {
            uint32_t value = value_of(flow, &pieces[i]);
            node->columns |= value != WORKFLOW_NONE ? flow->nodes[value].columns : 0;
        }
    }
}

/* False: the values of a row are more than a place in them can say. */
static bool fill_offsets(struct workflow *flow)
{
    uint64_t offset = 0;
    for (uint32_t n = 0; n < flow->nodes_count; n++) {
        flow->nodes[n].value_offset = (uint32_t)offset;
        offset += workflow_is_op(flow, n) ? flow->nodes[n].max_tokens : 0;
        if (offset > UINT32_MAX) {
            return false;
        }
    }
    flow->row_value_tokens = (uint32_t)offset;
    return true;
}

/* Calls of one operand each: a reader that names a value more than once reads it once. Inputs have
 * no readers, as an operator does not wait for them. */
static bool reads_first_here(const struct workflow *flow, uint32_t node, uint32_t piece)
{
    const struct workflow_piece *pieces = pieces_of(flow, node);
    uint32_t value = value_of(flow, &pieces[piece]);
    if (value == WORKFLOW_NONE || flow->nodes[value].kind == WORKFLOW_INPUT) {
        return false;
    }
    for (uint32_t i = 0; i < piece; i++) {
        if (value_of(flow, &pieces[i]) == value) {
            return false;
        }
    }
    return true;
}
