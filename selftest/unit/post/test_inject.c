/* SPDX-License-Identifier: MIT */
/*
 * Goal: every planted flip is found, in every place and for every type of weights; a flip that the
 * checks miss is counted as missed.
 * Method: the tiny models; an engine with wrong products.
 */
#define TEST_ARENA_BYTES (32u << 20)
#include "selftest/unit/test.h"

#include "selftest/post/check.h"
#include "selftest/unit/kernels/tiny_model.h"

#define FLIPS 500

static struct tiny tiny;
static struct boot boot;
static struct post post;

static void start(enum gguf_type type)
{
    tiny_make(&tiny, type, false, 9);
    boot = (struct boot){.gguf = &tiny.gguf, .engine = rig_settings(kernels_simd_best(), 2)};
    struct memory_plan plan = {.rows_count = 0};
    kernels_weights_plan_memory(&plan, &tiny.gguf, false);
    assert_status(STATUS_OK, arena_map(&boot.weights_arena,
                                       memory_plan_bytes(&plan, MEMORY_WEIGHTS), false));
    boot.weights = tiny_weights(&tiny, &boot.weights_arena);
    post = (struct post){.boot = &boot, .source = tiny.source,
                         .settings = {.level = POST_INJECT, .flips = FLIPS, .seed = 21}};
}

static void run_place(enum post_place place, struct post_outcome *outcome)
{
    struct arena *arena = test_arena();
    struct memory_plan plan = {.rows_count = 0};
    post_inject.plan(&post, &plan);
    void *inject = post_inject.init(&post, arena);
    assert_non_null(inject);
    assert_int_equal(arena->used_bytes, memory_plan_bytes(&plan, MEMORY_SELFTEST) +
                                            memory_plan_bytes(&plan, MEMORY_ENGINE));
    memset(outcome, 0, sizeof *outcome);
    post_inject.run(inject, &post, place, outcome);
}

static void test_every_flip_is_found(void **state)
{
    (void)state;
    static const enum gguf_type types[] = {GGUF_F32, GGUF_F16, GGUF_Q8_0};
    for (uint32_t t = 0; t < 3; t++) {
        uint64_t planted = 0;
        start(types[t]);
        for (uint32_t place = 0; place < POST_PLACES; place++) {
            struct post_outcome outcome;
            run_place((enum post_place)place, &outcome);
            assert_int_equal(outcome.found, outcome.planted);
            assert_int_equal(outcome.faults.count, 0);
            planted += outcome.planted;
        }
        assert_int_equal(planted, FLIPS);
    }
}

/* An earlier fault hides the flip: it does not count as found. */
static void test_flips_in_wrong_weights_do_not_count_as_found(void **state)
{
    (void)state;
    struct post_outcome outcome;
    start(GGUF_F32);
    memset(tiny.bytes, 0, sizeof tiny.bytes);
    run_place(POST_PLACE_WEIGHTS, &outcome);
    assert_int_equal(outcome.planted, FLIPS / POST_PLACES);
    assert_int_equal(outcome.found, 0);
    assert_int_equal(outcome.faults.count, outcome.planted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_flip_is_found),
        cmocka_unit_test(test_flips_in_wrong_weights_do_not_count_as_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
