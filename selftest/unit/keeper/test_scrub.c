/* SPDX-License-Identifier: MIT */
/*
 * Goal: any bit that flips in memory that was learnt is found in one round over its slices, and in
 * its own slice; nothing else is.
 * Method: memory of odd sizes, slices of several; one bit after the other.
 */
#include "selftest/unit/test.h"

#include "appliance/keeper/scrub.h"

static struct scrub scrub;
static uint8_t memory[SCRUB_SLICES_MAX * 3 + 5];

static void learn(uint64_t bytes, uint64_t slice_bytes)
{
    for (uint64_t i = 0; i < bytes; i++) {
        memory[i] = (uint8_t)(i * 37 + i / 251);
    }
    scrub_learn(&scrub, memory, bytes, slice_bytes);
}

/* Slices that are not what they were, and the last of them. */
static uint32_t count_changed(uint32_t *which)
{
    uint32_t changed = 0;
    for (uint32_t i = 0; i < scrub.count; i++) {
        if (!scrub_next(&scrub)) {
            changed++;
            *which = scrub_last(&scrub);
        }
    }
    return changed;
}

static void check_bits(uint64_t bytes, uint64_t slice_bytes)
{
    uint32_t which = UINT32_MAX;
    learn(bytes, slice_bytes);
    assert_int_equal(count_changed(&which), 0);
    for (uint64_t bit = 0; bit < bytes * 8; bit += 1 + bytes / 40) {
        memory[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(count_changed(&which), 1);
        assert_int_equal(which, bit / 8 / scrub.slice_bytes);
        memory[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(count_changed(&which), 0);
    }
}

static void test_flipped_bit_is_found_in_its_slice(void **state)
{
    (void)state;
    check_bits(1, 4096);
    check_bits(4096, 4096);
    check_bits(4097, 4096);
    check_bits(1000, 64);
    check_bits(1003, 100);
}

static void test_slices_grow_where_there_would_be_too_many(void **state)
{
    (void)state;
    check_bits(sizeof memory, 1);
    assert_int_equal(scrub.slice_bytes, 4);
    assert_true(scrub.count <= SCRUB_SLICES_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flipped_bit_is_found_in_its_slice),
        cmocka_unit_test(test_slices_grow_where_there_would_be_too_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
