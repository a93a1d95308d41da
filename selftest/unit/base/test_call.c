/* SPDX-License-Identifier: MIT */
/*
 * Goal: no call slot is lost, generations grow, lists end up empty, and the exchange reports a call
 * once.
 * Method: exhaust and refill a small table.
 */
#include "selftest/unit/test.h"

#include "config/base/exchange.h"
#include "config/base/step.h"

static void test_take_all_then_none_then_release_all(void **state)
{
    struct call_table table;
    call_table_init(&table, 3, 16, test_arena(), test_arena());
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(call_take(&table, 0), i);
    }
    assert_int_equal(call_take(&table, 0), CALL_NONE);
    uint32_t generation = table.calls[1].generation;
    uint32_t *tokens = table.calls[1].tokens;
    call_release(&table, 1);
    assert_int_equal(call_take(&table, 0), 1);
    assert_int_equal(table.calls[1].generation, generation + 1);
    assert_ptr_equal(table.calls[1].tokens, tokens);
    assert_ptr_equal(table.calls[2].tokens, tokens + 16);
    assert_int_equal(table.calls[1].state, CALL_INTAKE);
}

static void test_release_of_a_running_or_listed_call_asserts(void **state)
{
    struct call_table table;
    call_table_init(&table, 2, 16, test_arena(), test_arena());
    uint32_t index = call_take(&table, 0);
    table.calls[index].state = CALL_RUNNING;
    expect_assert_failure(call_release(&table, index));
    table.calls[index].state = CALL_FINISHED;
    table.calls[index].lists = 1;
    expect_assert_failure(call_release(&table, index));
    expect_assert_failure(call_release(&table, 99));
}

static void test_emit_marks_a_call_once(void **state)
{
    struct call_table table;
    struct exchange exchange;
    struct arena *arena = test_arena();
    call_table_init(&table, 4, 16, arena, arena);
    exchange_init(&exchange, &(struct exchange_counts){.commands = 8, .calls = 4},
                  arena);
    uint32_t index = call_take(&table, 0);
    exchange_emit(&exchange, &table.calls[index]);
    exchange_emit(&exchange, &table.calls[index]);
    assert_int_equal(ring_count(&exchange.emit_ring), 1);
    assert_int_equal(exchange.emit[ring_pop(&exchange.emit_ring)], index);
}

static void test_step_sections_do_not_overlap(void **state)
{
    struct step step;
    step.layout = (struct step_layout){
        .rows_max = 5, .steps_max = 3, .tokens_max = 17, .blocks_per_call = 9, .moves_max = 21};
    step_layout_init(&step.layout);
    step.base = arena_take(test_arena(), 1, step.layout.total_bytes);
    assert_true((uint8_t *)step_moves(&step) >= step.base + sizeof(struct step_header));
    assert_true((uint8_t *)(step_moves(&step) + 21) <= (uint8_t *)step_row(&step, 0));
    assert_true((uint8_t *)step_row(&step, 5) <= (uint8_t *)step_tokens(&step));
    assert_true((uint8_t *)(step_tokens(&step) + 17) <= (uint8_t *)step_blocks(&step, 0));
    assert_true((uint8_t *)step_blocks(&step, 5) <= (uint8_t *)step_out(&step, 0));
    assert_true((uint8_t *)step_out(&step, 5) <= (uint8_t *)step_out_tokens(&step, 0));
    assert_true((uint8_t *)step_out_tokens(&step, 5) <= step.base + step.layout.total_bytes);
}

static void test_news_marks_a_workflow_once(void **state)
{
    struct exchange exchange;
    exchange_init(&exchange, &(struct exchange_counts){.commands = 8, .calls = 4, .workflows = 3},
                  test_arena());
    exchange_workflow_news(&exchange, 2);
    exchange_workflow_news(&exchange, 0);
    exchange_workflow_news(&exchange, 2);
    assert_int_equal(ring_count(&exchange.news_ring), 2);
    assert_int_equal(exchange_workflow_news_pop(&exchange), 2);
    exchange_workflow_news(&exchange, 2);
    assert_int_equal(exchange_workflow_news_pop(&exchange), 0);
    assert_int_equal(exchange_workflow_news_pop(&exchange), 2);
    assert_true(ring_is_empty(&exchange.news_ring));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_take_all_then_none_then_release_all),
        cmocka_unit_test(test_release_of_a_running_or_listed_call_asserts),
        cmocka_unit_test(test_emit_marks_a_call_once),
        cmocka_unit_test(test_step_sections_do_not_overlap),
        cmocka_unit_test(test_news_marks_a_workflow_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
