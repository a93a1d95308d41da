/* SPDX-License-Identifier: MIT */
/*
 * Goal: a worker answers what it was asked before it served, runs what is submitted to it, and
 * leaves what was submitted to another epoch.
 * Method: a thread serves; the test is the core, and waits for each answer.
 */
#include "selftest/unit/test.h"

#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "appliance/runner.h"

enum { EPOCH = 3 };

static _Alignas(STEP_PAGE_BYTES) uint8_t pages[sizeof(struct control_engine)];
static struct control_engine *const control = (void *)pages;
static struct step step;
static struct runner runner;
static uint32_t steps_run, steps_max;
static pthread_t thread;

static bool run(void *engine, const struct step *of)
{
    (void)engine;
    (void)of;
    return ++steps_run < steps_max;
}

static void *serve(void *unused)
{
    runner_serve(&runner);
    return unused;
}

static int set_up(void **state)
{
    (void)state;
    memset(pages, 0, sizeof pages);
    step.layout = (struct step_layout){.rows_max = 1, .steps_max = 1, .tokens_max = 1,
                                       .blocks_per_call = 1};
    step_layout_init(&step.layout);
    step.base = arena_take(test_arena(), 1, step.layout.total_bytes);
    runner = (struct runner){.control = control, .step = &step, .bell = eventfd(0, EFD_NONBLOCK),
                             .epoch = EPOCH, .run = run};
    steps_run = 0;
    control_begin(control, EPOCH);
    return runner.bell < 0;
}

static void start(uint32_t steps)
{
    steps_max = steps;
    assert_int_equal(pthread_create(&thread, NULL, serve, NULL), 0);
    while (atomic_load(&control->worker_ready) != EPOCH) {
        sched_yield();
    }
}

static void await_answer(void)
{
    while (atomic_load(&control->answered) != atomic_load(&control->asked)) {
        sched_yield();
    }
}

static void submit(struct control_view *view)
{
    control_submit(view, control);
    view->in_flight = false;
}

/* The engine fails in this step, and its thread ends. */
static void end(struct control_view *view)
{
    submit(view);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(steps_run, steps_max);
    close(runner.bell);
}

/* A wild write had said that it was ready, and the core has asked whether it lives. */
static void test_what_was_asked_before_the_start_is_answered(void **state)
{
    struct control_view view = {.epoch = EPOCH};
    (void)state;
    control_ask(control);
    start(1);
    assert_int_equal(atomic_load(&control->answered), 1);
    assert_int_equal(control->heartbeat, 1);
    end(&view);
}

static void test_a_step_of_its_epoch_is_done_and_answered(void **state)
{
    struct control_view view = {.epoch = EPOCH};
    (void)state;
    start(2);
    submit(&view);
    await_answer();
    assert_int_equal(atomic_load(&control->done), view.sequence);
    assert_int_equal(atomic_load(&control->proof), step_proof(&step, view.sequence));
    end(&view);
}

static void test_a_step_of_another_epoch_is_not_run(void **state)
{
    struct control_view view = {.epoch = EPOCH - 1};
    (void)state;
    start(1);
    submit(&view);
    await_answer();
    assert_int_equal(steps_run, 0);
    assert_int_equal(atomic_load(&control->done), 0);
    view.epoch = EPOCH;
    end(&view);
}

/* Else it would seem to live, and its step would never end. */
static void test_a_step_that_came_too_early_is_owed_for_ever(void **state)
{
    struct control_view view = {.epoch = EPOCH};
    (void)state;
    submit(&view);
    start(1);
    assert_int_equal(control->heartbeat, 0);
    assert_int_equal(atomic_load(&control->answered), 0);
    end(&view);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_what_was_asked_before_the_start_is_answered, set_up),
        cmocka_unit_test_setup(test_a_step_of_its_epoch_is_done_and_answered, set_up),
        cmocka_unit_test_setup(test_a_step_of_another_epoch_is_not_run, set_up),
        cmocka_unit_test_setup(test_a_step_that_came_too_early_is_owed_for_ever, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
