/* SPDX-License-Identifier: MIT */
/*
 * Goal: blocks that went to the host and back are unchanged, for every count and order. A bit that
 * flips on the way, a missing copy and a copy to another block are found.
 * Method: the tiny model's engine; its memory changed between moves.
 */
#define TEST_ARENA_BYTES (32u << 20)
#include "selftest/unit/test.h"

#include "selftest/post/swap.h"
#include "selftest/unit/kernels/tiny_model.h"

static struct tiny tiny;

static struct post_swap *make_swap(void)
{
    struct arena *arena = test_arena();
    struct memory_plan plan = {.rows_count = 0};
    tiny_make(&tiny, GGUF_F32, false, 7);
    struct kernels_weights *weights = tiny_weights(&tiny, arena);
    struct kernels_settings settings = rig_settings(kernels_simd_best(), 2);
    uint64_t before = arena->used_bytes;
    post_swap_plan_memory(&plan, &settings, &weights->shape);
    struct post_swap *swap = post_swap_init(arena, &settings, weights, 13);
    assert_non_null(swap);
    assert_int_equal(arena->used_bytes - before, memory_plan_bytes(&plan, MEMORY_SELFTEST) +
                                                     memory_plan_bytes(&plan, MEMORY_ENGINE));
    post_swap_fill(swap);
    return swap;
}

static void test_every_count_and_order_comes_back(void **state)
{
    (void)state;
    struct post_swap *swap = make_swap();
    struct post_faults faults = {.count = 0};
    assert_int_equal(swap->lists_max, 40);
    for (uint32_t i = 0; i < 40 * POST_ORDERS * POST_ORDERS; i++) {
        uint32_t count = 1 + i % 40;
        uint64_t content = 0;
        post_swap_list(swap, count, (enum post_order)(i / 40 % POST_ORDERS),
                       (enum post_order)(i / 40 / POST_ORDERS));
        content = swap->contents[swap->device_list[0]];
        post_swap_out(swap, count);
        assert_int_equal(swap->contents[swap->host_list[0]], content);
        post_swap_compare(swap, swap->host_list, count, &faults);
        post_swap_scrub(swap, count);
        assert_true(swap->contents[swap->device_list[0]] != content);
        post_swap_in(swap, count);
        assert_int_equal(swap->contents[swap->device_list[0]], content);
        post_swap_compare(swap, swap->device_list, count, &faults);
        assert_int_equal(faults.count, 0);
    }
    kernels_stop(swap->kernels);
}

static void test_lists_name_each_block_once(void **state)
{
    (void)state;
    struct post_swap *swap = make_swap();
    for (uint32_t order = 0; order < POST_ORDERS; order++) {
        for (uint32_t count = 1; count <= 40; count++) {
            uint64_t device = 0, host = 0;
            post_swap_list(swap, count, (enum post_order)order, (enum post_order)order);
            for (uint32_t i = 0; i < count; i++) {
                device |= UINT64_C(1) << swap->device_list[i];
                host |= UINT64_C(1) << (swap->host_list[i] - swap->device_blocks);
            }
            assert_true(device == (UINT64_C(1) << count) - 1 && host == device);
        }
    }
    kernels_stop(swap->kernels);
}

static void test_flip_in_a_block_is_found(void **state)
{
    (void)state;
    struct post_swap *swap = make_swap();
    post_swap_list(swap, 5, POST_SHUFFLED, POST_DESCENDING);
    post_swap_out(swap, 5);
    for (uint32_t i = 0; i < 2; i++) {
        struct post_faults faults = {.count = 0};
        const uint32_t *list = i == 0 ? swap->host_list : swap->device_list;
        uint64_t *word = post_swap_piece(swap, list[3], 1).at + 20;
        *word ^= UINT64_C(1) << 50;
        post_swap_compare(swap, list, 5, &faults);
        assert_int_equal(faults.count, 1);
        assert_ptr_equal(faults.kept[0].word, word);
        assert_int_equal(post_fault_bit(&faults.kept[0]), 50);
        assert_non_null(strstr(faults.kept[0].where, i == 0 ? "host block 1" : "device block"));
    }
    kernels_stop(swap->kernels);
}

/* A flip on the host returns with the block. */
static void test_flip_on_the_host_comes_back(void **state)
{
    (void)state;
    struct post_swap *swap = make_swap();
    struct post_faults faults = {.count = 0};
    post_swap_list(swap, 4, POST_ASCENDING, POST_ASCENDING);
    post_swap_out(swap, 4);
    *post_swap_piece(swap, swap->host_list[2], 3).at ^= 4;
    post_swap_in(swap, 4);
    post_swap_compare(swap, swap->device_list, 4, &faults);
    assert_int_equal(faults.count, 1);
    assert_ptr_equal(faults.kept[0].word, post_swap_piece(swap, swap->device_list[2], 3).at);
    kernels_stop(swap->kernels);
}

static void test_copy_that_is_not_made_is_found(void **state)
{
    (void)state;
    struct post_swap *swap = make_swap();
    struct post_faults faults = {.count = 0};
    uint64_t words = 0;
    post_swap_list(swap, 4, POST_ASCENDING, POST_ASCENDING);
    post_swap_out(swap, 4);
    post_swap_scrub(swap, 4);
    for (uint32_t i = 0; i < 4; i++) {      /* what the moves should have done */
        swap->contents[swap->device_list[i]] = swap->contents[swap->host_list[i]];
    }
    post_swap_compare(swap, swap->device_list, 4, &faults);
    for (uint32_t i = 0; i < kernels_pieces(swap->kernels); i++) {
        words += post_swap_piece(swap, 0, i).count;
    }
    assert_int_equal(faults.count, 4 * words);
    kernels_stop(swap->kernels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_count_and_order_comes_back),
        cmocka_unit_test(test_lists_name_each_block_once),
        cmocka_unit_test(test_flip_in_a_block_is_found),
        cmocka_unit_test(test_flip_on_the_host_comes_back),
        cmocka_unit_test(test_copy_that_is_not_made_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
