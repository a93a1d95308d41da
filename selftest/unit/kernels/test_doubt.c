/* SPDX-License-Identifier: MIT */
/*
 * Goal: a step that is doubted gives the same bits as another, and what one thread computes wrongly
 * is seen, where the same thread would compute the same again too; with one thread, what is wrong
 * once. A step that does not hold ends with that round.
 * Method: the tiny model, doubted and not, with every set of kernels and drafts; and kernels that
 * compute wrongly: on one of the threads always, or in one call of many. Every kernel that has a
 * part in a forward pass is bent, and the sampler's.
 */
#include "selftest/unit/kernels/engine_rig.h"

#include <pthread.h>

static const struct kernels_ops *right;
static struct kernels_ops bent;
static pthread_t main_thread;
static bool is_of_other;            /* the other thread is wrong, not the main one */
static bool is_once;                /* only in the call at which `left` comes to 0 */
static _Atomic uint32_t left;       /* calls of the bent kernel until then */
static _Atomic uint32_t bends;

/* True when this call of a bent kernel is to be wrong. */
static bool is_bent(void)
{
    bool is_here = is_once ? atomic_fetch_sub(&left, 1) == 1
                           : (pthread_equal(pthread_self(), main_thread) != 0) != is_of_other;
    bends += is_here;
    return is_here;
}

/* Added to what is right: not so little that rounding takes it away again. */
#define OFF 0.5f

static void bent_product(const struct kernels_product *product)
{
    right->product(product);
    if (is_bent()) {
        for (uint32_t r = 0; r < product->rows; r++) {
            product->y[r * product->y_stride + product->panel_first * KERNELS_PANEL_LANES] += OFF;
        }
    }
}

static void bent_scores(const struct kernels_attention *attention)
{
    right->scores(attention);
    if (is_bent()) {
        attention->rows[0].scores[0] += OFF;
    }
}

static void bent_weigh(const struct kernels_attention *attention)
{
    right->weigh(attention);
    if (is_bent()) {
        attention->rows[0].out[0] += OFF;
    }
}

static void bent_norm(float *y, const float *x, const float *weight, uint32_t dim, float epsilon)
{
    right->norm(y, x, weight, dim, epsilon);
    if (is_bent()) {
        y[dim - 1] += OFF;
    }
}

static void bent_swiglu(float *gate, const float *up, uint32_t count)
{
    right->swiglu(gate, up, count);
    if (count > 0 && is_bent()) {
        gate[0] += OFF;
    }
}

static void bent_halve(uint16_t *to, const float *from, uint32_t count)
{
    right->halve(to, from, count);
    if (is_bent()) {
        to[0] ^= 1;
    }
}

/* Greedy rows sample by this alone. */
static uint32_t bent_largest(const float *values, uint32_t count)
{
    uint32_t index = right->largest(values, count);
    return is_bent() ? (index + 1) % count : index;
}

enum bend { PRODUCT, SCORES, WEIGH, NORM, SWIGLU, HALVE, LARGEST, BENDS };

static void bend_ops(struct rig *rig, enum bend bend)
{
    right = rig->kernels->ops;
    bent = *right;
    switch (bend) {
    case PRODUCT: bent.product = bent_product; break;
    case SCORES: bent.scores = bent_scores; break;
    case WEIGH: bent.weigh = bent_weigh; break;
    case NORM: bent.norm = bent_norm; break;
    case SWIGLU: bent.swiglu = bent_swiglu; break;
    case HALVE: bent.halve = bent_halve; break;
    default: bent.largest = bent_largest; break;
    }
    rig->kernels->ops = &bent;
    for (uint32_t i = 0; i < rig->settings.threads; i++) {
        rig->kernels->scratch[i].sampler.ops = &bent;
    }
}

static void start(struct rig *rig, uint32_t threads)
{
    struct arena *arena = test_arena();
    struct kernels_settings settings = rig_settings(kernels_simd_best(), threads);
    tiny_make(&tiny, GGUF_Q8_0, false, 7);
    settings.kv_type = KERNELS_KV_F16;
    rig_start(rig, &settings, tiny_weights(&tiny, arena), arena);
    main_thread = pthread_self();
}

/* Rows of one prompt, of other lengths. */
static enum step_doubt run_doubted(struct rig *rig, uint32_t rows)
{
    rig_clear(rig);
    for (uint32_t i = 0; i < rows; i++) {
        rig_row(rig, prompt + i, PROMPT_TOKENS - i, 0, DECODED);
        rig_blocks(rig, i, 16 * i, 1);
    }
    step_header(&rig->step)->is_doubted = true;
    bends = 0;
    kernels_run(rig->kernels, &rig->step);
    return (enum step_doubt)step_progress(&rig->step)->doubt;
}

static void check_same_bits(uint32_t threads, uint32_t drafts)
{
    struct rig rig;
    struct answer expected, got;
    start(&rig, threads);
    run_alone(&expected, &rig, 0, 1);
    assert_int_equal(step_progress(&rig.step)->doubt, STEP_DOUBT_NONE);
    poison(&rig);
    rig_clear(&rig);
    struct step_row *row = rig_row(&rig, prompt, PROMPT_TOKENS, 0, DECODED);
    row->drafts = drafts;
    row->past_count = PROMPT_TOKENS;
    memcpy(step_past(&rig.step, 0), prompt, sizeof prompt);
    rig_blocks(&rig, 0, 5, 3);
    step_header(&rig.step)->is_doubted = true;
    kernels_run(rig.kernels, &rig.step);
    answer_take(&got, &rig);
    if (drafts > 0) {                   /* the last round has more than one place of logits */
        memcpy(got.logits, expected.logits, sizeof got.logits);
    }
    assert_same(&expected, &got);
    assert_int_equal(step_progress(&rig.step)->doubt, STEP_DOUBT_HELD);
    kernels_stop(rig.kernels);
}

static void test_doubted_step_has_the_same_bits(void **state)
{
    for (uint32_t threads = 1; threads <= 3; threads++) {
        check_same_bits(threads, 0);
        check_same_bits(threads, 4);
    }
}

static void test_thread_that_is_always_wrong_is_seen_by_another(void **state)
{
    for (uint32_t bend = 0; bend < BENDS; bend++) {
        for (uint32_t other = 0; other < 2; other++) {
            struct rig rig;
            start(&rig, 2);
            is_once = false;
            is_of_other = other;
            bend_ops(&rig, (enum bend)bend);
            enum step_doubt doubt = run_doubted(&rig, 4);
            assert_true(bends > 0);
            if (doubt != STEP_DOUBT_REFUTED) {
                print_message("kernel %u, thread %u\n", bend, other);
            }
            assert_int_equal(doubt, STEP_DOUBT_REFUTED);
            assert_int_equal(*step_rounds(&rig.step), 0);   /* it ended with the first round */
            kernels_stop(rig.kernels);
        }
    }
}

/* One row has few units of attention, which either thread could take twice, if it were free. */
static void test_attention_is_dealt_out(void **state)
{
    struct rig rig;
    start(&rig, 2);
    is_once = false;
    is_of_other = false;
    bend_ops(&rig, SCORES);
    for (uint32_t i = 0; i < 300; i++) {
        assert_int_equal(run_doubted(&rig, 1), STEP_DOUBT_REFUTED);
    }
    kernels_stop(rig.kernels);
}

static void test_one_wrong_number_is_seen_by_the_same_thread_too(void **state)
{
    for (uint32_t bend = 0; bend < BENDS; bend++) {
        for (uint32_t at = 1; at < 40; at += 13) {
            struct rig rig;
            start(&rig, 1);
            is_once = true;
            left = at;
            bend_ops(&rig, (enum bend)bend);
            enum step_doubt doubt = run_doubted(&rig, 4);
            if (doubt != STEP_DOUBT_REFUTED) {
                print_message("kernel %u, call %u\n", bend, at);
            }
            assert_int_equal(doubt, STEP_DOUBT_REFUTED);
            assert_int_equal(bends, 1);
            assert_int_equal(run_doubted(&rig, 4), STEP_DOUBT_HELD);   /* it is over */
            kernels_stop(rig.kernels);
        }
    }
}

static void test_step_that_is_not_doubted_says_nothing(void **state)
{
    struct rig rig;
    struct answer answer;
    start(&rig, 2);
    is_once = true;
    left = 5;
    bend_ops(&rig, PRODUCT);
    run_alone(&answer, &rig, 0, 1);
    assert_int_equal(step_progress(&rig.step)->doubt, STEP_DOUBT_NONE);
    kernels_stop(rig.kernels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_doubted_step_has_the_same_bits),
        cmocka_unit_test(test_thread_that_is_always_wrong_is_seen_by_another),
        cmocka_unit_test(test_attention_is_dealt_out),
        cmocka_unit_test(test_one_wrong_number_is_seen_by_the_same_thread_too),
        cmocka_unit_test(test_step_that_is_not_doubted_says_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
