/* SPDX-License-Identifier: MIT */
/*
 * Goal: a share of the steps is doubted, the same ones whenever a run is repeated; a step that does
 * not hold costs its worker, and no token of it gets to a client, not even while it runs.
 * Method: the draw alone; then the whole loop over the fake world, whose engine says now and then
 * that what it computed came out in two ways: then its tokens are wrong.
 */
#include "selftest/unit/appliance/loop_rig.h"

#include "appliance/engine/doubt.h"

enum { STEPS = 200000 };

static struct step step;
static uint32_t wrong_left;

static int set_up(void **state)
{
    step.layout = (struct step_layout){.rows_max = 1, .steps_max = 1, .tokens_max = 1,
                                       .blocks_per_call = 1};
    step_layout_init(&step.layout);
    step.base = arena_take(test_arena(), 1, step.layout.total_bytes);
    return 0;
}

/* Steps of so many that are doubted, and a digest of which. */
static uint32_t count_doubted(uint32_t engine, uint32_t permille, uint64_t *which)
{
    struct doubt doubt;
    uint32_t count = 0;
    doubt_init(&doubt, engine, permille);
    *which = FNV_START;
    for (uint32_t i = 0; i < STEPS; i++) {
        doubt_draw(&doubt, &step);
        assert_int_equal(step_header(&step)->is_doubted, doubt_is_drawn(&doubt));
        count += doubt_is_drawn(&doubt);
        if (doubt_is_drawn(&doubt)) {
            *which = fnv_add(*which, &i, sizeof i);
        }
    }
    return count;
}

static void test_draw_doubts_the_share_and_the_same_steps_again(void **state)
{
    uint64_t first, again, other;
    assert_int_equal(count_doubted(0, 0, &first), 0);
    assert_int_equal(count_doubted(0, 1000, &first), STEPS);
    assert_in_range(count_doubted(0, 500, &first), STEPS / 2 - 1500, STEPS / 2 + 1500);
    assert_in_range(count_doubted(0, 1, &first), STEPS / 1000 - 60, STEPS / 1000 + 60);
    count_doubted(0, 1, &again);
    count_doubted(1, 1, &other);
    assert_int_equal(first, again);
    assert_int_not_equal(first, other);
}

static void test_only_a_step_that_says_so_holds(void **state)
{
    struct doubt doubt;
    doubt_init(&doubt, 0, 1000);
    doubt_draw(&doubt, &step);
    for (uint32_t word = 0; word < 5; word++) {
        step_progress(&step)->doubt = word;
        assert_int_equal(doubt_holds(&doubt, &step), word == STEP_DOUBT_HELD);
    }
    doubt_spare(&doubt, &step);
    assert_false(step_header(&step)->is_doubted);
    assert_true(doubt_holds(&doubt, &step));
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* Not of a call alone: twice, and it would count as the cause (sched/engine/suspicion.h). */
static bool may_be_wrong(void)
{
    const struct step_header *header = step_header(&rig.engine.step);
    return header->is_doubted && header->rows_count > 1 && wrong_left > 0;
}

static void engine_wrong_now_and_then(void *context)
{
    const struct step_header *header = step_header(&rig.engine.step);
    assert_true(!header->is_doubted || !step_row(&rig.engine.step, 0)->wants_digest);
    rig.engine.is_wrong = may_be_wrong() && draw(4) == 0;
    wrong_left -= rig.engine.is_wrong;
    fake_engine_run(context);
}

static void engine_that_never_says(void *context)
{
    fake_engine_run(context);
    if (may_be_wrong()) {
        wrong_left--;
        step_progress(&rig.engine.step)->doubt = STEP_DOUBT_NONE;
    }
}

static void fresh(uint64_t seed, void (*engine)(void *context), uint32_t wrong)
{
    start(seed);
    rig.fake.engine = engine;
    rig.loop.engines[0].doubt.permille = 1000;
    wrong_left = wrong;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        client_connect(&rig.clients[i]);
    }
}

static void run_whole(void)
{
    run_until_done();
    everything_is_back();
}

static void test_doubted_steps_that_hold_change_nothing(void **state)
{
    fresh(3, fake_engine_run, 0);
    run_whole();
    assert_int_equal(rig.loop.stats.calls_completed, CLIENTS * CALLS_EACH);
    assert_int_equal(rig.loop.stats.steps_doubted, rig.loop.stats.steps);
    assert_int_equal(rig.loop.stats.engine_restarts, 0);
}

/* everything_is_back() compares each call's tokens with those of an undisturbed engine. */
static void test_step_that_does_not_hold_costs_the_worker_and_no_token(void **state)
{
    for (uint64_t seed = 0; seed < 40; seed++) {
        fresh(seed, engine_wrong_now_and_then, 5);
        run_whole();
        assert_int_equal(rig.loop.stats.calls_completed, CLIENTS * CALLS_EACH);
        assert_int_equal(rig.loop.stats.engine_inconsistent, 5 - wrong_left);
        assert_true(rig.loop.stats.engine_inconsistent > 0);
        assert_int_equal(rig.loop.stats.engine_restarts, rig.loop.stats.engine_inconsistent);
        assert_int_equal(rig.loop.stats.engine_wrong, 0);
    }
}

static void test_worker_that_does_not_compute_twice_is_not_believed(void **state)
{
    fresh(1, engine_that_never_says, 2);
    run_whole();
    assert_int_equal(rig.loop.stats.engine_inconsistent, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_draw_doubts_the_share_and_the_same_steps_again, set_up),
        cmocka_unit_test_setup(test_only_a_step_that_says_so_holds, set_up),
        cmocka_unit_test(test_doubted_steps_that_hold_change_nothing),
        cmocka_unit_test(test_step_that_does_not_hold_costs_the_worker_and_no_token),
        cmocka_unit_test(test_worker_that_does_not_compute_twice_is_not_believed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
