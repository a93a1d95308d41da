/* SPDX-License-Identifier: MIT */
/*
 * Goal: whatever the graph, every order is a schedule, and its cost is what the model says.
 * Method: random graphs with prompts that begin alike. A naive model spells every prompt out,
 * symbol by symbol, and adds up the cost of the order that was found; it knows neither tree nor
 * bitmaps.
 * Stopped after each bit of work, the optimiser finds the same.
 */
#include <stdio.h>

#include "selftest/unit/workflow/optimise_rig.h"

enum { SEEDS = 300, SYMBOLS = 4096, VALUE = 1000, OPS = 40 };

static uint64_t random_state;

static uint32_t below(uint32_t bound)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((random_state >> 33) % bound);
}

static void draw_piece(char *prompt, uint32_t node)
{
    static const char *const literals[] = {"You are ", "You ", "A", "AB", "ABC", "Question: "};
    char *end = prompt + strlen(prompt);
    if (node > 0 && below(3) > 0) {
        snprintf(end, 8, "{%u}", below(node));
    } else {
        snprintf(end, 16, "%s", literals[below(sizeof literals / sizeof *literals)]);
    }
}

static void draw_flow(uint64_t seed)
{
    uint32_t count = 2 + (uint32_t)(seed % (OPS - 2));
    random_state = seed * UINT64_C(0x9e3779b97f4a7c15);
    begin_flow();
    for (uint32_t n = 0; n < count; n++) {
        char prompt[256] = "";
        uint32_t pieces = below(5), kind = below(8);
        /* Literals are never neighbours. */
        for (uint32_t i = 0; kind > 0 && i < pieces; i++) {
            char piece[32] = "";
            draw_piece(piece, n);
            size_t length = strlen(prompt);
            if (piece[0] == '{' || length == 0 || prompt[length - 1] == '}') {
                memcpy(prompt + length, piece, strlen(piece) + 1);
            }
        }
        add(kind == 0 ? WORKFLOW_INPUT : kind == 1 ? WORKFLOW_LAMBDA : WORKFLOW_LLM, prompt);
        rig_nodes[n].est_tokens = 1 + below(60);
        rig_nodes[n].max_tokens = kind == 0 ? 0 : 60 + below(2);
    }
    for (uint32_t n = count; n-- > 0;) {
        if (n + 1 == count || below(4) == 0) {
            output(n);
        }
    }
}

/* ---- the naive model ------------------------------------------------------------------------- */

struct prompt { uint32_t count, symbols[SYMBOLS]; };

static struct prompt spell(uint32_t node)
{
    struct prompt prompt = {0};
    for (uint32_t i = 0; i < rig_nodes[node].pieces_count; i++) {
        const struct workflow_piece *piece = &rig_pieces[rig_nodes[node].pieces_first + i];
        if (piece->node != WORKFLOW_NONE) {
            prompt.symbols[prompt.count++] = VALUE + rig_nodes[piece->node].same_as;
            continue;
        }
        for (uint32_t t = 0; t < piece->tokens.count; t++) {
            prompt.symbols[prompt.count++] = rig_tokens[piece->tokens.first + t];
        }
    }
    return prompt;
}

static uint32_t tokens_from(const struct prompt *prompt, uint32_t first)
{
    uint32_t tokens = 0;
    for (uint32_t i = first; i < prompt->count; i++) {
        uint32_t symbol = prompt->symbols[i];
        tokens += symbol >= VALUE ? rig_nodes[symbol - VALUE].est_tokens : 1;
    }
    return tokens;
}

/* When the values that the node reads are there, or fails: one is not scheduled. */
static uint64_t earliest_of(uint32_t node, const uint64_t *completed)
{
    uint64_t earliest = 0;
    for (uint32_t i = 0; i < rig_nodes[node].pieces_count; i++) {
        uint32_t read = rig_pieces[rig_nodes[node].pieces_first + i].node;
        uint64_t known = 0;
        if (read == WORKFLOW_NONE) {
            continue;
        }
        read = rig_nodes[read].same_as;
        if (rig_nodes[read].kind == WORKFLOW_LLM) {
            assert_true(completed[read] > 0);
            known = completed[read] + (uint64_t)RIG_KV * rig_nodes[read].est_tokens;
        } else if (rig_nodes[read].kind == WORKFLOW_LAMBDA) {
            known = earliest_of(read, completed);
        }
        earliest = known > earliest ? known : earliest;
    }
    return earliest;
}

/* Fails where the order is none; its cost. */
static uint64_t cost_of_order(void)
{
    uint64_t completed[WORKFLOW_NODES_MAX] = {0}, now = 0;
    struct prompt last = {0};
    for (uint32_t i = 0; i < flow.order.ops_count; i++) {
        const struct workflow_op *op = &flow.order.ops[i];
        const struct prompt prompt = spell(op->node);
        uint64_t out = rig_nodes[op->node].est_tokens, earliest;
        uint32_t shared = 0;
        while (shared < last.count && shared < prompt.count &&
               last.symbols[shared] == prompt.symbols[shared]) {
            shared++;
        }
        assert_int_equal(completed[op->node], 0);
        assert_int_equal(op->prompt_tokens, tokens_from(&prompt, 0));
        assert_int_equal(op->new_tokens, tokens_from(&prompt, shared));
        earliest = earliest_of(op->node, completed);
        now = (earliest > now ? earliest : now) + out * op->new_tokens + out * (out + 1) / 2;
        completed[op->node] = now;
        last = prompt;
    }
    return now;
}

/* ---- properties ------------------------------------------------------------------------------ */

static void check_sequences(void)
{
    uint32_t seen[WORKFLOW_LLMS_MAX] = {0}, last[WORKFLOW_LLMS_MAX] = {0}, all = 0;
    for (uint32_t i = 0; i < flow.order.ops_count; i++) {
        const struct workflow_op *op = &flow.order.ops[i];
        assert_true(op->sequence < flow.order.sequences_count);
        assert_int_equal(op->place, seen[op->sequence]++);
        last[op->sequence] = i;
    }
    for (uint32_t s = 0; s < flow.order.sequences_count; s++) {
        assert_int_equal(seen[s], flow.order.sequences[s].ops_count);
        assert_true(s == 0 || last[s] > last[s - 1]);
        all += seen[s];
    }
    assert_int_equal(all, flow.order.ops_count);
}

static uint64_t check_order(enum workflow_order_kind kind)
{
    uint32_t wanted = 0;
    assert_status(STATUS_OK, optimise(kind, 4, UINT32_MAX));
    for (uint32_t n = 0; n < flow.nodes_count; n++) {
        wanted += workflow_is_op(&flow, n) && rig_nodes[n].kind == WORKFLOW_LLM;
    }
    assert_int_equal(flow.order.ops_count, wanted);
    assert_int_equal(flow.order.steps, cost_of_order());
    check_sequences();
    const struct workflow_order whole = flow.order;
    assert_status(STATUS_OK, optimise(kind, 4, 1));
    assert_memory_equal(&flow.order, &whole, sizeof whole);
    return whole.steps;
}

static void test_every_order_is_a_schedule_and_auto_is_the_cheapest(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        draw_flow(seed);
        uint64_t cheapest = check_order(WORKFLOW_ORDER_AUTO);
        assert_true(cheapest <= check_order(WORKFLOW_ORDER_HELIUM));
        assert_true(cheapest <= check_order(WORKFLOW_ORDER_LSPF));
        assert_true(cheapest <= check_order(WORKFLOW_ORDER_ARRIVAL));
        check_order(WORKFLOW_ORDER_OPWISE);
        check_order(WORKFLOW_ORDER_QUERYWISE);
        check_order(WORKFLOW_ORDER_RANDOM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_order_is_a_schedule_and_auto_is_the_cheapest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
