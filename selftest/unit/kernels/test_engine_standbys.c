/* SPDX-License-Identifier: MIT */
/*
 * Goal: standbys enter where rows have ended, and a step ends when the core asks for it; tokens are
 * those of the same calls in other steps.
 * Method: a small random model; each call also runs alone.
 */
#include "selftest/unit/kernels/engine_rig.h"

/* ---- standbys ---- */

enum { STANDBY_CALLS = 8, STANDBY_PLACES = 3 };

struct standby_call {
    uint32_t wanted;                /* decode steps of the row */
    uint32_t stop;                  /* its stop id, or none */
    uint32_t alone[DECODED];        /* its tokens when it runs alone */
    uint32_t expected;              /* the number of these that must come */
};

static uint32_t standby_tokens(uint32_t call)
{
    return 5 + call;
}

/* The rule of step.h, round by round. */
static void expect_places(struct standby_call *calls)
{
    uint32_t next = STANDBY_PLACES;
    uint32_t places[STANDBY_PLACES] = {0, 1, 2};
    for (uint32_t round = 0; round < DECODED; round++) {
        for (uint32_t p = 0; p < STANDBY_PLACES; p++) {
            struct standby_call *call = &calls[places[p]];
            bool ends = call->wanted == 0;
            if (!ends) {
                uint32_t token = call->alone[call->expected++];
                ends = call->expected == call->wanted || token == call->stop;
            }
            if (ends && next < STANDBY_CALLS) {
                places[p] = next++;
            } else if (ends) {
                places[p] = STANDBY_CALLS;      /* no row: needs no token */
            }
        }
    }
}

/* All but the last token of each call, so that one is left to feed; in chunks of a step. */
static void standby_prefill(struct rig *rig)
{
    poison(rig);
    rig_clear(rig);
    for (uint32_t i = 0; i < STANDBY_CALLS; i++) {
        rig_row(rig, prompt + i, standby_tokens(i) - 1, 0, 0);
        rig_blocks(rig, i, 16 * i, 1);
    }
    kernels_run(rig->kernels, &rig->step);
    rig_clear(rig);
}

static void standby_row(struct rig *rig, uint32_t call, const struct standby_call *as)
{
    uint32_t fed = standby_tokens(call) - 1;
    uint32_t r = step_header(&rig->step)->rows_count;
    struct step_row *row = rig_row(rig, prompt + call + fed, 1, fed, as->wanted);
    row->sampling.stop_ids_count = 1;
    row->sampling.stop_ids[0] = as->stop;
    rig_blocks(rig, r, 16 * call, 1);
}

static void check_standbys(struct rig *rig, struct standby_call *calls)
{
    calls[STANDBY_CALLS] = (struct standby_call){.wanted = 0};
    expect_places(calls);
    standby_prefill(rig);
    for (uint32_t i = 0; i < STANDBY_CALLS; i++) {
        standby_row(rig, i, &calls[i]);
    }
    step_header(&rig->step)->rows_active = STANDBY_PLACES;
    memset(step_out(&rig->step, 0), 0xee, STANDBY_CALLS * sizeof(struct step_out));
    kernels_run(rig->kernels, &rig->step);
    for (uint32_t i = 0; i < STANDBY_CALLS; i++) {
        assert_int_equal(step_out(&rig->step, i)->result, STEP_ROW_OK);
        assert_int_equal(step_out(&rig->step, i)->produced, calls[i].expected);
        assert_memory_equal(step_out_tokens(&rig->step, i), calls[i].alone,
                            calls[i].expected * sizeof(uint32_t));
    }
}

static void test_run_standbys_enter_where_rows_have_ended(void **state)
{
    (void)state;
    struct rig rig;
    struct standby_call calls[STANDBY_CALLS + 1] = {0};
    uint64_t random = 5;
    uint32_t entered = 0;
    start_plain(&rig, GGUF_F32);
    standby_prefill(&rig);
    for (uint32_t i = 0; i < STANDBY_CALLS; i++) {
        standby_row(&rig, i, &(struct standby_call){.wanted = DECODED, .stop = UINT32_MAX});
        kernels_run(rig.kernels, &rig.step);
        memcpy(calls[i].alone, step_out_tokens(&rig.step, 0), sizeof calls[i].alone);
        rig_clear(&rig);
    }
    for (uint32_t round = 0; round < 60; round++) {
        for (uint32_t i = 0; i < STANDBY_CALLS; i++) {
            bool may_be_chunk = i < STANDBY_PLACES;
            calls[i].wanted = (may_be_chunk ? 0 : 1) + tiny_random(&random) % DECODED;
            calls[i].stop = tiny_random(&random) % 3 == 0
                                ? calls[i].alone[tiny_random(&random) % DECODED] : UINT32_MAX;
            calls[i].expected = 0;
        }
        check_standbys(&rig, calls);
        entered += calls[STANDBY_PLACES].expected > 0;
    }
    assert_true(entered > 30);
    kernels_stop(rig.kernels);
}

static void test_run_standby_gets_the_place_of_a_failed_row(void **state)
{
    (void)state;
    struct rig rig;
    struct standby_call as = {.wanted = DECODED, .stop = UINT32_MAX};
    start_plain(&rig, GGUF_F32);
    standby_prefill(&rig);
    standby_row(&rig, 0, &as);
    rig_blocks(&rig, 0, 120, 1);        /* NaN */
    standby_row(&rig, 1, &as);
    standby_row(&rig, 2, &as);
    step_header(&rig.step)->rows_active = 1;
    kernels_run(rig.kernels, &rig.step);
    assert_int_equal(step_out(&rig.step, 0)->result, STEP_ROW_NOT_FINITE);
    assert_int_equal(step_out(&rig.step, 1)->produced, DECODED - 1);
    assert_int_equal(step_out(&rig.step, 2)->produced, 0);
    kernels_stop(rig.kernels);
}

/* ---- early stop ---- */

/* Three places; the row of the second one needs three tokens, the standby row two. */
static void check_stop(struct rig *rig, enum step_stop early_stop, uint32_t standbys,
                        const uint32_t *expected, uint32_t rounds)
{
    static const uint32_t wanted[] = {DECODED, 3, DECODED, 2};
    uint32_t whole[4][DECODED];
    for (uint32_t early = 0; early < 2; early++) {
        standby_prefill(rig);
        for (uint32_t i = 0; i < STANDBY_PLACES + standbys; i++) {
            standby_row(rig, i, &(struct standby_call){.wanted = wanted[i], .stop = UINT32_MAX});
        }
        step_header(&rig->step)->rows_active = STANDBY_PLACES;
        step_stop_early(&rig->step, early ? early_stop : STEP_STOP_LAST);
        kernels_run(rig->kernels, &rig->step);
        for (uint32_t i = 0; i < STANDBY_PLACES + standbys; i++) {
            uint32_t produced = step_out(&rig->step, i)->produced;
            assert_int_equal(produced, early ? expected[i] : wanted[i]);
            if (early) {
                assert_memory_equal(step_out_tokens(&rig->step, i), whole[i], produced * 4);
            }
            memcpy(whole[i], step_out_tokens(&rig->step, i), sizeof whole[i]);
        }
        assert_int_equal(*step_rounds(&rig->step), early ? rounds : DECODED);
    }
}

static void test_run_ends_early_when_the_core_is_in_early_stop(void **state)
{
    (void)state;
    struct rig rig;
    start_plain(&rig, GGUF_F32);
    check_stop(&rig, STEP_STOP_ROUND, 0, (const uint32_t[]){1, 1, 1}, 1);
    check_stop(&rig, STEP_STOP_ROUND, 1, (const uint32_t[]){1, 1, 1, 0}, 1);
    check_stop(&rig, STEP_STOP_ROW, 0, (const uint32_t[]){3, 3, 3}, 3);
    check_stop(&rig, STEP_STOP_ROW, 1, (const uint32_t[]){5, 3, 5, 2}, 5);
    kernels_stop(rig.kernels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run_standbys_enter_where_rows_have_ended),
        cmocka_unit_test(test_run_standby_gets_the_place_of_a_failed_row),
        cmocka_unit_test(test_run_ends_early_when_the_core_is_in_early_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
