/* SPDX-License-Identifier: MIT
 *
 * Goal: each step of sampling does what kernels/sample.h says, in that order, and draws follow the
 * weights.
 * Method: small hand-made vocabularies; the set of tokens that come out over many positions; counts
 * of draws against the expected shares (seeds are fixed, so the result is always the same).
 */
#include "selftest/unit/test.h"

#include "kernels/exp.h"
#include "selftest/unit/kernels/tiny_model.h"

#define VOCAB 6
#define DRAWS 20000

static float weights_memory[64];
static uint32_t ranking_memory[64];
static struct kernels_sampler sampler = {&kernels_ops_plain, VOCAB, weights_memory,
                                         ranking_memory};
static const struct kernels_given nothing;

static struct call_sampling sampling_at(float temperature)
{
    return (struct call_sampling){
        .seed = 42, .temperature = temperature, .top_p = 1, .repeat_penalty = 1};
}

static void draw_counts(uint32_t *counts, const float *logits, const struct call_sampling *sampling)
{
    memset(counts, 0, VOCAB * sizeof *counts);
    for (uint32_t position = 0; position < DRAWS; position++) {
        counts[kernels_sample(&sampler, logits, sampling, &nothing, position)]++;
    }
}

/* Shares .4 .3 .15 .1 .05 .0 in scrambled order. */
static const double shares[VOCAB] = {0.1, 0.4, 0.05, 0.3, 1e-9, 0.15};

static void shares_to_logits(float *logits)
{
    for (uint32_t i = 0; i < VOCAB; i++) {
        logits[i] = (float)log(shares[i]) + 3;
    }
}

static void check_survivors(const struct call_sampling *sampling, uint32_t kept_mask)
{
    float logits[VOCAB];
    uint32_t counts[VOCAB];
    double total = 0;
    shares_to_logits(logits);
    draw_counts(counts, logits, sampling);
    for (uint32_t i = 0; i < VOCAB; i++) {
        total += kept_mask >> i & 1 ? shares[i] : 0;
    }
    for (uint32_t i = 0; i < VOCAB; i++) {
        double expected = kept_mask >> i & 1 ? shares[i] / total : 0;
        assert_true(fabs(counts[i] / (double)DRAWS - expected) < 0.015);
        assert_true(expected > 0 || counts[i] == 0);
    }
}

static void test_sample_greedy_first_largest(void **state)
{
    (void)state;
    const float logits[VOCAB] = {-1, 2, 5, 5, 4, 5};
    struct call_sampling greedy = sampling_at(0);
    assert_int_equal(kernels_sample(&sampler, logits, &greedy, &nothing, 0), 2);
}

static void test_sample_draws_follow_weights(void **state)
{
    (void)state;
    struct call_sampling sampling = sampling_at(1);
    check_survivors(&sampling, 0x3f);
}

static void test_sample_top_k_heaviest_stay(void **state)
{
    (void)state;
    struct call_sampling sampling = sampling_at(1);
    sampling.top_k = 3;
    check_survivors(&sampling, 1u << 1 | 1u << 3 | 1u << 5);
    sampling.top_k = 1;
    check_survivors(&sampling, 1u << 1);
    sampling.top_k = 1000;
    check_survivors(&sampling, 0x3f);
}

static void test_sample_top_p_reaches_the_sum(void **state)
{
    (void)state;
    struct call_sampling sampling = sampling_at(1);
    sampling.top_p = 0.69f;
    check_survivors(&sampling, 1u << 1 | 1u << 3);
    sampling.top_p = 0.71f;
    check_survivors(&sampling, 1u << 1 | 1u << 3 | 1u << 5);
    sampling.top_p = 1e-6f;
    check_survivors(&sampling, 1u << 1);
}

static void test_sample_top_p_counts_after_top_k(void **state)
{
    (void)state;
    struct call_sampling sampling = sampling_at(1);
    sampling.top_k = 2;
    sampling.top_p = 0.56f;             /* .4 of .7 is .571: enough alone */
    check_survivors(&sampling, 1u << 1);
}

static void test_sample_min_p_relative_to_heaviest(void **state)
{
    (void)state;
    struct call_sampling sampling = sampling_at(1);
    sampling.min_p = 0.3f;              /* .12 and more */
    check_survivors(&sampling, 1u << 1 | 1u << 3 | 1u << 5);
    sampling.top_p = 0.69f;
    check_survivors(&sampling, 1u << 1 | 1u << 3);
}

/* Exactly at the bound: a sum that reaches top_p is enough, a weight of min_p is kept. */
static void test_sample_bounds_are_inclusive(void **state)
{
    (void)state;
    uint32_t counts[VOCAB];
    const float equals[VOCAB] = {0, 0, -80, -80, -80, -80};
    struct call_sampling sampling = sampling_at(1);
    sampling.top_k = 2;
    sampling.top_p = 0.5f;
    draw_counts(counts, equals, &sampling);
    assert_int_equal(counts[0], DRAWS);
    const float steps[VOCAB] = {0, -1, -2, -3, -4, -5};
    sampling = sampling_at(1);
    sampling.min_p = kernels_exp(-1);
    draw_counts(counts, steps, &sampling);
    assert_true(counts[1] > 0);
    assert_int_equal(counts[0] + counts[1], DRAWS);
}

static void test_sample_top_k_equals_lower_id_stays(void **state)
{
    (void)state;
    const float logits[VOCAB] = {1, 2, 2, 2, 2, 1};
    uint32_t counts[VOCAB];
    struct call_sampling sampling = sampling_at(1);
    sampling.top_k = 2;
    draw_counts(counts, logits, &sampling);
    assert_int_equal(counts[1] + counts[2], DRAWS);
}

static void test_sample_temperature_sharpens(void **state)
{
    (void)state;
    float logits[VOCAB];
    uint32_t warm[VOCAB], cold[VOCAB];
    shares_to_logits(logits);
    struct call_sampling sampling = sampling_at(2);
    draw_counts(warm, logits, &sampling);
    sampling.temperature = 0.01f;
    draw_counts(cold, logits, &sampling);
    assert_true(warm[1] < DRAWS * 0.35);
    assert_int_equal(cold[1], DRAWS);
}

static void test_sample_penalty_each_token_once(void **state)
{
    (void)state;
    const float logits[VOCAB] = {4, 3, -1, -1.5f, -6, -6};
    const uint32_t history[] = {0, 0, 0, 2};
    struct kernels_given recent = {.history = history, .history_count = 4};
    struct call_sampling sampling = sampling_at(0);
    sampling.repeat_penalty = 1.3f;     /* 4 / 1.3 = 3.08 once, 2.37 if twice */
    assert_int_equal(kernels_sample(&sampler, logits, &sampling, &recent, 0), 0);
    sampling.repeat_penalty = 1.4f;
    assert_int_equal(kernels_sample(&sampler, logits, &sampling, &recent, 0), 1);
    const float low[VOCAB] = {-9, -9, -1, -1.5f, -6, -6};   /* negative: multiplied */
    sampling.repeat_penalty = 1.4f;
    assert_int_equal(kernels_sample(&sampler, low, &sampling, &recent, 0), 2);
    sampling.repeat_penalty = 1.6f;
    assert_int_equal(kernels_sample(&sampler, low, &sampling, &recent, 0), 3);
}

static void test_sample_penalty_window_slides(void **state)
{
    (void)state;
    const float logits[VOCAB] = {4, 3, 0, 0, 0, 0};
    uint32_t history[CALL_REPEAT_TOKENS], produced[CALL_REPEAT_TOKENS];
    for (uint32_t i = 0; i < CALL_REPEAT_TOKENS; i++) {
        history[i] = i == 0 ? 0 : 5;
        produced[i] = 5;
    }
    struct kernels_given recent = {
        .history = history, .history_count = CALL_REPEAT_TOKENS, .produced = produced};
    struct call_sampling sampling = sampling_at(0);
    sampling.repeat_penalty = 2;
    assert_int_equal(kernels_sample(&sampler, logits, &sampling, &recent, 0), 1);
    recent.produced_count = 1;          /* token 0 has left the window */
    assert_int_equal(kernels_sample(&sampler, logits, &sampling, &recent, 0), 0);
}

static void test_sample_seed_and_position_decide(void **state)
{
    (void)state;
    float logits[VOCAB] = {0};
    struct call_sampling a = sampling_at(1), b = sampling_at(1);
    b.seed = 43;
    uint32_t differ = 0;
    for (uint32_t position = 0; position < 100; position++) {
        uint32_t first = kernels_sample(&sampler, logits, &a, &nothing, position);
        assert_int_equal(first, kernels_sample(&sampler, logits, &a, &nothing, position));
        differ += first != kernels_sample(&sampler, logits, &b, &nothing, position);
    }
    assert_true(differ > 50);
}

static void test_sample_extreme_logits_stay_in_vocabulary(void **state)
{
    (void)state;
    const float logits[VOCAB] = {3e38f, -3e38f, 3e38f, 0, 1, -1};
    const uint32_t history[] = {0, 1, 2};
    struct kernels_given recent = {.history = history, .history_count = 3};
    struct call_sampling sampling = sampling_at(0.01f);
    sampling.repeat_penalty = 0.1f;     /* overflows */
    for (uint32_t top_k = 0; top_k < 4; top_k++) {
        sampling.top_k = top_k;
        sampling.top_p = top_k % 2 ? 0.5f : 1.0f;
        assert_true(kernels_sample(&sampler, logits, &sampling, &recent, 9) < VOCAB);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sample_greedy_first_largest),
        cmocka_unit_test(test_sample_draws_follow_weights),
        cmocka_unit_test(test_sample_top_k_heaviest_stay),
        cmocka_unit_test(test_sample_top_p_reaches_the_sum),
        cmocka_unit_test(test_sample_top_p_counts_after_top_k),
        cmocka_unit_test(test_sample_min_p_relative_to_heaviest),
        cmocka_unit_test(test_sample_bounds_are_inclusive),
        cmocka_unit_test(test_sample_top_k_equals_lower_id_stays),
        cmocka_unit_test(test_sample_temperature_sharpens),
        cmocka_unit_test(test_sample_penalty_each_token_once),
        cmocka_unit_test(test_sample_penalty_window_slides),
        cmocka_unit_test(test_sample_seed_and_position_decide),
        cmocka_unit_test(test_sample_extreme_logits_stay_in_vocabulary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
