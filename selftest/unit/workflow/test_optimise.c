/* SPDX-License-Identifier: MIT */
/*
 * Goal: workflows are pruned, merged and ordered as paper 002 and the specification say.
 * Method: small graphs whose plan was computed by hand: M = 100, each value 10 tokens, inputs 64.
 */
#include "selftest/unit/workflow/optimise_rig.h"

#define ORDERED(...)                                                                      \
    do {                                                                                  \
        const uint32_t nodes_[] = {__VA_ARGS__};                                          \
        assert_order(nodes_, sizeof nodes_ / sizeof *nodes_);                             \
    } while (0)

/* Figure 4: agent 1 answers, agent 2 answers the same question, then reads agent 1's answer. */
static void two_agents(void)
{
    begin_flow();
    input();
    llm("AAAAAAAA{0}");
    llm("BBBBBBBB{0}");
    output(llm("BBBBBBBB{0}{1}"));
    output(2);
}

static void test_figure_4_runs_agent_1_first(void **state)
{
    (void)state;
    two_agents();
    assert_status(STATUS_OK, optimise(WORKFLOW_ORDER_HELIUM, 8, UINT32_MAX));
    ORDERED(1, 2, 3);
    assert_int_equal(flow.order.ops[0].new_tokens, 72);
    assert_int_equal(flow.order.ops[1].new_tokens, 72);
    assert_int_equal(flow.order.ops[2].new_tokens, 10);
    assert_int_equal(flow.order.ops[2].prompt_tokens, 82);
    assert_int_equal(flow.order.ops[2].static_tokens, 8);
    /* 10 * 72 + 55 = 775 each; the third waits for 775 + 100 * 10, and takes 10 * 10 + 55. */
    assert_int_equal(flow.order.steps, 1930);
    assert_int_equal(flow.nodes[3].columns.words[0], 1);
}

static void test_sequences_share_a_static_prefix_of_the_least_length(void **state)
{
    (void)state;
    two_agents();
    assert_status(STATUS_OK, optimise(WORKFLOW_ORDER_HELIUM, 8, UINT32_MAX));
    assert_int_equal(flow.order.sequences_count, 2);
    assert_int_equal(flow.order.sequences[1].ops_count, 2);
    assert_true(flow.order.sequences[1].by_row);
    assert_int_equal(flow.order.ops[2].sequence, 1);
    assert_int_equal(flow.order.ops[2].place, 1);
    assert_status(STATUS_OK, optimise(WORKFLOW_ORDER_HELIUM, 9, UINT32_MAX));
    assert_int_equal(flow.order.sequences_count, 3);
}

/* Each summary reads the one before. They share static tokens only, so rows do not come first; the
 * sequence is complete when its last operator is. */
static void test_iterative_sequence_is_not_by_row(void **state)
{
    (void)state;
    begin_flow();
    input();
    input();
    llm("SSSS{0}");
    llm("SSSS{2}{1}");
    output(llm("w{3}"));
    assert_status(STATUS_OK, optimise(WORKFLOW_ORDER_HELIUM, 4, UINT32_MAX));
    ORDERED(2, 3, 4);
    assert_int_equal(flow.order.sequences_count, 2);
    assert_int_equal(flow.order.sequences[0].ops_count, 2);
    assert_false(flow.order.sequences[0].by_row);
    assert_int_equal(flow.nodes[4].columns.words[0], 3);
    assert_int_equal(flow.nodes[2].columns.words[0], 1);
}

static void test_map_reduce_counts_operands_and_readers(void **state)
{
    (void)state;
    begin_flow();
    input();
    llm("one{0}");
    llm("two{0}");
    add(WORKFLOW_LAMBDA, "{1}{2}{1}");
    llm("nothing needs it");
    output(llm("sum{3}{0}{1}{3}"));
    assert_status(STATUS_OK, optimise(WORKFLOW_ORDER_HELIUM, 16, UINT32_MAX));
    ORDERED(1, 2, 5);
    assert_int_equal(flow.order.given, 5);
    assert_int_equal(flow.order.pruned, 1);
    assert_int_equal(flow.order.left, 4);
    assert_int_equal(flow.nodes[3].operands, 2);
    assert_int_equal(flow.nodes[5].operands, 2);
    assert_int_equal(flow.nodes[1].readers.count, 2);
    assert_int_equal(flow.readers[flow.nodes[1].readers.first], 3);
    assert_int_equal(flow.readers[flow.nodes[1].readers.first + 1], 5);
    assert_int_equal(flow.nodes[0].readers.count, 0);
    assert_int_equal(flow.row_value_tokens, 4 * RIG_OUT);
    /* 10 * 67 + 55 = 725 each, shared with none; the last one waits for both: 1450 + 1000. */
    assert_int_equal(flow.order.steps, 2450 + 10 * (3 + 10 + 64 + 10 + 10) + 55);
}

/* Two agents, two rounds: each reads what both have said, its own first. */
static void test_debate_goes_round_by_round(void **state)
{
    (void)state;
    begin_flow();
    input();
    llm("You are anna.{0}");
    llm("You are bert.{0}");
    llm("You are anna.{0}{1}{2}");
    llm("You are bert.{0}{2}{1}");
    output(llm("Judge:{0}{3}{4}"));
    assert_status(STATUS_OK, optimise(WORKFLOW_ORDER_HELIUM, 8, UINT32_MAX));
    ORDERED(1, 2, 3, 4, 5);
    assert_int_equal(flow.order.ops[1].new_tokens, 69);         /* "You are " is shared */
    assert_int_equal(flow.order.ops[2].new_tokens, 89);
    uint64_t steps = flow.order.steps;
    /* Both of the second round may start at one time; the tree's first comes first. It is cheaper
     * to go on with bert. */
    assert_status(STATUS_OK, optimise(WORKFLOW_ORDER_AUTO, 8, UINT32_MAX));
    ORDERED(1, 2, 4, 3, 5);
    assert_int_equal(flow.order.ops[2].new_tokens, 20);
    assert_int_equal(flow.order.steps, steps - 10 * 69);
}

static void test_equal_operators_merge_from_the_bottom(void **state)
{
    (void)state;
    begin_flow();
    llm("a");
    llm("a");
    llm("b{0}");
    llm("b{1}");
    output(llm("{2}{3}"));
    assert_status(STATUS_OK, optimise(WORKFLOW_ORDER_HELIUM, 16, UINT32_MAX));
    assert_int_equal(flow.order.merged, 2);
    assert_int_equal(flow.nodes[3].same_as, 2);
    assert_int_equal(flow.nodes[4].operands, 1);
    ORDERED(0, 2, 4);
}

static void test_seed_and_name_keep_operators_apart(void **state)
{
    (void)state;
    begin_flow();
    for (uint64_t seed = 0; seed < 3; seed++) {
        output(llm("a"));
        rig_nodes[seed].call.sampling.temperature = 0.5f;
        rig_nodes[seed].call.sampling.seed = seed % 2;
    }
    for (uint32_t i = 3; i < 6; i++) {
        output(add(WORKFLOW_LAMBDA, "{0}"));
        rig_nodes[i].name[0] = i == 4 ? 'g' : 'f';
    }
    output(llm("a"));
    rig_nodes[6].call.sampling = rig_nodes[0].call.sampling;
    rig_nodes[6].max_tokens = 11;
    assert_status(STATUS_OK, optimise(WORKFLOW_ORDER_HELIUM, 16, UINT32_MAX));
    assert_int_equal(rig_nodes[2].same_as, 0);
    assert_int_equal(rig_nodes[5].same_as, 3);
    assert_int_equal(flow.order.merged, 2);
}

static void test_split_node_keeps_its_place(void **state)
{
    (void)state;
    begin_flow();
    output(llm("abX"));
    output(llm("cd"));
    output(llm("abY"));
    output(llm("ab"));
    assert_status(STATUS_OK, optimise(WORKFLOW_ORDER_HELIUM, 16, UINT32_MAX));
    ORDERED(0, 2, 3, 1);
    assert_int_equal(flow.order.ops[1].new_tokens, 1);
    assert_int_equal(flow.order.ops[2].new_tokens, 0);
    assert_int_equal(flow.order.ops[3].new_tokens, 2);
}

/* Once node 0 is scheduled, only node 1 can go on. Below its parent the longest chain begins at
 * node 3, which waits for node 2 elsewhere: who forces by chains first never gets on. */
static void test_force_takes_what_can_be_scheduled(void **state)
{
    (void)state;
    begin_flow();
    llm("g");
    llm("sq{0}");
    llm("z{1}");
    llm("sp{2}");
    output(llm("sr{3}"));
    assert_status(STATUS_OK, optimise(WORKFLOW_ORDER_HELIUM, 16, UINT32_MAX));
    ORDERED(0, 1, 2, 3, 4);
}

static void test_more_operators_than_fit_are_refused(void **state)
{
    (void)state;
    begin_flow();
    for (uint32_t i = 0; i <= WORKFLOW_LLMS_MAX; i++) {
        const char prompt[] = {(char)('A' + i % 16), (char)('a' + i / 16), '\0'};
        output(llm(prompt));
    }
    assert_status(STATUS_BAD_FLOW_SIZE, optimise(WORKFLOW_ORDER_AUTO, 16, UINT32_MAX));
    flow.outputs_count--;
    assert_status(STATUS_OK, optimise(WORKFLOW_ORDER_AUTO, 16, UINT32_MAX));
    assert_int_equal(flow.order.ops_count, WORKFLOW_LLMS_MAX);
}

static void test_nothing_to_call_is_an_order(void **state)
{
    (void)state;
    begin_flow();
    output(input());
    assert_status(STATUS_OK, optimise(WORKFLOW_ORDER_AUTO, 16, UINT32_MAX));
    assert_int_equal(flow.order.ops_count, 0);
    assert_int_equal(flow.order.steps, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_figure_4_runs_agent_1_first),
        cmocka_unit_test(test_sequences_share_a_static_prefix_of_the_least_length),
        cmocka_unit_test(test_iterative_sequence_is_not_by_row),
        cmocka_unit_test(test_map_reduce_counts_operands_and_readers),
        cmocka_unit_test(test_debate_goes_round_by_round),
        cmocka_unit_test(test_equal_operators_merge_from_the_bottom),
        cmocka_unit_test(test_seed_and_name_keep_operators_apart),
        cmocka_unit_test(test_split_node_keeps_its_place),
        cmocka_unit_test(test_force_takes_what_can_be_scheduled),
        cmocka_unit_test(test_more_operators_than_fit_are_refused),
        cmocka_unit_test(test_nothing_to_call_is_an_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
