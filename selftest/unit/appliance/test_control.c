/* SPDX-License-Identifier: MIT */
/*
 * Goal: whatever a worker writes to its page and its results, at any time: it is ready once and for
 * good, a step is done with its own results or not at all, and of what a dead worker wrote nothing
 * is left for its successor.
 * Method: the pages and a record without processes; the test is core, keeper, worker and liar.
 */
#include "selftest/unit/test.h"

#include "appliance/control.h"

enum { ROWS = 3, ROUNDS = 4, LIES = 200000 };

static _Alignas(STEP_PAGE_BYTES) uint8_t shared[sizeof(struct control) +
                                                sizeof(struct control_engine)];
static uint8_t *const pages = shared + sizeof(struct control);
static struct control *const whole = (void *)shared;
static struct control_engine *const control = (void *)(shared + sizeof(struct control));
static struct control_view view;
static struct step step;
static uint64_t random_state;

static uint32_t draw(uint32_t below)
{
    random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % below;
}

static int set_up(void **state)
{
    memset(shared, 0, sizeof shared);
    whole->engines_count = 1;
    view = (struct control_view){0};
    random_state = 1;
    step.layout = (struct step_layout){.rows_max = ROWS, .steps_max = ROUNDS, .tokens_max = 16,
                                       .blocks_per_call = 1, .logprobs_max = 2};
    step_layout_init(&step.layout);
    step.base = arena_take(test_arena(), 1, step.layout.total_bytes);
    *step_header(&step) = (struct step_header){.rows_count = ROWS, .rows_active = ROWS};
    return 0;
}

static enum world_engine ask(void)
{
    return control_poll(&view, control, &step);
}

/* A worker of this epoch has started. */
static void become_ready(uint32_t epoch)
{
    control_begin(control, epoch);
    while (ask() == WORLD_ENGINE_LOST) {
    }
    assert_int_equal(ask(), WORLD_ENGINE_DOWN);
    atomic_store(&control->worker_ready, epoch);
    assert_int_equal(ask(), WORLD_ENGINE_IDLE);
    assert_int_equal(atomic_load(&control->ready), epoch);
}

/* As an engine that works writes them. */
static void write_results(uint32_t value)
{
    *step_progress(&step) = (struct step_progress){.sequence = value, .rounds = ROUNDS};
    for (uint32_t i = 0; i < ROWS; i++) {
        *step_out(&step, i) = (struct step_out){.produced = ROUNDS, .digest = value};
        for (uint32_t t = 0; t < ROUNDS; t++) {
            step_out_tokens(&step, i)[t] = value + t;
        }
    }
}

static void test_worker_that_was_ready_cannot_take_it_back(void **state)
{
    become_ready(1);
    for (uint32_t lie = 0; lie < 4; lie++) {
        atomic_store(&control->worker_ready, lie == 3 ? UINT32_MAX : lie);
        assert_int_equal(ask(), WORLD_ENGINE_IDLE);
    }
}

static void test_successor_is_not_ready_before_it_says_so(void **state)
{
    become_ready(1);
    memset(pages + STEP_PAGE_BYTES, 2, STEP_PAGE_BYTES);
    atomic_store(&control->worker_ready, 2);
    control_begin(control, 2);
    assert_int_equal(ask(), WORLD_ENGINE_LOST);
    assert_int_equal(ask(), WORLD_ENGINE_DOWN);
    assert_int_equal(atomic_load(&control->ready), 1);
    for (uint32_t i = 0; i < STEP_PAGE_BYTES; i++) {
        assert_int_equal(pages[STEP_PAGE_BYTES + i], 0);
    }
}

static void test_condemned_worker_is_down_until_it_is_lost(void **state)
{
    become_ready(1);
    control_submit(&view, control);
    control_condemn(&view, control, CONTROL_HUNG);
    assert_int_equal(atomic_load(&control->condemned), 1);
    assert_int_equal(atomic_load(&control->condemned_for), CONTROL_HUNG);
    control_done(control, &step, view.sequence);
    assert_int_equal(ask(), WORLD_ENGINE_DOWN);
    become_ready(2);
}

/* ---- a core that takes over ------------------------------------------------------------------ */

static void take_over(void)
{
    control_begin_core(whole, false);
    control_adopt(&view, control);
}

static void test_next_core_finds_a_worker_that_is_ready(void **state)
{
    become_ready(3);
    control_submit(&view, control);
    control_done(control, &step, view.sequence);
    assert_int_equal(ask(), WORLD_ENGINE_DONE);
    take_over();
    assert_int_equal(ask(), WORLD_ENGINE_IDLE);
    assert_int_equal(atomic_load(&whole->core_restarts), 1);
    control_submit(&view, control);
    assert_int_equal(ask(), WORLD_ENGINE_BUSY);
    control_done(control, &step, view.sequence);
    assert_int_equal(ask(), WORLD_ENGINE_DONE);
}

/* Its results would be written over those of the next step. */
static void test_next_core_waits_for_the_step_that_the_last_one_left(void **state)
{
    become_ready(1);
    control_submit(&view, control);
    uint32_t left = view.sequence;
    take_over();
    assert_true(control_is_finishing(control));
    assert_int_equal(ask(), WORLD_ENGINE_DOWN);
    control_done(control, &step, left);
    assert_false(control_is_finishing(control));
    assert_int_equal(ask(), WORLD_ENGINE_IDLE);
    control_submit(&view, control);
    assert_int_equal(ask(), WORLD_ENGINE_BUSY);
    assert_false(control_is_finishing(control));
}

/* A wild write after that took its word back, from the next core too. */
static void test_next_core_takes_a_worker_for_ready_that_was(void **state)
{
    become_ready(1);
    atomic_store(&control->worker_ready, 0);
    take_over();
    assert_int_equal(ask(), WORLD_ENGINE_IDLE);
    control_begin(control, 2);
    assert_int_equal(ask(), WORLD_ENGINE_LOST);
    assert_int_equal(ask(), WORLD_ENGINE_DOWN);
}

/* The core before may have died between the step and the call that wakes the worker. */
static void test_worker_is_woken_by_the_end_of_a_core(void **state)
{
    become_ready(1);
    control_submit(&view, control);
    uint32_t asked = atomic_load(&control->asked);
    control_begin_core(whole, false);
    assert_int_equal(atomic_load(&control->asked), asked + 1);
}

static void test_step_that_was_left_dies_with_its_worker(void **state)
{
    become_ready(1);
    control_submit(&view, control);
    take_over();
    assert_int_equal(ask(), WORLD_ENGINE_DOWN);
    become_ready(2);
    assert_false(control_is_finishing(control));
}

static void test_next_core_believes_no_worker_that_is_condemned(void **state)
{
    become_ready(1);
    control_condemn(&view, control, CONTROL_WRONG);
    take_over();
    assert_int_equal(ask(), WORLD_ENGINE_DOWN);
    become_ready(2);
}

/* Of every byte that the worker writes for a step, one is changed after it was done. */
static void test_results_that_are_changed_after_they_were_done_are_no_proof(void **state)
{
    uint64_t at = step.layout.outs_offset;
    for (; at < step.layout.out_tokens_offset + sizeof(uint32_t[ROUNDS]); at++) {
        set_up(state);
        become_ready(1);
        control_submit(&view, control);
        write_results(7);
        control_done(control, &step, view.sequence);
        bool counts = at < step.layout.outs_offset + ROWS * sizeof(struct step_out) ||
                      at >= step.layout.out_tokens_offset;
        step.base[at] ^= 1u << at % 8;
        assert_int_equal(ask(), counts ? WORLD_ENGINE_UNPROVEN : WORLD_ENGINE_DONE);
        assert_int_equal(ask(), WORLD_ENGINE_IDLE);     /* said once */
    }
}

static void test_results_of_the_step_before_are_no_proof(void **state)
{
    become_ready(1);
    control_submit(&view, control);
    write_results(7);
    control_done(control, &step, view.sequence);
    assert_int_equal(ask(), WORLD_ENGINE_DONE);
    control_submit(&view, control);
    assert_int_equal(ask(), WORLD_ENGINE_BUSY);
    atomic_store(&control->done, view.sequence);
    assert_int_equal(ask(), WORLD_ENGINE_UNPROVEN);
}

/* A word of the worker's page, or of its results: anything, or what it would be in a moment. */
static void lie(void)
{
    uint32_t *const words[] = {(uint32_t *)&control->done, (uint32_t *)&control->worker_ready,
                               (uint32_t *)&control->proof, (uint32_t *)&control->proof + 1,
                               (uint32_t *)step_progress(&step),
                               step_rounds(&step), &step_out(&step, draw(ROWS))->produced,
                               step_out_tokens(&step, draw(ROWS)) + draw(ROUNDS)};
    const uint32_t values[] = {0, 1, UINT32_MAX, draw(UINT32_MAX), view.sequence,
                               view.sequence + 1, view.epoch, view.epoch + 1};
    *words[draw(8)] = values[draw(8)];
}

/* The worker works, and lies in between. When the core says DONE, the results are those of the step
 * as they were written; and it goes on to the next worker whenever it cannot say so. */
static void test_worker_that_lies_at_any_time_costs_steps_and_never_a_result(void **state)
{
    uint32_t done = 0, unproven = 0, epoch = 1;
    become_ready(epoch);
    for (uint32_t i = 0; i < LIES; i++) {
        control_submit(&view, control);
        bool lies_first = draw(2) == 0, lies_last = draw(2) == 0;
        if (lies_first) {
            lie();
        }
        write_results(i);
        control_done(control, &step, view.sequence);
        if (lies_last) {
            lie();
        }
        enum world_engine result = ask();
        if (result == WORLD_ENGINE_DONE) {
            for (uint32_t row = 0; row < ROWS; row++) {
                assert_int_equal(step_out_tokens(&step, row)[ROUNDS - 1], i + ROUNDS - 1);
            }
            done++;
            continue;
        }
        assert_true(lies_last);
        assert_true(result == WORLD_ENGINE_BUSY || result == WORLD_ENGINE_UNPROVEN);
        unproven += result == WORLD_ENGINE_UNPROVEN;
        control_condemn(&view, control, CONTROL_WRONG);
        become_ready(++epoch);
    }
    assert_true(done > LIES / 2 && unproven > LIES / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_worker_that_was_ready_cannot_take_it_back, set_up),
        cmocka_unit_test_setup(test_successor_is_not_ready_before_it_says_so, set_up),
        cmocka_unit_test_setup(test_condemned_worker_is_down_until_it_is_lost, set_up),
        cmocka_unit_test_setup(test_next_core_finds_a_worker_that_is_ready, set_up),
        cmocka_unit_test_setup(test_next_core_waits_for_the_step_that_the_last_one_left, set_up),
        cmocka_unit_test_setup(test_next_core_takes_a_worker_for_ready_that_was, set_up),
        cmocka_unit_test_setup(test_worker_is_woken_by_the_end_of_a_core, set_up),
        cmocka_unit_test_setup(test_step_that_was_left_dies_with_its_worker, set_up),
        cmocka_unit_test_setup(test_next_core_believes_no_worker_that_is_condemned, set_up),
        cmocka_unit_test_setup(
            test_results_that_are_changed_after_they_were_done_are_no_proof, set_up),
        cmocka_unit_test_setup(test_results_of_the_step_before_are_no_proof, set_up),
        cmocka_unit_test_setup(
            test_worker_that_lies_at_any_time_costs_steps_and_never_a_result, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
