/* SPDX-License-Identifier: MIT */
/*
 * Goal: memory plan and arena agree to the byte, and large numbers cannot overflow either.
 * Method: small arenas, sums near 2^64, assertions where the caller breaks a rule.
 */
#include "selftest/unit/test.h"

#include <unistd.h>

static void test_take_planned_rows_uses_planned_bytes(void **state)
{
    struct memory_plan plan = {0};
    struct arena arena;
    static _Alignas(64) uint8_t memory[1024];
    memory_plan_add(&plan, MEMORY_CORE, "odd", 3, 7);
    memory_plan_add(&plan, MEMORY_CORE, "even", 2, 64);
    memory_plan_add(&plan, MEMORY_ENGINE, "elsewhere", 1, 100000);

    arena_init(&arena, memory, memory_plan_bytes(&plan, MEMORY_CORE));
    uint8_t *odd = arena_take(&arena, 3, 7);
    uint8_t *even = arena_take(&arena, 2, 64);

    assert_int_equal(memory_plan_bytes(&plan, MEMORY_CORE), 64 + 128);
    assert_int_equal(arena.used_bytes, arena.size_bytes);
    assert_ptr_equal(even, odd + 64);
    assert_false(plan.overflow);
}

static void test_rows_of_several_owners_are_what_each_takes(void **state)
{
    static _Alignas(64) uint8_t memory[1024];
    struct memory_plan part = {0}, plan = {0}, one = {0};
    struct arena arena;
    memory_plan_add(&part, MEMORY_CORE, "odd", 3, 7);
    memory_plan_add(&part, MEMORY_CORE, "even", 2, 64);
    memory_plan_add_each(&plan, &part, 3);
    assert_int_equal(plan.rows_count, 2);
    arena_init(&arena, memory, memory_plan_bytes(&plan, MEMORY_CORE));
    for (uint32_t i = 0; i < 3; i++) {
        (void)arena_take(&arena, 3, 7);
        (void)arena_take(&arena, 2, 64);
    }
    assert_int_equal(arena.used_bytes, arena.size_bytes);
    memory_plan_add_each(&one, &part, 1);           /* of one, the rows are the same */
    assert_memory_equal(&one, &part, sizeof one);
    memory_plan_add(&part, MEMORY_CORE, "huge", UINT64_MAX, 2);
    memory_plan_add_each(&plan, &part, 3);
    assert_true(plan.overflow);
}

static void test_plan_of_huge_rows_overflows(void **state)
{
    struct memory_plan product = {0}, sum = {0};
    memory_plan_add(&product, MEMORY_CORE, "product", UINT64_MAX / 2, 3);
    memory_plan_add(&sum, MEMORY_CORE, "half", UINT64_MAX / 2, 1);
    assert_false(sum.overflow);
    memory_plan_add(&sum, MEMORY_CORE, "other half", UINT64_MAX / 2, 1);
    memory_plan_add(&sum, MEMORY_CORE, "one more", 1, 1);

    assert_true(product.overflow);
    assert_true(sum.overflow);
    assert_int_equal(memory_plan_bytes(&product, MEMORY_CORE), UINT64_MAX);
}

static void test_take_beyond_the_end_or_the_seal_asserts(void **state)
{
    static _Alignas(64) uint8_t memory[128];
    struct arena arena;
    arena_init(&arena, memory, sizeof memory);
    (void)arena_take(&arena, 1, 64);
    expect_assert_failure(arena_take(&arena, 1, 65));
    expect_assert_failure(arena_take(&arena, UINT64_MAX, UINT64_MAX));
    arena_seal(&arena);
    expect_assert_failure(arena_take(&arena, 1, 1));
    expect_assert_failure(arena_seal(&arena));
}

static void test_map_gives_zeroed_aligned_memory(void **state)
{
    struct arena arena;
    assert_status(STATUS_OK, arena_map(&arena, 10000, true));
    const uint8_t *memory = arena_take(&arena, 1, 9000);
    assert_int_equal((uintptr_t)memory % ARENA_ALIGN_BYTES, 0);
    for (uint32_t i = 0; i < 9000; i++) {
        assert_int_equal(memory[i], 0);
    }
    assert_status(STATUS_CONFIG_MEMORY, arena_map(&arena, UINT64_C(1) << 62, false));
}

/* As a process that has only the descriptor. */
static void test_share_gives_the_same_memory_twice_and_no_other_size(void **state)
{
    struct arena one, other;
    int handle = arena_share("agentix-test", 10000);
    assert_true(handle >= 0);
    assert_status(STATUS_OK, arena_map_shared(&one, handle, 10000));
    assert_status(STATUS_OK, arena_map_shared(&other, handle, 10000));
    uint8_t *mine = arena_take(&one, 1, 9000), *theirs = arena_take(&other, 1, 9000);
    assert_ptr_not_equal(mine, theirs);
    assert_int_equal(theirs[8999], 0);
    mine[8999] = 7;
    assert_int_equal(theirs[8999], 7);
    assert_int_not_equal(ftruncate(handle, 4096), 0);
    assert_int_not_equal(ftruncate(handle, 20000), 0);
    close(handle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_take_planned_rows_uses_planned_bytes),
        cmocka_unit_test(test_rows_of_several_owners_are_what_each_takes),
        cmocka_unit_test(test_plan_of_huge_rows_overflows),
        cmocka_unit_test(test_take_beyond_the_end_or_the_seal_asserts),
        cmocka_unit_test(test_map_gives_zeroed_aligned_memory),
        cmocka_unit_test(test_share_gives_the_same_memory_twice_and_no_other_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
