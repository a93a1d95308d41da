/* SPDX-License-Identifier: MIT
 *
 * Goal: penalties and biases change exactly the logits that kernels/adjustment.h says, in its
 * order, and what is off changes no bit.
 * Method: small hand-made vocabularies with numbers that are exact in floats.
 */
#include "selftest/unit/test.h"

#include "kernels/adjustment.h"

#define VOCAB 6

static void adjust(float *logits, const struct call_sampling *sampling,
                   const struct kernels_given *given)
{
    uint32_t counts[VOCAB];
    memset(counts, 0xa5, sizeof counts);            /* what sampling left there */
    const struct kernels_logits all = {logits, VOCAB, counts};
    kernels_adjust(&all, sampling, given);
}

static const struct call_sampling off = {.repeat_penalty = 1};

static void test_adjust_counts_tokens_of_the_step_and_before(void **state)
{
    (void)state;
    const uint32_t generated[] = {1, 3, 1}, produced[] = {3, 1, 4};
    const struct kernels_given given = {.generated = generated, .generated_count = 3,
                                        .produced = produced, .produced_count = 3};
    struct call_sampling sampling = off;
    float logits[VOCAB] = {8, 8, 8, 8, -8, 8};
    sampling.presence_penalty = 0.5f;
    sampling.frequency_penalty = 0.25f;
    adjust(logits, &sampling, &given);
    const float wanted[VOCAB] = {8, 8 - 0.5f - 3 * 0.25f, 8, 8 - 0.5f - 2 * 0.25f,
                                 -8 - 0.5f - 0.25f, 8};
    assert_memory_equal(logits, wanted, sizeof wanted);
}

static void test_adjust_negative_penalties_raise(void **state)
{
    (void)state;
    const uint32_t produced[] = {2, 2};
    const struct kernels_given given = {.produced = produced, .produced_count = 2};
    struct call_sampling sampling = off;
    float logits[VOCAB] = {0};
    sampling.presence_penalty = -2;
    sampling.frequency_penalty = -1;
    adjust(logits, &sampling, &given);
    const float wanted[VOCAB] = {0, 0, 4, 0, 0, 0};
    assert_memory_equal(logits, wanted, sizeof wanted);
}

/* The history, which has the prompt in it, counts for repeat_penalty alone. */
static void test_adjust_history_is_not_counted(void **state)
{
    (void)state;
    const uint32_t history[] = {0, 1}, generated[] = {1};
    const struct kernels_given given = {.history = history, .history_count = 2,
                                        .generated = generated, .generated_count = 1};
    struct call_sampling sampling = off;
    float logits[VOCAB] = {4, 4, 4, 4, 4, 4};
    sampling.presence_penalty = 2;
    adjust(logits, &sampling, &given);
    const float wanted[VOCAB] = {4, 2, 4, 4, 4, 4};
    assert_memory_equal(logits, wanted, sizeof wanted);
}

static void test_adjust_order_is_counts_repeats_biases(void **state)
{
    (void)state;
    const uint32_t tokens[] = {1};
    const struct call_bias biases[] = {{1, 10}, {5, -100}};
    const struct kernels_given given = {.history = tokens, .history_count = 1,
                                        .generated = tokens, .generated_count = 1,
                                        .biases = biases};
    struct call_sampling sampling = {.repeat_penalty = 2, .presence_penalty = 1,
                                     .biases_count = 2};
    float logits[VOCAB] = {4, 4, 4, 4, 4, 4};
    adjust(logits, &sampling, &given);
    const float wanted[VOCAB] = {4, (4 - 1) / 2.0f + 10, 4, 4, 4, -96};
    assert_memory_equal(logits, wanted, sizeof wanted);
}

static void test_adjust_off_or_nothing_generated_changes_nothing(void **state)
{
    (void)state;
    const uint32_t tokens[] = {1, 2, 3};
    const struct kernels_given nothing = {0};
    const struct kernels_given some = {.history = tokens, .history_count = 3,
                                       .generated = tokens, .generated_count = 3,
                                       .produced = tokens, .produced_count = 3};
    struct call_sampling sampling = off;
    assert_false(kernels_adjusts(&sampling, &some));
    sampling.presence_penalty = sampling.frequency_penalty = 1;
    sampling.repeat_penalty = 2;
    assert_false(kernels_adjusts(&sampling, &nothing));
    assert_true(kernels_adjusts(&sampling, &some));
    sampling = off;
    sampling.biases_count = 1;
    assert_true(kernels_adjusts(&sampling, &nothing));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adjust_counts_tokens_of_the_step_and_before),
        cmocka_unit_test(test_adjust_negative_penalties_raise),
        cmocka_unit_test(test_adjust_history_is_not_counted),
        cmocka_unit_test(test_adjust_order_is_counts_repeats_biases),
        cmocka_unit_test(test_adjust_off_or_nothing_generated_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
