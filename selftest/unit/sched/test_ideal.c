/* SPDX-License-Identifier: MIT */
/*
 * Goal: the ideal system shares exactly: programs leave it in the order of their tags, when they
 * would in floating point, and no service is lost in its integers.
 * Method: hand-worked cases; random arrivals and services beside a fluid system in long double,
 * which hands out service program by program and knows neither tags nor a virtual time.
 */
#include "selftest/unit/test.h"

#include <math.h>

#include "sched/ideal.h"

enum { PROGRAMS = 8, ENTRIES = SCHED_IDEAL_TIMES * PROGRAMS, EVENTS = 20000 };

static struct sched_ideal ideal;

static void start(void)
{
    sched_ideal_init(&ideal, PROGRAMS, test_arena());
}

static uint32_t enter(uint64_t cost, uint32_t weight)
{
    struct sched_ideal_entry what = {.tag = ideal.virtual_time + cost / weight, .weight = weight};
    uint32_t entry = sched_ideal_enter(&ideal, &what, 0);
    sched_ideal_check(&ideal);
    return entry;
}

static void advance(uint64_t served)
{
    sched_ideal_advance(&ideal, served, 1000, 100);
    sched_ideal_check(&ideal);
}

static void test_one_alone_gets_all(void **state)
{
    (void)state;
    start();
    uint32_t only = enter(40, 1);
    advance(30);
    assert_int_equal(ideal.virtual_time, 30);
    assert_int_equal(ideal.left, SCHED_IDEAL_NONE);
    advance(40);                    /* a quarter of it is enough */
    assert_int_equal(ideal.left, only);
    assert_int_equal(ideal.entries[only].left_us, 1025);
    assert_int_equal(ideal.virtual_time, 40);
    advance(1000);                  /* it stands still */
    assert_int_equal(ideal.virtual_time, 40);
}

/* 30 and 10: the second leaves after 20, the first after 40. */
static void test_two_share_and_the_smaller_leaves_first(void **state)
{
    (void)state;
    start();
    uint32_t large = enter(30, 1), small = enter(10, 1);
    advance(40);
    assert_int_equal(ideal.left, small);
    assert_int_equal(ideal.entries[small].left_us, 1050);
    assert_int_equal(ideal.entries[small].next, large);
    assert_int_equal(ideal.entries[large].left_us, 1100);
}

static void test_a_weight_of_three_gets_three_shares(void **state)
{
    (void)state;
    start();
    uint32_t heavy = enter(30, 3), light = enter(30, 1);
    advance(40);
    assert_int_equal(ideal.left, heavy);
    assert_int_equal(ideal.entries[heavy].next, SCHED_IDEAL_NONE);
    advance(20);
    assert_int_equal(ideal.left, light);
}

static void test_what_a_division_leaves_over_is_kept(void **state)
{
    (void)state;
    start();
    for (uint32_t i = 0; i < 3; i++) {
        enter(1000, 1);
    }
    for (uint32_t i = 0; i < 300; i++) {
        advance(1);
    }
    assert_int_equal(ideal.virtual_time, 100);
}

static void test_a_moved_tag_leaves_later(void **state)
{
    (void)state;
    start();
    uint32_t first = enter(10, 1), second = enter(20, 1);
    sched_ideal_move(&ideal, first, 30);
    advance(40);
    assert_int_equal(ideal.left, second);
    assert_int_equal(ideal.entries[second].next, SCHED_IDEAL_NONE);
}

static void test_rest_empties_it_and_goes_to_the_largest_tag(void **state)
{
    (void)state;
    start();
    enter(10, 1);
    enter(25, 1);
    sched_ideal_rest(&ideal, 7);
    sched_ideal_check(&ideal);
    assert_int_equal(ideal.virtual_time, 25);
    assert_int_equal(ideal.weights, 0);
    assert_int_equal(ideal.entries[ideal.left].left_us, 7);
}

static void test_when_all_entries_are_taken_the_smallest_leaves_early(void **state)
{
    (void)state;
    start();
    uint32_t smallest = SCHED_IDEAL_NONE;
    for (uint32_t i = 0; i < ENTRIES; i++) {
        uint32_t entry = enter(1000 - i, 1);
        smallest = i + 1 == ENTRIES ? entry : smallest;
    }
    assert_int_equal(ideal.early, 0);
    uint32_t late = enter(5000, 1);
    assert_int_equal(ideal.early, 1);
    assert_int_equal(ideal.left, smallest);
    assert_true(heap_has(&ideal.tags, late) && !heap_has(&ideal.tags, smallest));
    enter(6000, 1);
    assert_int_equal(ideal.early, 2);
}

/* ---- beside a fluid system ------------------------------------------------------------------- */

static uint64_t random_state = 1;

static uint32_t below(uint32_t bound)
{
    random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % bound;
}

static struct {
    long double owed;
    uint32_t entry;
    bool is_in;
} fluid[ENTRIES];

/* Hands out `served` in equal shares. */
static void pour(long double served)
{
    while (served > 0) {
        uint32_t count = 0, least = ENTRIES;
        for (uint32_t i = 0; i < ENTRIES; i++) {
            count += fluid[i].is_in;
            if (fluid[i].is_in && (least == ENTRIES || fluid[i].owed < fluid[least].owed)) {
                least = i;
            }
        }
        if (count == 0) {
            return;
        }
        long double each = fminl(served / count, fluid[least].owed);
        for (uint32_t i = 0; i < ENTRIES; i++) {
            fluid[i].owed -= fluid[i].is_in ? each : 0;
        }
        served -= each * count;
        fluid[least].is_in = fluid[least].is_in && fluid[least].owed > 1e-9L;
    }
}

/* What is left over of a division goes with the number of programs that it is divided by next, so
 * the two drift apart by less than one unit for each that comes or goes meanwhile. */
static void test_random_services_agree_with_a_fluid_system(void **state)
{
    (void)state;
    uint32_t in_both = 0, in_one = 0;
    start();
    for (uint32_t event = 0; event < EVENTS; event++) {
        uint32_t at = below(ENTRIES - 1);
        if (!fluid[at].is_in && ideal.tags.count + 1 < ENTRIES && below(3) == 0) {
            uint64_t cost = 100000 + below(1000000);
            fluid[at].entry = enter(cost, 1);
            fluid[at].owed = cost;
            fluid[at].is_in = true;
        } else {
            uint32_t served = below(400000);
            advance(served);
            pour(served);
        }
        for (uint32_t i = 0; i < ENTRIES; i++) {
            bool is_in = fluid[i].is_in && heap_has(&ideal.tags, fluid[i].entry);
            in_both += is_in;
            in_one += fluid[i].is_in && !is_in;
            if (is_in) {
                long double owed =
                    (long double)(ideal.entries[fluid[i].entry].tag - ideal.virtual_time);
                assert_true(fabsl(owed - fluid[i].owed) < 1 + ENTRIES);
            } else {
                fluid[i].is_in = false;
            }
        }
    }
    assert_true(in_both > EVENTS && in_one < in_both / 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_alone_gets_all),
        cmocka_unit_test(test_two_share_and_the_smaller_leaves_first),
        cmocka_unit_test(test_a_weight_of_three_gets_three_shares),
        cmocka_unit_test(test_what_a_division_leaves_over_is_kept),
        cmocka_unit_test(test_a_moved_tag_leaves_later),
        cmocka_unit_test(test_rest_empties_it_and_goes_to_the_largest_tag),
        cmocka_unit_test(test_when_all_entries_are_taken_the_smallest_leaves_early),
        cmocka_unit_test(test_random_services_agree_with_a_fluid_system),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
