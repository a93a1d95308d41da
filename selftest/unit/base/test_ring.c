/* SPDX-License-Identifier: MIT */
/*
 * Goal: first in, first out, bounded, also when the counters wrap.
 * Method: a ring against a plain array, started just below 2^32.
 */
#include "selftest/unit/test.h"

#include "config/base/ring.h"

static void test_push_pop_keep_order_over_the_wrap(void **state)
{
    struct ring ring;
    uint32_t slots[8], expected_next = 0, pushed = 0;
    ring_init(&ring, 8);
    ring.head = ring.tail = UINT32_MAX - 5;
    for (uint32_t round = 0; round < 1000; round++) {
        while (!ring_is_full(&ring) && pushed % 3 != round % 3) {
            slots[ring_push(&ring)] = pushed++;
        }
        if (!ring_is_full(&ring)) {
            slots[ring_push(&ring)] = pushed++;
        }
        for (uint32_t i = 0; i <= round % 4 && !ring_is_empty(&ring); i++) {
            assert_int_equal(slots[ring_pop(&ring)], expected_next);
            expected_next++;
        }
        assert_int_equal(ring_count(&ring), pushed - expected_next);
    }
    assert_true(ring.high_water <= 8 && ring.high_water > 0);
}

static void test_push_when_full_and_pop_when_empty_assert(void **state)
{
    struct ring ring;
    ring_init(&ring, 1);
    expect_assert_failure(ring_pop(&ring));
    (void)ring_push(&ring);
    expect_assert_failure(ring_push(&ring));
    expect_assert_failure(ring_init(&ring, 3));
}

static void test_capacity_is_the_next_power_of_two(void **state)
{
    assert_int_equal(ring_capacity_ceil(1), 1);
    assert_int_equal(ring_capacity_ceil(3), 4);
    assert_int_equal(ring_capacity_ceil(4), 4);
    assert_int_equal(ring_capacity_ceil(1000), 1024);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_push_pop_keep_order_over_the_wrap),
        cmocka_unit_test(test_push_when_full_and_pop_when_empty_assert),
        cmocka_unit_test(test_capacity_is_the_next_power_of_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
