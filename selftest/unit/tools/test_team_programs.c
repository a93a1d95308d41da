/* SPDX-License-Identifier: MIT */
/*
 * Goal: a program of several tasks is one program, whatever becomes of its agents; gated programs
 * begin when they are admitted; the digest of a program is that of its calls and tokens.
 * Method: the appliance of team_rig.h; the test makes the passes.
 */
#include "selftest/unit/tools/team_watched.h"

static void test_tasks_that_follow_are_in_the_same_program(void **state)
{
    (void)state;
    assert_int_equal(work(REACT THEN CHAT THEN, 1, NULL, 0), EXIT_COMPLETE);
    assert_int_equal(team.right[TASK_REACT], 3);
    assert_int_equal(team.right[TASK_CHAT], 3);
    assert_int_equal(fake.programs_ended, 2);
    assert_int_equal(team.programs_over, 2);
    assert_int_equal(seen.taken_most, 1);
    assert_int_equal(work(REACT THEN CHAT, 2, NULL, 0), EXIT_COMPLETE);
    assert_int_equal(seen.taken_most, 2);
    assert_int_equal(seen.last.tasks_done, seen.last.tasks_right);
}

/* One START for a program, however many calls and tasks it has. */
static void test_the_class_of_a_program_is_sent_once_before_its_calls(void **state)
{
    struct task_book book;
    (void)state;
    prepare(&book, MAP REACT THEN, NULL, 0);
    team.seats_count = 1;
    team.class_name = "kind";
    assert_int_equal(team_open(&team, fake.address), EXIT_COMPLETE);
    assert_int_equal(team_run(&team), EXIT_COMPLETE);
    assert_int_equal(fake.programs_named, 2);
    assert_int_equal(fake.programs_ended, 2);
    team_close(&team);
    stop_fake();
    task_book_free(&book);
}

/* Call 2, of the program's second task. */
static void test_a_task_that_fails_does_not_end_its_program(void **state)
{
    static const enum fate fates[] = {SERVE, SERVE, FAIL};
    (void)state;
    assert_int_equal(work(REACT THEN, 1, fates, 3), EXIT_INCOMPLETE);
    assert_int_equal(team.right[TASK_REACT], 1);
    assert_int_equal(team.right[TASK_CHAT], 1);
    assert_int_equal(fake.programs_ended, 1);
    assert_int_equal(seen.last.tasks_done, 3);
    assert_int_equal(seen.last.tasks_right, 2);
}

/* A gated program begins when it is admitted, in its own seat, and no seat is taken twice. */
static void test_a_gated_program_waits_until_it_is_admitted(void **state)
{
    struct task_book book;
    (void)state;
    prepare(&book, CHAT REACT THEN CHAT, NULL, 0);
    team.seats_count = 3;
    team.is_gated = true;
    assert_int_equal(team_open(&team, fake.address), EXIT_COMPLETE);
    team_begin(&team);
    for (uint32_t i = 0; i < 3; i++) {
        for (uint32_t k = 0; k < 3; k++) {
            assert_true(team_pass(&team, 0));
            assert_int_equal(team.programs_over, i);
            assert_false(team.seats[i].is_taken);
        }
        team_admit(&team, 1000 + i);
        while (team.programs_over == i) {
            assert_true(team_pass(&team, 40000));
        }
        assert_true(team.seats[i].is_over);
        assert_int_equal(team.seats[i].start_us, 1000 + i);
    }
    while (team_pass(&team, 40000)) {
    }
    assert_int_equal(team_code(&team), EXIT_COMPLETE);
    assert_int_equal(team.tokens, team.seats[0].tokens + team.seats[1].tokens +
                                      team.seats[2].tokens);
    assert_true(team.seats[0].digest != 0 && team.seats[0].digest != team.seats[2].digest);
    team_close(&team);
    stop_fake();
    task_book_free(&book);
}

/* Calls that end in another order, after a break, give the same digest. */
static void test_a_digest_depends_on_calls_and_tokens_only(void **state)
{
    static const enum fate fates[] = {BUSY, SERVE, BREAK, SERVE, BUSY};
    (void)state;
    assert_int_equal(work(MAP, 1, NULL, 0), EXIT_COMPLETE);
    uint64_t digest = seen.last.digest;
    assert_int_equal(work(MAP, 1, fates, 5), EXIT_COMPLETE);
    assert_true(digest != 0 && seen.last.digest == digest);
    assert_int_equal(work(VOTE, 1, NULL, 0), EXIT_COMPLETE);
    assert_true(seen.last.digest != digest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tasks_that_follow_are_in_the_same_program),
        cmocka_unit_test(test_the_class_of_a_program_is_sent_once_before_its_calls),
        cmocka_unit_test(test_a_task_that_fails_does_not_end_its_program),
        cmocka_unit_test(test_a_gated_program_waits_until_it_is_admitted),
        cmocka_unit_test(test_a_digest_depends_on_calls_and_tokens_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
