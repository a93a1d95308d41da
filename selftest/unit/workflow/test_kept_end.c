/* SPDX-License-Identifier: MIT */
/*
 * Goal: a row that goes on after a death has what its instances had ended with, and nothing that is
 * torn, garbled, or of another row.
 * Method: a row is run, and then given once more in its place, as by the core's successor, with the
 * same memory. No prompt cache helps. The twin says what values must be.
 */
#include "sched/workflow/kept_end.h"

#include "selftest/unit/workflow/flow_rig.h"

enum { LIFE = 7 };

static uint32_t first, lambda, last;

static void begin_chain(void)
{
    start_with(bench_settings(SCHED_PLAS), 0);
    open_flow();
    uint32_t input = add(WORKFLOW_INPUT);
    first = add(WORKFLOW_LLM);
    say(3, 1), read_value(input);
    lambda = add(WORKFLOW_LAMBDA);
    read_value(first);
    last = add(WORKFLOW_LLM);
    say(2, 4), read_value(lambda);
    output(last);
    begin();
}

/* A row that has begun, and has `life`. */
static uint32_t give(uint64_t life)
{
    uint32_t at = row(0, (uint32_t[]){9});
    flow->rows[at].life = life;
    return at;
}

static void give_again(uint32_t at, uint64_t life)
{
    struct workflow_row *its = &flow->rows[at], old = *its;
    *its = (struct workflow_row){.state = WORKFLOW_ROW_GIVEN, .number = old.number,
                                 .arrival = flow->rows_given++, .values = old.values,
                                 .nodes_first = old.nodes_first, .life = life, .goes_on = true};
    memcpy(its->columns, old.columns, sizeof its->columns);
    memcpy(its->heads, old.heads, sizeof its->heads);
    memcpy(its->digests, old.digests, sizeof its->digests);
    send((struct command){.kind = COMMAND_WORKFLOW_ROW, .row = at});
}

static uint32_t row_that_has_run(void)
{
    begin_chain();
    uint32_t at = give(LIFE);
    run();
    check_row(at);
    assert_int_equal(flow->rows[at].calls, 2);
    return at;
}

static void test_what_is_known_is_not_computed_again(void **state)
{
    (void)state;
    uint32_t at = row_that_has_run();
    give_again(at, LIFE);
    check_row(at);
    assert_int_equal(flow->rows[at].calls, 0);
    end_flow();
}

static void forget(uint32_t at, uint32_t node)
{
    struct sched_instance of = {flow, at, node};
    flow->kept_ends[sched_instance_index(of)] = (struct workflow_kept_end){0};
}

static void test_what_had_not_ended_is_computed(void **state)
{
    (void)state;
    uint32_t at = row_that_has_run();
    forget(at, lambda), forget(at, last);
    give_again(at, LIFE);
    assert_int_equal(workflow_instance(flow, at, first)->state, WORKFLOW_KNOWN);
    assert_int_equal(workflow_instance(flow, at, lambda)->state, WORKFLOW_ASKED);
    run();
    check_row(at);
    assert_int_equal(flow->rows[at].calls, 1);
    end_flow();
}

static void test_what_another_row_has_left_in_its_place_is_not_taken(void **state)
{
    (void)state;
    uint32_t at = row_that_has_run();
    give_again(at, LIFE + 1);
    run();
    check_row(at);
    assert_int_equal(flow->rows[at].calls, 2);
    end_flow();
}

static void test_row_that_begins_without_a_death_takes_nothing(void **state)
{
    (void)state;
    uint32_t at = row_that_has_run();
    flow->rows[at].state = WORKFLOW_ROW_FREE;
    assert_int_equal(give(LIFE), at);
    run();
    assert_int_equal(flow->rows[at].calls, 2);
    end_flow();
}

static void test_failure_is_known_again(void **state)
{
    (void)state;
    begin_chain();
    uint32_t at = give(LIFE);
    while (workflow_instance(flow, at, lambda)->state != WORKFLOW_ASKED) {
        assert_true(bench_step(bench));
        bench_intake(bench);
    }
    free_ended();
    send((struct command){.kind = COMMAND_WORKFLOW_ANSWER, .row = at, .node = lambda,
                          .failed = true});
    assert_int_equal(flow->rows[at].state, WORKFLOW_ROW_DONE);
    enum status why = flow->rows[at].status;
    assert_status(STATUS_BAD_LAMBDA, why);
    give_again(at, LIFE);
    assert_int_equal(flow->rows[at].state, WORKFLOW_ROW_DONE);
    assert_status(why, flow->rows[at].status);
    assert_int_equal(workflow_instance(flow, at, first)->state, WORKFLOW_KNOWN);
    assert_int_equal(workflow_instance(flow, at, lambda)->state, WORKFLOW_FAILED);
    assert_int_equal(flow->asked, 0);
    end_flow();
}

/* Each byte of an end, and of the value's tokens. */
static void test_garbage_is_computed_again(void **state)
{
    (void)state;
    uint32_t at = row_that_has_run();
    struct sched_instance of = {flow, at, last};
    struct workflow_kept_end *end = &flow->kept_ends[sched_instance_index(of)];
    uint8_t *value = (uint8_t *)workflow_value(flow, at, last);
    uint32_t value_bytes = workflow_instance(flow, at, last)->value_tokens * sizeof(uint32_t);
    for (uint32_t i = 0; i < sizeof *end + value_bytes; i++) {
        uint8_t *byte = i < sizeof *end ? (uint8_t *)end + i : value + (i - sizeof *end);
        *byte ^= (uint8_t)(1u << i % 8);
        give_again(at, LIFE);
        run();
        check_row(at);
        assert_int_equal(flow->rows[at].calls, 1);
    }
    assert_true(value_bytes > 0);
    end_flow();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_known_is_not_computed_again),
        cmocka_unit_test(test_what_had_not_ended_is_computed),
        cmocka_unit_test(test_what_another_row_has_left_in_its_place_is_not_taken),
        cmocka_unit_test(test_row_that_begins_without_a_death_takes_nothing),
        cmocka_unit_test(test_failure_is_known_again),
        cmocka_unit_test(test_garbage_is_computed_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
