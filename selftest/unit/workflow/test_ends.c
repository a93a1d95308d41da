/* SPDX-License-Identifier: MIT */
/* How rows and workflows end: failures, cancels, breaks, shutdown. */
#include "selftest/unit/workflow/flow_rig.h"

static void test_a_question_without_an_answer_fails_the_row(void **state)
{
    (void)state;
    start();
    open_flow();
    uint32_t lambda = add(WORKFLOW_LAMBDA);
    say(1, 2);
    uint32_t last = add(WORKFLOW_LLM);
    say(2, 3), read_value(lambda);
    output(last);
    begin();
    uint32_t at = row(0, NULL);
    assert_int_equal(workflow_instance(flow, at, lambda)->state, WORKFLOW_ASKED);
    assert_true(sched_next_us(&bench->sched, bench->now_us) <= bench->now_us + 50 * BENCH_UNIT);
    bench->now_us += 50 * BENCH_UNIT;
    bench_intake(bench);
    assert_int_equal(flow->rows[at].state, WORKFLOW_ROW_DONE);
    assert_status(STATUS_GONE_DEADLINE, flow->rows[at].status);
    end_flow();
}

static void test_a_prompt_that_is_too_long_fails_its_row_alone(void **state)
{
    (void)state;
    start();
    open_flow();
    uint32_t input = add(WORKFLOW_INPUT);
    uint32_t wide = add(WORKFLOW_LLM);
    say(BENCH_CONTEXT - VALUE_MAX, 1), read_value(input);
    uint32_t fine = add(WORKFLOW_LLM);
    say(2, 2), read_value(input);
    uint32_t after = add(WORKFLOW_LLM);
    read_value(wide), read_value(fine);
    output(fine), output(after);
    begin();
    uint32_t at = row(0, (uint32_t[]){4});
    run();
    check_row(at);
    assert_status(STATUS_BAD_PROMPT_LENGTH, flow->rows[at].status);
    end_flow();
}

static void test_cancel_ends_every_row_once(void **state)
{
    (void)state;
    start();
    open_flow();
    uint32_t input = add(WORKFLOW_INPUT);
    uint32_t first = add(WORKFLOW_LLM);
    say(3, 1), read_value(input);
    output(first);
    begin();
    uint32_t one = row(0, (uint32_t[]){9}), two = row(1, (uint32_t[]){9});
    assert_true(bench_launch(bench));
    send((struct command){.kind = COMMAND_WORKFLOW_CANCEL});
    assert_int_equal(flow->state, WORKFLOW_CANCELLING);     /* a call is in a step */
    bench_compute(bench);
    bench_settle(bench, BENCH_UNIT);
    bench_intake(bench);
    free_ended();
    assert_int_equal(flow->state, WORKFLOW_DONE);
    assert_int_equal(flow->rows[one].state, WORKFLOW_ROW_DONE);
    assert_status(STATUS_GONE_CANCELLED, flow->rows[two].status);
    assert_true(sched_is_idle(&bench->sched));
    workflow_release(&bench->workflows, index_of_flow);
}

/* Two workflows want the same; the one that computes it is cancelled. */
static void test_who_waits_for_a_cancelled_call_calls_itself(void **state)
{
    (void)state;
    start();
    uint32_t at = 0, flows[2];
    for (uint32_t i = 0; i < 2; i++) {
        open_flow();
        uint32_t only = add(WORKFLOW_LLM);
        say(3, 1);
        output(only);
        begin();
        flows[i] = index_of_flow;
        at = row(0, NULL);
    }
    assert_int_equal(workflow_instance(flow, at, 0)->state, WORKFLOW_SHARED);
    index_of_flow = flows[0];
    flow = &bench->workflows.workflows[index_of_flow];
    send((struct command){.kind = COMMAND_WORKFLOW_CANCEL});
    free_ended();
    assert_int_equal(flow->state, WORKFLOW_DONE);
    index_of_flow = flows[1];
    flow = &bench->workflows.workflows[index_of_flow];
    run();
    check_row(at);
    assert_int_equal(flow->rows[at].calls, 1);
    end_flow();
}

static void test_shutdown_ends_all_rows(void **state)
{
    (void)state;
    start();
    open_flow();
    uint32_t first = add(WORKFLOW_LLM);
    say(3, 1);
    output(first);
    begin();
    uint32_t at = row(0, NULL);
    assert_false(sched_is_idle(&bench->sched));
    sched_fail_all(&bench->sched, STATUS_GONE_SHUTDOWN, bench->now_us);
    assert_int_equal(flow->rows[at].state, WORKFLOW_ROW_DONE);
    assert_status(STATUS_GONE_SHUTDOWN, flow->rows[at].status);
    assert_int_equal(flow->state, WORKFLOW_DONE);
}

/* As net gives it; sched has not looked at it yet. */
static void give_row(uint32_t at, uint32_t number)
{
    flow->rows[at] = (struct workflow_row){.state = WORKFLOW_ROW_GIVEN, .number = number,
                                           .arrival = flow->rows_given++, .values = {0, 64}};
}

/* Its instances are those of the row that had its place before: perhaps another client's. */
static void test_a_row_that_never_began_has_no_value(void **state)
{
    (void)state;
    start();
    open_flow();
    uint32_t only = add(WORKFLOW_LLM);
    say(3, 1);
    output(only);
    begin();
    uint32_t at = row(0, NULL);
    run();
    assert_int_equal(workflow_instance(flow, at, only)->state, WORKFLOW_KNOWN);
    give_row(at, 1);
    send((struct command){.kind = COMMAND_WORKFLOW_CANCEL});
    assert_int_equal(flow->state, WORKFLOW_DONE);
    assert_int_equal(flow->rows[at].state, WORKFLOW_ROW_DONE);
    assert_status(STATUS_GONE_CANCELLED, flow->rows[at].status);
    assert_int_equal(workflow_instance(flow, at, only)->state, WORKFLOW_FAILED);
    assert_int_equal(bench->stats.rows_done, 2);
}

/* All ends with the engine; then the command comes that the client sent before. */
static void test_a_workflow_may_be_over_before_it_is_opened(void **state)
{
    (void)state;
    start();
    open_flow();
    uint32_t only = add(WORKFLOW_LLM);
    say(3, 1);
    output(only);
    flow->state = WORKFLOW_ORDERING;
    sched_fail_all(&bench->sched, STATUS_DEVICE_FAILED, bench->now_us);
    send((struct command){.kind = COMMAND_WORKFLOW_OPEN});
    assert_int_equal(flow->state, WORKFLOW_DONE);
    assert_status(STATUS_DEVICE_FAILED, flow->status);
}

/* And not that of another operator, which has failed for another reason. */
static void test_a_row_has_the_status_of_its_first_output(void **state)
{
    (void)state;
    start();
    open_flow();
    uint32_t column = add(WORKFLOW_INPUT), long_one = add(WORKFLOW_LLM);
    say(BENCH_CONTEXT, 1);
    uint32_t lambda = add(WORKFLOW_LAMBDA);
    read_value(column);
    uint32_t last = add(WORKFLOW_LLM);
    read_value(lambda);
    output(last);
    output(long_one);
    begin();
    uint32_t at = row(0, (uint32_t[]){5});
    assert_int_equal(workflow_instance(flow, at, long_one)->state, WORKFLOW_FAILED);
    send((struct command){.kind = COMMAND_WORKFLOW_ANSWER, .row = at, .node = lambda,
                          .failed = true});
    assert_int_equal(flow->rows[at].state, WORKFLOW_ROW_DONE);
    assert_status(STATUS_BAD_LAMBDA, flow->rows[at].status);
}

/* Whatever made the first one end, the second does not wait for something to happen. */
static void test_a_workflow_that_is_too_large_delays_no_other(void **state)
{
    (void)state;
    start();
    struct workflow *flows[2];
    for (uint32_t i = 0; i < 2; i++) {
        open_flow();
        flows[i] = flow;
        flow->flow_id = i;
        uint32_t large = add(WORKFLOW_LLM), other = add(WORKFLOW_LLM);
        flow->nodes[other].call.sampling.seed = 1;
        flow->nodes[large].max_tokens = i == 0 ? UINT32_MAX : 1;
        output(large), output(other);
        flow->state = WORKFLOW_ORDERING;
    }
    bench_intake(bench);
    assert_int_equal(flows[0]->state, WORKFLOW_DONE);
    assert_status(STATUS_BAD_FLOW_SIZE, flows[0]->status);
    assert_int_equal(flows[1]->state, WORKFLOW_ORDERING);
    assert_true(sched_next_us(&bench->sched, bench->now_us) <= bench->now_us);
}

/* What had been begun for the first one is not gone on with for the second. */
static void test_the_place_of_one_that_is_too_large_is_ordered_for_the_next(void **state)
{
    (void)state;
    start();
    open_flow();
    uint32_t place = index_of_flow;
    for (uint32_t i = 0; i < 2; i++) {
        flow->nodes[add(WORKFLOW_LLM)].max_tokens = i == 0 ? UINT32_MAX : 1;
        output(i);
    }
    flow->state = WORKFLOW_ORDERING;
    bench_intake(bench);
    assert_int_equal(flow->state, WORKFLOW_DONE);
    workflow_release(&bench->workflows, place);
    open_flow();
    assert_int_equal(index_of_flow, place);
    add(WORKFLOW_INPUT);
    uint32_t only = add(WORKFLOW_LLM);
    say(3, 1), read_value(0);
    output(only);
    begin();
    uint32_t at = row(1, (const uint32_t[]){5});
    run();
    check_row(at);
    end_flow();
}

/* Its client broke off after FLOW_CLOSE, and came back before the scheduler had seen that. */
static void test_a_close_of_the_connection_before_closes_nothing(void **state)
{
    (void)state;
    start();
    open_flow();
    uint32_t only = add(WORKFLOW_LLM);
    say(3, 1);
    output(only);
    begin();
    flow->is_closed = false;
    send((struct command){.kind = COMMAND_WORKFLOW_CLOSE});
    assert_int_equal(flow->state, WORKFLOW_OPEN);
    assert_false(flow->is_closed);
    end_flow();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_question_without_an_answer_fails_the_row),
        cmocka_unit_test(test_a_prompt_that_is_too_long_fails_its_row_alone),
        cmocka_unit_test(test_cancel_ends_every_row_once),
        cmocka_unit_test(test_who_waits_for_a_cancelled_call_calls_itself),
        cmocka_unit_test(test_shutdown_ends_all_rows),
        cmocka_unit_test(test_a_row_that_never_began_has_no_value),
        cmocka_unit_test(test_a_workflow_may_be_over_before_it_is_opened),
        cmocka_unit_test(test_a_row_has_the_status_of_its_first_output),
        cmocka_unit_test(test_a_workflow_that_is_too_large_delays_no_other),
        cmocka_unit_test(test_the_place_of_one_that_is_too_large_is_ordered_for_the_next),
        cmocka_unit_test(test_a_close_of_the_connection_before_closes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
