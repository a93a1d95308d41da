/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: workflows that a test writes as text: a byte is a token, and {3} is the value of node 3.
 * Equal literals lie at one place, as workflow_compose() leaves them.
 */
#include "selftest/unit/test.h"

#include "sched/workflow/optimise.h"

enum { RIG_PIECES = 4096, RIG_TOKENS = 65536, RIG_OUT = 10, RIG_KV = 100 };

static struct workflow flow;
static struct workflow_node rig_nodes[WORKFLOW_NODES_MAX];
static struct workflow_piece rig_pieces[RIG_PIECES];
static uint32_t rig_tokens[RIG_TOKENS], rig_readers[RIG_PIECES];
static struct workflow_optimiser optimiser;

static inline void begin_flow(void)
{
    memset(rig_nodes, 0, sizeof rig_nodes);
    flow = (struct workflow){.nodes = rig_nodes, .pieces = rig_pieces, .tokens = rig_tokens,
                             .readers = rig_readers};
}

static inline struct workflow_span keep_literal(const char *text, uint32_t count)
{
    uint32_t *fresh = rig_tokens + flow.tokens_count;
    assert_true(flow.tokens_count + count <= RIG_TOKENS);
    for (uint32_t i = 0; i < count; i++) {
        fresh[i] = (uint8_t)text[i];
    }
    for (uint32_t i = 0; i < flow.pieces_count; i++) {
        struct workflow_span span = rig_pieces[i].tokens;
        if (rig_pieces[i].node == WORKFLOW_NONE && span.count == count &&
            memcmp(rig_tokens + span.first, fresh, count * sizeof *fresh) == 0) {
            return span;
        }
    }
    flow.tokens_count += count;
    return (struct workflow_span){flow.tokens_count - count, count};
}

static inline uint32_t add(enum workflow_kind kind, const char *prompt)
{
    uint32_t node = flow.nodes_count++;
    assert_true(node < WORKFLOW_NODES_MAX);
    rig_nodes[node] = (struct workflow_node){.kind = kind, .pieces_first = flow.pieces_count};
    if (kind == WORKFLOW_INPUT) {
        flow.inputs[flow.inputs_count++] = node;
    } else {
        rig_nodes[node].max_tokens = rig_nodes[node].est_tokens = RIG_OUT;
    }
    while (*prompt != '\0') {
        struct workflow_piece *piece = &rig_pieces[flow.pieces_count];
        uint32_t count = (uint32_t)strcspn(prompt, "{");
        assert_true(flow.pieces_count < RIG_PIECES);
        if (count > 0) {
            *piece = (struct workflow_piece){WORKFLOW_NONE, keep_literal(prompt, count)};
            prompt += count;
        } else {
            char *end;
            piece->node = (uint32_t)strtoul(prompt + 1, &end, 10);
            assert_true(*end == '}');
            prompt = end + 1;
        }
        flow.pieces_count++;
        rig_nodes[node].pieces_count++;
    }
    return node;
}

static inline uint32_t input(void) { return add(WORKFLOW_INPUT, ""); }
static inline uint32_t llm(const char *prompt) { return add(WORKFLOW_LLM, prompt); }

static inline void output(uint32_t node)
{
    flow.outputs[flow.outputs_count++] = node;
    rig_nodes[node].is_output = true;
}

static inline enum status optimise(enum workflow_order_kind kind, uint32_t share_min,
                                   uint32_t work)
{
    const struct workflow_optimise_params params = {
        .kv_tokens = RIG_KV, .share_min = share_min, .order = kind, .seed = 1,
        .input_tokens = WORKFLOW_OPTIMISE_INPUT_TOKENS};
    TRY(workflow_optimise_begin(&optimiser, &flow, &params));
    for (uint32_t calls = 0; !workflow_optimise_step(&optimiser, work); calls++) {
        assert_true(calls < 100000);
    }
    template_tree_check(&optimiser.tree);
    return STATUS_OK;
}

/* The order, as nodes. */
static inline void assert_order(const uint32_t *nodes, uint32_t count)
{
    assert_int_equal(flow.order.ops_count, count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(flow.order.ops[i].node, nodes[i]);
    }
}
