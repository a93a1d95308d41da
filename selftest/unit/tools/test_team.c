/* SPDX-License-Identifier: MIT */
/*
 * Goal: a team gets every agent served, over connections that break or are full, and despite busy,
 * refused or failed calls. A call that is not served costs its own agent only.
 * Method: the appliance of team_rig.h. The only pauses are the team's own, in milliseconds.
 */
#include "selftest/unit/tools/team_watched.h"

static void test_agents_of_every_kind_are_served(void **state)
{
    (void)state;
    assert_int_equal(work(REACT CHAT MAP VOTE, 4, NULL, 0), EXIT_COMPLETE);
    for (uint32_t kind = 0; kind < TASK_KINDS; kind++) {
        assert_int_equal(team.right[kind], 1);
    }
    assert_int_equal(fake.calls, 2 + 2 + 5 + 9);
    assert_int_equal(seen.opened, 18);
    assert_int_equal(seen.ended, 18);
    assert_int_equal(seen.tools, 2);
    assert_int_equal(fake.programs_ended, 4);
    assert_int_equal(fake.max_tokens_least, AGENT_MAX_TOKENS);
}

static void test_seats_are_taken_again(void **state)
{
    (void)state;
    assert_int_equal(work(REACT REACT REACT REACT REACT REACT REACT, 2, NULL, 0), EXIT_COMPLETE);
    assert_int_equal(team.right[TASK_REACT], 7);
    assert_int_equal(seen.taken_most, 2);
    assert_int_equal(fake.programs_ended, 7);
}

static void test_more_calls_than_a_connection_takes_need_more_of_them(void **state)
{
    (void)state;
    assert_int_equal(work(VOTE, 1, NULL, 0), EXIT_COMPLETE);
    assert_int_equal(fake.connections_most, 3);         /* 9 calls, 4 in each */
    assert_int_equal(team.right[TASK_VOTE], 1);
}

static void test_a_busy_call_is_asked_again(void **state)
{
    static const enum fate fates[] = {BUSY, BUSY, SERVE, BUSY};
    (void)state;
    assert_int_equal(work(REACT, 1, fates, 4), EXIT_COMPLETE);
    assert_int_equal(team.right[TASK_REACT], 1);
    assert_int_equal(fake.calls, 5);
    assert_int_equal(seen.ended, 2);
    assert_int_equal(team.retry.waits, 3);
}

static void test_a_call_that_stays_busy_costs_its_agent_only(void **state)
{
    static const enum fate fates[] = {BUSY, BUSY, BUSY};
    (void)state;
    assert_int_equal(work(REACT CHAT, 1, fates, 3), EXIT_REFUSED);
    assert_int_equal(team.right[TASK_REACT], 0);
    assert_int_equal(team.right[TASK_CHAT], 1);
    assert_int_equal(team.retry.waits, 2);
    assert_string_equal(seen.got, status_text(STATUS_BUSY_CALLS));
}

static void test_a_broken_connection_costs_no_words(void **state)
{
    static const enum fate fates[] = {BREAK_OFF, BREAK, SERVE, BREAK_OFF};
    (void)state;
    assert_int_equal(work(CHAT, 1, fates, 4), EXIT_COMPLETE);
    assert_int_equal(team.right[TASK_CHAT], 1);
    assert_int_equal(fake.calls_served, 2);
    assert_int_equal(fake.calls, 5);
}

static void test_a_connection_that_always_breaks_ends_the_agent(void **state)
{
    static const enum fate fates[] = {BREAK, BREAK, BREAK, BREAK, BREAK, BREAK};
    (void)state;
    assert_int_equal(work(REACT CHAT, 1, fates, 6), EXIT_INCOMPLETE);
    assert_int_equal(team.right[TASK_REACT], 0);
    assert_int_equal(team.right[TASK_CHAT], 1);
    assert_string_equal(seen.got, agx_result_text(AGX_ERROR_CLOSED));
}

/* Four calls fill a connection: the others, always with an open call, have a second one. */
static void test_a_call_that_breaks_its_connection_costs_that_connection_only(void **state)
{
    (void)state;
    assert_int_equal(work("task vote e\nsamples 4\n> Poison\n= 36\n"
                          CHAT CHAT CHAT CHAT CHAT CHAT CHAT CHAT CHAT CHAT, 2, NULL, 0),
                     EXIT_INCOMPLETE);
    assert_int_equal(team.right[TASK_VOTE], 0);
    assert_int_equal(team.right[TASK_CHAT], 10);
    assert_string_equal(seen.got, agx_result_text(AGX_ERROR_CLOSED));
}

static void test_a_long_prompt_gets_the_room_that_is_left(void **state)
{
    static const enum fate fates[] = {TOO_LONG};
    (void)state;
    assert_int_equal(work(REACT, 1, fates, 1), EXIT_COMPLETE);
    assert_int_equal(team.right[TASK_REACT], 1);
    assert_int_equal(fake.max_tokens_least, 24);
}

static void test_a_refused_call_costs_its_agent_only(void **state)
{
    static const enum fate fates[] = {SERVE, REFUSE};
    (void)state;
    assert_int_equal(work(VOTE REACT, 1, fates, 2), EXIT_REFUSED);
    assert_int_equal(team.right[TASK_VOTE], 0);
    assert_int_equal(team.right[TASK_REACT], 1);
    assert_string_equal(seen.got, status_text(STATUS_BAD_PROMPT_LENGTH));
}

static void test_a_failed_call_costs_its_agent_only(void **state)
{
    static const enum fate fates[] = {FAIL, SERVE, FAIL};
    (void)state;
    assert_int_equal(work(MAP CHAT, 1, fates, 3), EXIT_INCOMPLETE);
    assert_int_equal(team.right[TASK_MAP], 0);
    assert_int_equal(team.right[TASK_CHAT], 1);
    assert_string_equal(seen.got, agx_finish_text(AGX_FINISH_FAILED));
    assert_int_equal(fake.programs_ended, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_agents_of_every_kind_are_served),
        cmocka_unit_test(test_seats_are_taken_again),
        cmocka_unit_test(test_more_calls_than_a_connection_takes_need_more_of_them),
        cmocka_unit_test(test_a_busy_call_is_asked_again),
        cmocka_unit_test(test_a_call_that_stays_busy_costs_its_agent_only),
        cmocka_unit_test(test_a_broken_connection_costs_no_words),
        cmocka_unit_test(test_a_connection_that_always_breaks_ends_the_agent),
        cmocka_unit_test(test_a_call_that_breaks_its_connection_costs_that_connection_only),
        cmocka_unit_test(test_a_long_prompt_gets_the_room_that_is_left),
        cmocka_unit_test(test_a_refused_call_costs_its_agent_only),
        cmocka_unit_test(test_a_failed_call_costs_its_agent_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
