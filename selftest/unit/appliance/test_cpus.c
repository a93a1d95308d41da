/* SPDX-License-Identifier: MIT */
/*
 * Goal: workers divide the CPUs of any machine: none has another's, none is left out, and each has
 * as many as the others, give or take one.
 * Method: sets by hand and drawn; this machine's own.
 */
#include "selftest/unit/test.h"

#include "appliance/boot/cpus.h"

static struct cpus of(const uint32_t *numbers, uint32_t count)
{
    struct cpus cpus = {{0}};
    for (uint32_t i = 0; i < count; i++) {
        cpus.bits[numbers[i] / 64] |= UINT64_C(1) << numbers[i] % 64;
    }
    return cpus;
}
#define OF(...) of((const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / 4)

static void assert_text(struct cpus cpus, const char *expected)
{
    char text[CPUS_TEXT_BYTES];
    cpus_write(&cpus, text);
    assert_string_equal(text, expected);
}

static void assert_part(struct cpus all, uint32_t part, uint32_t parts, const char *expected)
{
    struct cpus own;
    assert_true(cpus_part(&all, part, parts, &own));
    assert_text(own, expected);
}

static void test_sets_are_written_as_ranges(void **state)
{
    (void)state;
    assert_text((struct cpus){{0}}, "");
    assert_text(OF(7), "7");
    assert_text(OF(0, 1, 2, 3, 8, 62, 63, 64, 65, 1023), "0-3,8,62-65,1023");
    struct cpus odd = {{0}};
    for (uint32_t i = 0; i < CPUS_MAX / 64; i++) {
        odd.bits[i] = UINT64_C(0xaaaaaaaaaaaaaaaa);
    }
    assert_text(odd, "1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31,33,35,37,39");
}

static void test_parts_are_neighbours_by_number(void **state)
{
    (void)state;
    assert_part(OF(0, 1, 2, 3), 0, 2, "0-1");
    assert_part(OF(0, 1, 2, 3), 1, 2, "2-3");
    assert_part(OF(4, 9, 10, 11, 200), 0, 2, "4,9");
    assert_part(OF(4, 9, 10, 11, 200), 1, 2, "10-11,200");
    assert_part(OF(5, 6), 0, 1, "5-6");
}

static void test_fewer_cpus_than_parts_is_told(void **state)
{
    (void)state;
    struct cpus own, two = OF(0, 1);
    for (uint32_t part = 0; part < 3; part++) {
        assert_false(cpus_part(&two, part, 3, &own));
    }
    assert_true(cpus_part(&two, 1, 2, &own));
}

static void test_any_set_is_divided_evenly_and_whole(void **state)
{
    (void)state;
    uint64_t random = 7;
    for (uint32_t round = 0; round < 2000; round++) {
        struct cpus all, sum = {{0}}, own;
        uint32_t parts = 1 + round % 8, least = CPUS_MAX, most = 0;
        for (uint32_t i = 0; i < CPUS_MAX / 64; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            all.bits[i] = i < 1 + round % 16 ? random & random >> 7 : 0;
        }
        all.bits[0] |= 0xff;
        for (uint32_t part = 0; part < parts; part++) {
            assert_true(cpus_part(&all, part, parts, &own));
            uint32_t count = cpus_count(&own);
            least = count < least ? count : least;
            most = count > most ? count : most;
            for (uint32_t i = 0; i < CPUS_MAX / 64; i++) {
                assert_true((sum.bits[i] & own.bits[i]) == 0);
                sum.bits[i] |= own.bits[i];
            }
        }
        assert_true(least > 0 && most - least <= 1);
        assert_memory_equal(&sum, &all, sizeof sum);
    }
}

static void test_a_thread_keeps_to_its_part(void **state)
{
    (void)state;
    struct cpus all, own, now;
    assert_true(cpus_read(&all));
    assert_true(cpus_count(&all) > 0);
    assert_true(cpus_part(&all, 0, cpus_count(&all), &own));
    assert_int_equal(cpus_count(&own), 1);
    assert_true(cpus_keep_to(&own));
    assert_true(cpus_read(&now));
    assert_memory_equal(&now, &own, sizeof now);
    assert_true(cpus_keep_to(&all));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sets_are_written_as_ranges),
        cmocka_unit_test(test_parts_are_neighbours_by_number),
        cmocka_unit_test(test_fewer_cpus_than_parts_is_told),
        cmocka_unit_test(test_any_set_is_divided_evenly_and_whole),
        cmocka_unit_test(test_a_thread_keeps_to_its_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
