/* SPDX-License-Identifier: MIT */
/*
 * Goal: a prediction is the function of the prompt that its header describes, within the class's
 * range, and the same bits on every machine.
 * Method: weights that let one feature through at a time, compared with libm; a plain twin that
 * adds up grams one by one; a digest of many predictions, which no build may change.
 */
#include "selftest/unit/test.h"

#include <math.h>

#include "config/base/fnv.h"
#include "sched/class/predictor.h"

enum { LENGTH = PREDICTOR_BUCKETS, ONE = PREDICTOR_BUCKETS + 1, PROMPT_MAX = 3000 };

static struct predictor_class class;
static uint32_t prompt[PROMPT_MAX];
static uint64_t seed;

static uint32_t draw(uint32_t below)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((seed >> 32) * below >> 32);
}

static int set_up(void **state)
{
    (void)state;
    class = (struct predictor_class){.high = PREDICTOR_LOG_MAX};
    seed = 1;
    return 0;
}

static void draw_prompt(uint32_t count, uint32_t words)
{
    for (uint32_t i = 0; i < count; i++) {
        prompt[i] = draw(words);
    }
}

static void draw_weights(void)
{
    for (uint32_t i = 0; i < PREDICTOR_WEIGHTS; i++) {
        class.weights[i] = (float)draw(2001) / 500 - 2;
    }
    class.weights[LENGTH] = 1;
    class.weights[ONE] = 15;
}

/* ---- one feature at a time ------------------------------------------------------------------- */

static void test_cost_of_the_last_weight_is_its_exponential(void **state)
{
    (void)state;
    for (float weight = 0; weight <= PREDICTOR_LOG_MAX; weight += 0.01f) {
        class.weights[ONE] = weight;
        double expected = exp((double)weight);
        double cost = (double)sched_predictor_cost(&class, prompt, 1);
        assert_true(fabs(cost - expected) <= 0.5 + 1e-13 * expected);
    }
}

static void test_cost_of_length_is_the_length(void **state)
{
    (void)state;
    class.weights[LENGTH] = 1;
    /* Tokens beyond the first are not looked at, so the prompt need not be there. */
    for (uint32_t count = 1; count < 1u << 20; count += count < 5000 ? 1 : 997) {
        assert_int_equal(sched_predictor_cost(&class, prompt, count), count);
    }
}

static void test_cost_of_no_tokens_is_that_of_one(void **state)
{
    (void)state;
    class.weights[LENGTH] = 1;
    class.weights[ONE] = 5;
    assert_int_equal(sched_predictor_cost(&class, NULL, 0), 148);
}

/* ---- all together ---------------------------------------------------------------------------- */

/* As a reader of the header would write it. */
static double twin_cost(const uint32_t *tokens, uint32_t count)
{
    double counts[PREDICTOR_BUCKETS] = {0}, sum = 0, square = 0;
    for (uint32_t i = 0; i < count && i < PREDICTOR_TOKENS; i++) {
        uint64_t one = UINT64_C(0xffffffff) << 32 | tokens[i];
        counts[one * UINT64_C(0x9e3779b97f4a7c15) >> 54]++;
        if (i > 0) {
            uint64_t two = (uint64_t)tokens[i - 1] << 32 | tokens[i];
            counts[two * UINT64_C(0x9e3779b97f4a7c15) >> 54]++;
        }
    }
    for (uint32_t i = 0; i < PREDICTOR_BUCKETS; i++) {
        sum += (double)class.weights[i] * log1p(counts[i]);
        square += log1p(counts[i]) * log1p(counts[i]);
    }
    double whole = sum / sqrt(square) + (double)class.weights[LENGTH] * log((double)count) +
                   (double)class.weights[ONE];
    return exp(fmin(fmax(whole, (double)class.low), (double)class.high));
}

static void assert_like_twin(uint32_t count)
{
    double expected = twin_cost(prompt, count);
    double cost = (double)sched_predictor_cost(&class, prompt, count);
    if (fabs(cost - expected) > 0.5 + 1e-10 * expected) {
        print_error("%u tokens: %.17g, expected %.17g\n", count, cost, expected);
        fail();
    }
}

static void test_cost_is_that_of_a_plain_twin(void **state)
{
    (void)state;
    draw_weights();
    for (uint32_t i = 0; i < 500; i++) {
        uint32_t count = 1 + draw(PROMPT_MAX);
        draw_prompt(count, 1 + draw(32000));
        assert_like_twin(count);
    }
}

/* Counts far above those that are listed. */
static void test_cost_of_one_word_many_times_is_that_of_a_plain_twin(void **state)
{
    (void)state;
    draw_weights();
    for (uint32_t count = 1; count <= PREDICTOR_TOKENS; count++) {
        draw_prompt(count, 1);
        assert_like_twin(count);
    }
}

static void test_cost_reads_the_first_tokens_only(void **state)
{
    (void)state;
    draw_weights();
    draw_prompt(PROMPT_MAX, 32000);
    uint64_t cost = sched_predictor_cost(&class, prompt, PROMPT_MAX);
    draw_prompt(1, 1);
    assert_int_not_equal(sched_predictor_cost(&class, prompt, PROMPT_MAX), cost);
    cost = sched_predictor_cost(&class, prompt, PROMPT_MAX);
    prompt[PREDICTOR_TOKENS] = 77;
    assert_int_equal(sched_predictor_cost(&class, prompt, PROMPT_MAX), cost);
    /* The length counts as a whole, and tokens beyond the first are not looked at: this prompt ends
     * where the array ends. */
    assert_true(sched_predictor_cost(&class, prompt + PROMPT_MAX - PREDICTOR_TOKENS, 100000) > 0);
}

static void test_cost_is_within_the_range_of_the_class(void **state)
{
    (void)state;
    class.low = 2;
    class.high = 3;
    class.weights[ONE] = -1e30f;
    assert_int_equal(sched_predictor_cost(&class, prompt, 9), 7);
    class.weights[ONE] = 1e30f;
    assert_int_equal(sched_predictor_cost(&class, prompt, 9), 20);
    class.low = class.high = PREDICTOR_LOG_MAX;
    assert_true(sched_predictor_cost(&class, prompt, 9) < UINT64_C(1) << 63);
    for (uint32_t i = 0; i < PREDICTOR_WEIGHTS; i++) {
        class.weights[i] = 3.4e38f;
    }
    draw_prompt(PROMPT_MAX, 32000);
    assert_true(sched_predictor_cost(&class, prompt, UINT32_MAX) > UINT64_C(1) << 61);
    class.low = class.high = 0;
    assert_int_equal(sched_predictor_cost(&class, prompt, UINT32_MAX), 1);
}

/* If this changes, PREDICTOR_VERSION does, and features.py. */
static void test_costs_are_the_same_bits_everywhere(void **state)
{
    (void)state;
    uint64_t digest = FNV_START;
    draw_weights();
    class.weights[ONE] = 34;        /* some 10^18: nearly all bits of a double are seen */
    for (uint32_t i = 0; i < 2000; i++) {
        uint32_t count = 1 + draw(PROMPT_MAX);
        draw_prompt(count, 1 + draw(32000));
        uint64_t cost = sched_predictor_cost(&class, prompt, count);
        digest = fnv_add(digest, &cost, sizeof cost);
    }
    assert_int_equal(digest, UINT64_C(0x4b1b4674c146028d));
}

/* ---- classes by name ------------------------------------------------------------------------- */

static void test_find_gives_the_class_of_exactly_this_name(void **state)
{
    (void)state;
    static struct predictor_class classes[] = {
        {.name = "a", .name_bytes = 1}, {.name = "ab", .name_bytes = 2},
        {.name = "b", .name_bytes = 1}, {.name = "ba", .name_bytes = 2},
    };
    const struct predictor predictor = {.count = 4, .classes = classes}, none = {.count = 0};
    for (uint32_t i = 0; i < 4; i++) {
        assert_ptr_equal(sched_predictor_find(&predictor, classes[i].name, classes[i].name_bytes),
                         &classes[i]);
    }
    static const char *const others[] = {"", "A", "aa", "abc", "az", "bb", "c"};
    for (uint32_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_null(sched_predictor_find(&predictor, others[i], (uint32_t)strlen(others[i])));
    }
    assert_null(sched_predictor_find(&none, "a", 1));
    assert_null(sched_predictor_find(NULL, "a", 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_cost_of_the_last_weight_is_its_exponential, set_up),
        cmocka_unit_test_setup(test_cost_of_length_is_the_length, set_up),
        cmocka_unit_test_setup(test_cost_of_no_tokens_is_that_of_one, set_up),
        cmocka_unit_test_setup(test_cost_is_that_of_a_plain_twin, set_up),
        cmocka_unit_test_setup(test_cost_of_one_word_many_times_is_that_of_a_plain_twin, set_up),
        cmocka_unit_test_setup(test_cost_reads_the_first_tokens_only, set_up),
        cmocka_unit_test_setup(test_cost_is_within_the_range_of_the_class, set_up),
        cmocka_unit_test_setup(test_costs_are_the_same_bits_everywhere, set_up),
        cmocka_unit_test_setup(test_find_gives_the_class_of_exactly_this_name, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
