/* SPDX-License-Identifier: MIT
 *
 * Goal: log probabilities are those of a softmax in doubles, in the order of the ranking, and the
 * same bits with every set of kernels.
 * Method: random logits, flat and steep, against libm; hand-made ones for equal and extreme logits.
 */
#include "selftest/unit/test.h"

#include <float.h>
#include <math.h>

#include "kernels/logprob.h"
#include "selftest/unit/kernels/sets.h"

#define VOCAB 1003
#define TOP   20

static float logits[VOCAB + 8];
static _Alignas(64) float weights[VOCAB + 64];
static uint32_t ranking[VOCAB];

static void tell(const struct kernels_ops *ops, uint32_t vocab, uint32_t token,
                 struct call_logprob *entries, uint32_t count)
{
    struct kernels_sampler sampler = {ops, vocab, weights, ranking};
    memset(entries, 0xa5, count * sizeof *entries);
    kernels_logprobs(&sampler, logits, token, entries, count);
}

/* Flat, steep, or of few values. */
static void draw_logits(uint32_t seed)
{
    uint64_t state = seed + 1;
    for (uint32_t i = 0; i < VOCAB; i++) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
        float x = (float)(int32_t)(state >> 32) * 0x1p-31f;
        logits[i] = seed % 3 == 0 ? x : seed % 3 == 1 ? 40 * x : floorf(3 * x);
    }
}

static double softmax_log(uint32_t token)
{
    double largest = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < VOCAB; i++) {
        largest = fmax(largest, (double)logits[i]);
    }
    for (uint32_t i = 0; i < VOCAB; i++) {
        sum += exp((double)logits[i] - largest);
    }
    return (double)logits[token] - largest - log(sum);
}

static void test_logprobs_are_those_of_a_softmax_in_doubles(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < 30; seed++) {
        struct call_logprob entries[1 + TOP];
        draw_logits(seed);
        tell(&kernels_ops_plain, VOCAB, seed, entries, 1 + TOP);
        assert_int_equal(entries[0].token, seed);
        for (uint32_t i = 0; i <= TOP; i++) {
            double wanted = softmax_log(entries[i].token);
            assert_true(fabs((double)entries[i].logprob - wanted) < 2e-6 * fmax(1, -wanted));
        }
    }
}

static bool ranks_before(uint32_t a, uint32_t b)
{
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
}

/* Each alternative comes before all tokens that are not yet named. */
static void test_alternatives_are_the_first_of_the_ranking(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < 30; seed++) {
        struct call_logprob entries[1 + TOP];
        draw_logits(seed);
        tell(&kernels_ops_plain, VOCAB, 5, entries, 1 + TOP);
        for (uint32_t i = 1; i <= TOP; i++) {
            uint32_t before = 0;
            for (uint32_t id = 0; id < VOCAB; id++) {
                before += ranks_before(id, entries[i].token);
            }
            assert_int_equal(before, i - 1);
        }
    }
}

static void test_every_set_of_kernels_gives_the_same_bits(void **state)
{
    (void)state;
    struct sets sets = sets_find();
    sets_say();
    for (uint32_t seed = 0; seed < 30; seed++) {
        struct call_logprob plain[1 + TOP], other[1 + TOP];
        draw_logits(seed);
        tell(&kernels_ops_plain, VOCAB - seed, seed, plain, 1 + TOP);
        for (uint32_t i = 0; i < sets.count; i++) {
            tell(sets.ops[i], VOCAB - seed, seed, other, 1 + TOP);
            assert_memory_equal(plain, other, sizeof plain);
        }
    }
}

static void test_extreme_logits_stay_finite_and_a_sure_token_is_sure(void **state)
{
    (void)state;
    struct call_logprob entries[4];
    logits[0] = -FLT_MAX;
    logits[1] = FLT_MAX;
    logits[2] = 0;
    tell(&kernels_ops_plain, 3, 0, entries, 4);
    assert_true(entries[0].logprob == -CALL_LOGPROB_MAX);
    assert_int_equal(entries[1].token, 1);
    assert_true(entries[1].logprob == 0.0f);
    logits[0] = 7;
    tell(&kernels_ops_plain, 1, 0, entries, 2);
    assert_true(entries[0].logprob == 0.0f && entries[1].logprob == 0.0f);
}

/* The alternatives may be none. */
static void test_own_entry_alone(void **state)
{
    (void)state;
    struct call_logprob entries[2];
    draw_logits(3);
    tell(&kernels_ops_plain, VOCAB, 9, entries, 1);
    assert_int_equal(entries[0].token, 9);
    assert_true(fabs((double)entries[0].logprob - softmax_log(9)) < 1e-5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logprobs_are_those_of_a_softmax_in_doubles),
        cmocka_unit_test(test_alternatives_are_the_first_of_the_ranking),
        cmocka_unit_test(test_every_set_of_kernels_gives_the_same_bits),
        cmocka_unit_test(test_extreme_logits_stay_finite_and_a_sure_token_is_sure),
        cmocka_unit_test(test_own_entry_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
