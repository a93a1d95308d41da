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
        flow->nodes[flow->inputs[i]].columns = (struct workflow_set){{0}};
        workflow_set_add(&flow->nodes[flow->inputs[i]].columns, i);
    }
    for (uint32_t n = 0; n < flow->nodes_count; n++) {
        const struct workflow_piece *pieces = pieces_of(flow, n);
        struct workflow_node *node = &flow->nodes[n];
        if (node->kind == WORKFLOW_INPUT) {
            continue;
        }
        node->columns = (struct workflow_set){{0}};
        for (uint32_t i = 0; i < node->pieces_count; i++) {
            uint32_t value = value_of(flow, &pieces[i]);
            if (value != WORKFLOW_NONE) {
                workflow_set_unite(&node->columns, &flow->nodes[value].columns);
            }
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

/* The nodes that a node reads, after merging; inputs excepted: nothing waits for them. */
static struct workflow_set reads_of(const struct workflow *flow, uint32_t node)
{
    const struct workflow_piece *pieces = pieces_of(flow, node);
    struct workflow_set reads = {{0}};
    for (uint32_t i = 0; i < flow->nodes[node].pieces_count; i++) {
        uint32_t value = value_of(flow, &pieces[i]);
        if (value != WORKFLOW_NONE && flow->nodes[value].kind != WORKFLOW_INPUT) {
            workflow_set_add(&reads, value);
        }
    }
    return reads;
}

/* Adds the node to the readers of each node that it reads. */
static void add_reader(struct workflow *flow, uint32_t node)
{
    const struct workflow_set reads = reads_of(flow, node);
    for (uint32_t word = 0; word < WORKFLOW_NODES_MAX / 64; word++) {
        for (uint64_t left = reads.words[word]; left != 0; left &= left - 1) {
            uint32_t value = word * 64 + (uint32_t)__builtin_ctzll(left);
            struct workflow_span *readers = &flow->nodes[value].readers;
            flow->readers[readers->first + readers->count++] = node;
        }
    }
}

static void count_reads(struct workflow *flow, uint32_t node)
{
    const struct workflow_set reads = reads_of(flow, node);
    flow->nodes[node].operands = 0;
    for (uint32_t word = 0; word < WORKFLOW_NODES_MAX / 64; word++) {
        for (uint64_t left = reads.words[word]; left != 0; left &= left - 1) {
            flow->nodes[word * 64 + (uint32_t)__builtin_ctzll(left)].readers.count++;
            flow->nodes[node].operands++;
        }
    }
}

/* Readers are operators that are left, in the order of nodes. */
static void fill_readers(struct workflow *flow)
{
    uint32_t first = 0;
    for (uint32_t n = 0; n < flow->nodes_count; n++) {
        flow->nodes[n].readers = (struct workflow_span){0};
        flow->nodes[n].operands = 0;
    }
    for (uint32_t n = 0; n < flow->nodes_count; n++) {
        if (workflow_is_op(flow, n)) {
            count_reads(flow, n);
        }
    }
    for (uint32_t n = 0; n < flow->nodes_count; n++) {
        struct workflow_span *readers = &flow->nodes[n].readers;
        readers->first = first;
        first += readers->count;
        readers->count = 0;
    }
    ASSERT(first <= flow->pieces_count);
    flow->readers_count = first;
    for (uint32_t n = 0; n < flow->nodes_count; n++) {
        if (workflow_is_op(flow, n)) {
            add_reader(flow, n);
        }
    }
}

/* ---- operators ------------------------------------------------------------------------------- */

static void measure_prompt(const struct workflow *flow, struct op *op, uint32_t input_tokens)
{
    const struct workflow_piece *pieces = pieces_of(flow, op->node);
    uint64_t tokens = 0;
    bool is_static = true;
    for (uint32_t i = 0; i < flow->nodes[op->node].pieces_count; i++) {
        uint32_t value = value_of(flow, &pieces[i]);
        is_static = is_static && value == WORKFLOW_NONE;
        op->static_tokens += is_static ? pieces[i].tokens.count : 0;
        tokens += value == WORKFLOW_NONE ? pieces[i].tokens.count
                                         : op_graph_value_tokens(flow, value, input_tokens);
    }
    op->prompt_tokens = tokens < OP_TOKENS_MAX ? (uint32_t)tokens : OP_TOKENS_MAX;
}

/* What a reader of the node's value depends on: the op itself, or what a lambda has read. */
static struct op_set depends_of(const struct op_graph *graph, uint32_t node)
{
    const struct workflow *flow = graph->flow;
    const struct workflow_piece *pieces = pieces_of(flow, node);
    struct op_set depends = {{0}};
    for (uint32_t i = 0; i < flow->nodes[node].pieces_count; i++) {
        uint32_t value = value_of(flow, &pieces[i]);
        if (value != WORKFLOW_NONE) {
            depends = op_set_union(depends, graph->given[value]);
        }
    }
    return depends;
}

static void add_op(struct op_graph *graph, uint32_t node, uint32_t input_tokens)
{
    const struct workflow *flow = graph->flow;
    struct op *op = &graph->ops[graph->count];
    *op = (struct op){.node = node, .out = op_graph_value_tokens(flow, node, input_tokens)};
    measure_prompt(flow, op, input_tokens);
    op->depends = depends_of(graph, node);
    OP_SET_EACH(other, op->depends) {
        op_set_add(&graph->ops[other].readers, graph->count);
    }
    graph->given[node] = (struct op_set){{0}};
    op_set_add(&graph->given[node], graph->count++);
}

enum status op_graph_fill(struct op_graph *graph, struct workflow *flow, uint32_t input_tokens)
{
    ASSERT(flow->nodes_count <= WORKFLOW_NODES_MAX);
    flow->order = (struct workflow_order){0};
    graph->flow = flow;
    graph->count = 0;
    prune(flow);
    merge(graph, flow);
    fill_columns(flow);
    fill_readers(flow);
    if (!fill_offsets(flow)) {
        return STATUS_BAD_FLOW_SIZE;
    }
    for (uint32_t n = 0; n < flow->nodes_count; n++) {
        bool is_op = workflow_is_op(flow, n) && flow->nodes[n].kind == WORKFLOW_LLM;
        graph->given[n] = (struct op_set){{0}};
        if (!is_op) {
            graph->given[n] = depends_of(graph, n);
        } else if (graph->count < WORKFLOW_LLMS_MAX) {
            add_op(graph, n, input_tokens);
        } else {
            return STATUS_BAD_FLOW_SIZE;
        }
    }
    return STATUS_OK;
}
