/* SPDX-License-Identifier: MIT */
/*
 * Goal: patterns find nothing in memory that keeps its bits. A bit that flips or sticks is found
 * with its address. Each word is read as the pattern and as its inverse.
 * Method: an area that ends within a page, all patterns; bits changed between steps.
 */
#include "kernels/threads.h"

/* One stack for each CPU of this machine. */
#define TEST_ARENA_BYTES ((16u << 20) + KERNELS_THREADS_MAX * KERNELS_STACK_BYTES)
#include "selftest/unit/test.h"

#include "selftest/post/memory.h"

#define AREA_BYTES (3 * 4096 + 8)

static struct post_area *make_area(bool alone)
{
    struct arena *arena = test_arena();
    struct memory_plan plan = {.rows_count = 0};
    post_area_plan_memory(&plan, AREA_BYTES, alone);
    struct post_area *area = post_area_init(arena, AREA_BYTES, alone, 11);
    assert_non_null(area);
    assert_int_equal(arena->used_bytes, memory_plan_bytes(&plan, MEMORY_SELFTEST) +
                                            memory_plan_bytes(&plan, MEMORY_ENGINE));
    return area;
}

static void run_until(struct post_area *area, struct post_pass *pass, enum post_step end,
                      struct post_faults *faults)
{
    for (pass->step = POST_STEP_WRITE; pass->step < end; pass->step++) {
        post_area_pass(area, pass, faults);
    }
}

static void test_good_memory_has_no_faults(void **state)
{
    (void)state;
    for (uint32_t alone = 0; alone < 2; alone++) {
        struct post_area *area = make_area(alone);
        struct post_faults faults = {.count = 0};
        for (uint32_t i = 0; i < POST_PATTERNS * 64; i++) {
            struct post_pass pass = {
                .pattern = (enum post_pattern)(i % POST_PATTERNS), .round = i / POST_PATTERNS};
            run_until(area, &pass, POST_STEPS, &faults);
        }
        assert_int_equal(faults.count, 0);
        kernels_threads_stop(&area->threads);
    }
}

/* Memory after the steps holds the pattern, and two words are equal only where they may be. */
static void test_steps_leave_pattern_inverse_pattern(void **state)
{
    (void)state;
    struct post_area *area = make_area(true);
    struct post_faults faults = {.count = 0};
    uint64_t first[AREA_BYTES / 8];
    for (uint32_t i = 0; i < POST_PATTERNS; i++) {
        struct post_pass pass = {.pattern = (enum post_pattern)i};
        run_until(area, &pass, POST_STEP_UP, &faults);
        memcpy(first, area->words, sizeof first);
        assert_true(i == POST_SOLID || first[0] != first[1]);
        post_area_pass(area, &pass, &faults);
        for (uint64_t word = 0; word < area->count; word++) {
            assert_true(area->words[word] == ~first[word]);
        }
        pass.step = POST_STEP_DOWN;
        post_area_pass(area, &pass, &faults);
        assert_memory_equal(area->words, first, sizeof first);
    }
    kernels_threads_stop(&area->threads);
}

/* In 64 rounds the walking bit takes 64 places in each word. */
static void test_walking_bit_reaches_every_bit(void **state)
{
    (void)state;
    struct post_area *area = make_area(true);
    struct post_faults faults = {.count = 0};
    uint64_t first = 0, last = 0;
    for (uint64_t round = 0; round < 64; round++) {
        struct post_pass pass = {.pattern = POST_WALKING_BIT, .round = round};
        post_area_pass(area, &pass, &faults);
        first |= area->words[0];
        last |= area->words[area->count - 1];
    }
    assert_true(first == UINT64_MAX && last == UINT64_MAX);
    kernels_threads_stop(&area->threads);
}

static void test_flip_between_steps_is_found(void **state)
{
    (void)state;
    struct post_area *area = make_area(false);
    for (uint32_t i = 0; i < 2000; i++) {
        struct post_faults faults = {.count = 0};
        struct post_pass pass = {.pattern = (enum post_pattern)(i % POST_PATTERNS), .round = i};
        run_until(area, &pass, (enum post_step)(1 + i % 3), &faults);
        uint64_t *word = &area->words[i == 0 ? area->count - 1 : splitmix_at(5, i) % area->count];
        *word ^= UINT64_C(1) << i % 64;
        post_area_pass(area, &pass, &faults);
        assert_int_equal(faults.count, 1);
        assert_ptr_equal(faults.kept[0].word, word);
        assert_int_equal(post_fault_bit(&faults.kept[0]), i % 64);
    }
    kernels_threads_stop(&area->threads);
}

/* Whichever value a bit sticks at, one of the inversions needs the other. */
static void test_bit_that_sticks_is_found_by_every_pattern(void **state)
{
    (void)state;
    struct post_area *area = make_area(true);
    const uint64_t bit = UINT64_C(1) << 33;
    for (uint32_t i = 0; i < 2 * POST_PATTERNS; i++) {
        struct post_faults faults = {.count = 0};
        struct post_pass pass = {.pattern = (enum post_pattern)(i % POST_PATTERNS)};
        for (pass.step = POST_STEP_WRITE; pass.step < POST_STEPS; pass.step++) {
            post_area_pass(area, &pass, &faults);
            uint64_t *word = &area->words[777];
            *word = i < POST_PATTERNS ? *word | bit : *word & ~bit;
        }
        assert_true(faults.count > 0);
        assert_ptr_equal(faults.kept[0].word, &area->words[777]);
    }
    kernels_threads_stop(&area->threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_memory_has_no_faults),
        cmocka_unit_test(test_steps_leave_pattern_inverse_pattern),
        cmocka_unit_test(test_walking_bit_reaches_every_bit),
        cmocka_unit_test(test_flip_between_steps_is_found),
        cmocka_unit_test(test_bit_that_sticks_is_found_by_every_pattern),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
