/* SPDX-License-Identifier: MIT */
/*
 * Goal: rounds wait for the copies that tools/lab/device/copies.h says, and a step for all of them.
 * Method: copies of 4, 1 and 3 s, by hand.
 */
#include "selftest/unit/test.h"

#include "tools/lab/device/copies.h"

static const struct copies apart = {
    .out_s = 4, .within_s = 1, .in_s = 3, .out_needed_s = 0.5, .in_needed_s = 2};

static void assert_times(const struct copies *copies, enum cost_copies kind, double rounds_s,
                         double done_s)
{
    struct copies_times times = copies_times(copies, kind);
    assert_true(times.rounds_s == rounds_s);
    assert_true(times.done_s == done_s);
}

static void test_serial_copies_come_one_after_the_other(void **state)
{
    (void)state;
    assert_times(&apart, COST_COPIES_SERIAL, 8, 8);
}

static void test_streams_run_beside_each_other(void **state)
{
    (void)state;
    assert_times(&apart, COST_COPIES_STREAMS, 3, 4);
    const struct copies out = {.out_s = 4};
    assert_times(&out, COST_COPIES_STREAMS, 0, 4);
}

static void test_stream_waits_for_all_of_the_one_whose_blocks_it_fills(void **state)
{
    (void)state;
    struct copies copies = apart;
    copies.in_fills_out = true;
    assert_times(&copies, COST_COPIES_STREAMS, 4 + 3, 7);
    copies = apart;
    copies.in_fills_within = true;
    assert_times(&copies, COST_COPIES_STREAMS, 1 + 3, 4);
    copies.within_fills_out = true;
    assert_times(&copies, COST_COPIES_STREAMS, 4 + 1 + 3, 8);
    copies = apart;
    copies.rows_fill_out = true;
    assert_times(&copies, COST_COPIES_STREAMS, 4, 4);
}

/* Two seconds come in for rows, half a second leaves where they write, one is copied within. */
static void test_needed_blocks_alone_delay_the_rounds(void **state)
{
    (void)state;
    struct copies copies = apart;
    copies.in_fills_out = copies.rows_fill_out = true;
    assert_times(&copies, COST_COPIES_NEEDED, 3, 4);
    copies.out_s = 0;
    copies.in_s = 2.5;
    assert_times(&copies, COST_COPIES_NEEDED, 3, 3);
}

static void test_no_copies_take_no_time(void **state)
{
    (void)state;
    const struct copies none = {0};
    assert_times(&none, COST_COPIES_SERIAL, 0, 0);
    assert_times(&none, COST_COPIES_STREAMS, 0, 0);
    assert_times(&none, COST_COPIES_NEEDED, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_serial_copies_come_one_after_the_other),
        cmocka_unit_test(test_streams_run_beside_each_other),
        cmocka_unit_test(test_stream_waits_for_all_of_the_one_whose_blocks_it_fills),
        cmocka_unit_test(test_needed_blocks_alone_delay_the_rounds),
        cmocka_unit_test(test_no_copies_take_no_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
