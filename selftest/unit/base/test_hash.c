/* SPDX-License-Identifier: MIT */
/*
 * Goal: ids spread over a table whatever their pattern, and without the key it cannot be known
 * which of them collide.
 * Method: ids that differ in one bit, or count upwards; the same ids under two keys.
 */
#include "selftest/unit/test.h"

#include "config/base/hash.h"

enum { IDS = 1024 };

static const uint64_t key_a[2] = {0x0123456789abcdef, 0xfedcba9876543210};
static const uint64_t key_b[2] = {0x0123456789abcdee, 0xfedcba9876543210};
static const uint64_t no_key[2];

static uint64_t hash_of(const uint64_t *key, uint64_t domain, uint32_t number)
{
    uint8_t id[CALL_PROGRAM_ID_BYTES] = {0};
    memcpy(id, &number, sizeof number);
    return hash_program(key, domain, id);
}

/* With as many chains as ids, a random function's longest chain has about six. */
static void test_counting_ids_spread_over_the_chains(void **state)
{
    const uint64_t *const keys[] = {key_a, key_b, no_key};
    for (int k = 0; k < 3; k++) {
        uint32_t chains[IDS] = {0}, calls[IDS] = {0};
        for (uint32_t i = 0; i < IDS; i++) {
            chains[hash_of(keys[k], 7, i) % IDS]++;
            calls[hash_call(keys[k], hash_of(keys[k], 7, 1), i) % IDS]++;
        }
        for (uint32_t i = 0; i < IDS; i++) {
            assert_true(chains[i] < 12 && calls[i] < 12);
        }
    }
}

static void test_every_bit_of_an_id_and_of_its_domain_counts(void **state)
{
    uint8_t id[CALL_PROGRAM_ID_BYTES] = "some program id";
    uint64_t hash = hash_program(key_a, 5, id);
    for (uint32_t bit = 0; bit < 8 * sizeof id; bit++) {
        id[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_true(hash_program(key_a, 5, id) != hash);
        id[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (uint32_t bit = 0; bit < 64; bit++) {
        assert_true(hash_program(key_a, 5 ^ UINT64_C(1) << bit, id) != hash);
        assert_true(hash_call(key_a, hash, UINT64_C(1) << bit) != hash_call(key_a, hash, 0));
    }
}

/* Another key scatters ids that were chosen to collide under one key. */
static void test_ids_that_collide_under_one_key_do_not_under_another(void **state)
{
    uint32_t met = 0, meet_again = 0, first = 0;
    for (uint32_t i = 0; met < 64; i++) {
        if (hash_of(key_a, 0, i) % IDS == 3) {
            first = met++ == 0 ? i : first;
            meet_again += hash_of(key_b, 0, i) % IDS == hash_of(key_b, 0, first) % IDS;
        }
    }
    assert_true(meet_again < 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counting_ids_spread_over_the_chains),
        cmocka_unit_test(test_every_bit_of_an_id_and_of_its_domain_counts),
        cmocka_unit_test(test_ids_that_collide_under_one_key_do_not_under_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
