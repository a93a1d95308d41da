/* SPDX-License-Identifier: MIT */
/* What a workflow does with values, rows, questions and its window: one small graph each. */
#include "selftest/unit/workflow/flow_rig.h"

static void test_a_value_is_read_by_the_next(void **state)
{
    (void)state;
    start();
    open_flow();
    uint32_t question = add(WORKFLOW_INPUT);
    uint32_t first = add(WORKFLOW_LLM);
    say(3, 1), read_value(question);
    uint32_t second = add(WORKFLOW_LLM);
    say(2, 2), read_value(first), say(1, 3);
    output(second);
    begin();
    uint32_t at = row(0, (uint32_t[]){17});
    run();
    check_row(at);
    assert_int_equal(flow->rows[at].calls, 2);
    end_flow();
}

static void test_rows_share_what_is_equal(void **state)
{
    (void)state;
    start();
    open_flow();
    uint32_t a = add(WORKFLOW_INPUT), b = add(WORKFLOW_INPUT);
    uint32_t of_a = add(WORKFLOW_LLM);
    say(3, 1), read_value(a);
    uint32_t of_none = add(WORKFLOW_LLM);
    say(4, 2);
    uint32_t of_all = add(WORKFLOW_LLM);
    read_value(of_a), read_value(of_none), read_value(b);
    output(of_all);
    begin();
    uint32_t rows[3] = {row(0, (uint32_t[]){10, 20}), row(1, (uint32_t[]){10, 21}),
                        row(2, (uint32_t[]){10, 21})};
    run();
    uint32_t calls = 0, shared = 0;
    for (uint32_t i = 0; i < 3; i++) {
        check_row(rows[i]);
        calls += flow->rows[rows[i]].calls;
        shared += flow->rows[rows[i]].shared;
    }
    assert_int_equal(calls, 4);                 /* of a, of none, of all for two rows */
    assert_int_equal(shared, 5);
    end_flow();
}

/* Rows that differ in the 100th input alone: what depends on that is not shared. */
static void test_a_hundred_inputs(void **state)
{
    enum { INPUTS = 100 };
    uint32_t columns[2][INPUTS] = {{0}};
    (void)state;
    start();
    open_flow();
    for (uint32_t i = 0; i < INPUTS; i++) {
        (void)add(WORKFLOW_INPUT);
        columns[0][i] = columns[1][i] = 1 + i % 5;
    }
    uint32_t early = add(WORKFLOW_LLM);
    say(2, 1), read_value(63), read_value(64), read_value(INPUTS - 2);
    uint32_t late = add(WORKFLOW_LLM);
    say(2, 1), read_value(early), read_value(INPUTS - 1);
    output(late);
    begin();
    columns[1][INPUTS - 1] = 20;
    uint32_t rows[2] = {row(0, columns[0]), row(1, columns[1])};
    run();
    check_row(rows[0]);
    check_row(rows[1]);
    assert_int_equal(flow->rows[rows[0]].calls + flow->rows[rows[1]].calls, 3);
    assert_int_equal(flow->rows[rows[1]].shared, 1);
    end_flow();
}

static void test_nothing_is_called_the_second_time(void **state)
{
    (void)state;
    start();
    for (uint32_t time = 0; time < 2; time++) {
        open_flow();
        uint32_t input = add(WORKFLOW_INPUT);
        uint32_t first = add(WORKFLOW_LLM);
        say(3, 1), read_value(input);
        uint32_t second = add(WORKFLOW_LLM);
        read_value(first), say(2, 2);
        output(second);
        begin();
        uint32_t at = row(0, (uint32_t[]){30});
        run();
        check_row(at);
        assert_int_equal(flow->rows[at].calls, time == 0 ? 2 : 0);
        assert_int_equal(flow->rows[at].fetched, time == 0 ? 0 : 2);
        end_flow();
    }
}

static void test_another_domain_fetches_nothing(void **state)
{
    (void)state;
    start();
    for (uint32_t time = 0; time < 2; time++) {
        open_flow();
        flow->domain = 100 + time;
        uint32_t only = add(WORKFLOW_LLM);
        say(3, 1);
        output(only);
        begin();
        uint32_t at = row(0, NULL);
        run();
        assert_int_equal(flow->rows[at].calls, 1);
        end_flow();
    }
}

static void test_a_lambda_is_asked_for(void **state)
{
    (void)state;
    start();
    open_flow();
    uint32_t input = add(WORKFLOW_INPUT);
    uint32_t first = add(WORKFLOW_LLM);
    say(3, 1), read_value(input);
    uint32_t lambda = add(WORKFLOW_LAMBDA);
    read_value(first), say(1, 2);
    uint32_t last = add(WORKFLOW_LLM);
    say(2, 3), read_value(lambda);
    output(lambda), output(last);
    begin();
    uint32_t at = row(0, (uint32_t[]){9});
    run();
    check_row(at);
    end_flow();
}

static void test_the_window_holds(void **state)
{
    (void)state;
    start();
    open_flow();
    for (uint32_t i = 0; i < 12; i++) {
        uint32_t node = add(WORKFLOW_LLM);
        say(2, i);
        output(node);
    }
    begin();
    uint32_t at = row(0, NULL);
    while (flow->rows[at].state == WORKFLOW_ROW_OPEN) {
        assert_true(flow->open_calls <= 6);
        pass();
    }
    check_row(at);
    end_flow();
}

/* Alone, a workflow opens what the KV holds (400 tokens here); beside others, its window. */
/* Of two workflows of one key, and of one without; each has more to call than that. */
static void test_the_workflows_of_a_key_share_what_it_may_have(void **state)
{
    struct workflow *flows[FLOWS];
    (void)state;
    start();
    for (uint32_t i = 0; i < FLOWS; i++) {
        open_flow();
        flows[i] = flow;
        flow->key = i < 2 ? 7 : CALL_NONE;
        flow->calls_max = i < 2 ? 3 : UINT32_MAX;
        for (uint32_t n = 0; n < 3; n++) {
            uint32_t node = add(WORKFLOW_LLM);
            say(3 + i, n);
            output(node);
        }
        begin();
        (void)row(1, NULL);
    }
    bench_intake(bench);
    assert_int_equal(flows[0]->open_calls + flows[1]->open_calls, 3);
    assert_int_equal(workflow_calls_of_key(&bench->workflows, 7), 3);
    assert_int_equal(workflow_calls_of_key(&bench->workflows, CALL_NONE), 0);
    assert_int_equal(flows[2]->open_calls, 3);
    for (uint32_t i = 0; i < FLOWS; i++) {
        for (flow = flows[i]; flow->rows_open > 0;) {
            (void)pass();
            assert_true(flows[0]->open_calls + flows[1]->open_calls <= 3);
        }
        check_row(0);
    }
}

static void test_alone_it_opens_what_the_kv_holds(void **state)
{
    (void)state;
    start();
    open_flow();
    for (uint32_t i = 0; i < 12; i++) {
        uint32_t input = add(WORKFLOW_INPUT), node = add(WORKFLOW_LLM);
        flow->nodes[input].est_tokens = 100;
        say(1, i), read_value(input);
        output(node);
    }
    begin();
    static const uint32_t columns[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    uint32_t at = row(0, columns);
    assert_int_equal(flow->open_calls, 3);
    bench_call(bench, 99, 4, 4);
    assert_int_equal(flow->open_calls, 6);
    while (flow->rows[at].state == WORKFLOW_ROW_OPEN) {
        bench_step(bench);
        bench_intake(bench);
    }
    check_row(at);
    assert_int_equal(flow->open_tokens, 0);
}

#define LONG_NODES 24               /* more than a pass looks at, in all rows of all workflows */

/* Whose operators all wait for a question of their row, and can then only fail. */
static void open_flow_of_long_prompts(uint32_t number)
{
    open_flow();
    flow->flow_id = number;
    uint32_t column = add(WORKFLOW_INPUT), lambda = add(WORKFLOW_LAMBDA);
    read_value(column);
    while (flow->nodes_count < LONG_NODES) {
        uint32_t long_one = add(WORKFLOW_LLM);
        flow->nodes[long_one].call.sampling.seed = long_one;
        read_value(lambda);
        piece((struct workflow_piece){.node = WORKFLOW_NONE, .tokens = {0, BENCH_CONTEXT}});
        output(long_one);
    }
    begin();
    for (uint32_t i = 0; i < ROWS; i++) {
        row(i, &i);
    }
}

static uint32_t count_instances(enum workflow_instance_state state)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < FLOWS; i++) {
        const struct workflow *of = &bench->workflows.workflows[i];
        for (uint32_t at = 0; at < ROWS * of->nodes_count; at++) {
            count += of->instances[at].state == (uint8_t)state;
        }
    }
    return count;
}

static void test_a_pass_looks_at_a_bounded_number_of_prompts(void **state)
{
    (void)state;
    start();
    for (uint32_t i = 0; i < FLOWS; i++) {
        open_flow_of_long_prompts(i);
    }
    for (uint32_t i = 0; i < FLOWS * ROWS; i++) {
        struct workflow *of = &bench->workflows.workflows[i % FLOWS];
        exchange_command(&bench->exchange,
                         &(struct command){.kind = COMMAND_WORKFLOW_ANSWER, .row = i / FLOWS,
                                           .node = 1, .workflow = i % FLOWS,
                                           .workflow_generation = of->generation});
    }
    bench_intake(bench);
    uint32_t failed = count_instances(WORKFLOW_FAILED);
    assert_true(failed > 0 && failed < FLOWS * ROWS * (LONG_NODES - 2));
    assert_true(sched_next_us(&bench->sched, bench->now_us) <= bench->now_us);
    for (uint32_t pass = 0; pass < 8; pass++) {
        bench_intake(bench);
    }
    assert_int_equal(count_instances(WORKFLOW_FAILED), FLOWS * ROWS * (LONG_NODES - 2));
    assert_int_equal(count_instances(WORKFLOW_READY), 0);
}

static void test_a_value_is_streamed_though_it_is_the_output_of_an_equal_node(void **state)
{
    (void)state;
    start();
    open_flow();
    flow->stream = true;
    uint32_t first = add(WORKFLOW_LLM);
    say(3, 1);
    uint32_t equal = add(WORKFLOW_LLM);
    flow->pieces[flow->pieces_count++] = flow->pieces[flow->nodes[first].pieces_first];
    flow->nodes[equal].pieces_count++;
    uint32_t last = add(WORKFLOW_LLM);
    read_value(first);
    output(equal), output(last);
    begin();
    assert_int_equal(flow->nodes[equal].same_as, first);
    uint32_t at = row(0, NULL);
    while (!ring_is_empty(&bench->exchange.news_ring)) {
        exchange_workflow_news_pop(&bench->exchange);
    }
    while (workflow_instance(flow, at, first)->state != WORKFLOW_KNOWN) {
        assert_true(ring_is_empty(&bench->exchange.news_ring));
        pass();
    }
    assert_int_equal(flow->rows[at].state, WORKFLOW_ROW_OPEN);
    assert_false(ring_is_empty(&bench->exchange.news_ring));
    assert_true(flow->may_stream);
    run();
    end_flow();
}

/* The clock of the ideal system goes on for all clients, from where the largest cost left it. */
static void test_what_a_client_foresees_is_no_more_than_it_can_spend(void **state)
{
    (void)state;
    start_with(bench_settings(SCHED_JUSTITIA), 64);
    open_flow();
    uint32_t input = add(WORKFLOW_INPUT), first = add(WORKFLOW_LLM);
    read_value(input);
    uint32_t last = add(WORKFLOW_LLM);
    read_value(first), read_value(first);
    output(last);
    flow->nodes[input].est_tokens = flow->nodes[first].est_tokens = 1 << 20;
    flow->nodes[last].est_tokens = 1 << 20;
    begin();
    uint32_t at = row(0, (uint32_t[]){9});
    run();
    check_row(at);
    end_flow();
    assert_true(bench->sched.ideal.virtual_time <= 2 * BENCH_CONTEXT * BENCH_CONTEXT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_value_is_read_by_the_next),
        cmocka_unit_test(test_rows_share_what_is_equal),
        cmocka_unit_test(test_a_hundred_inputs),
        cmocka_unit_test(test_nothing_is_called_the_second_time),
        cmocka_unit_test(test_another_domain_fetches_nothing),
        cmocka_unit_test(test_a_lambda_is_asked_for),
        cmocka_unit_test(test_the_window_holds),
        cmocka_unit_test(test_the_workflows_of_a_key_share_what_it_may_have),
        cmocka_unit_test(test_alone_it_opens_what_the_kv_holds),
        cmocka_unit_test(test_a_pass_looks_at_a_bounded_number_of_prompts),
        cmocka_unit_test(test_what_a_client_foresees_is_no_more_than_it_can_spend),
        cmocka_unit_test(test_a_value_is_streamed_though_it_is_the_output_of_an_equal_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
