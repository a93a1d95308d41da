/* SPDX-License-Identifier: MIT */
/*
 * Goal: the player opens each call of a trace when the trace says, and names the last of each run.
 * Method: small traces, times worked out by hand; every time is an argument, so nothing waits.
 */
#include "selftest/unit/trace_text.h"

#include "tools/trace/player.h"

static struct trace trace;
static struct player player;

static void start(const char *text, const struct player_settings *settings)
{
    trace_text_load(&trace, text);
    assert_int_equal(player_init(&player, &trace, settings), PLAYER_READY);
}

static int stop(void **state)
{
    (void)state;
    player_free(&player);
    trace_free(&trace);
    return 0;
}

/* The next call is `index`, and it is due then, not a microsecond before. */
static void expect_due(uint32_t index, uint64_t at_us)
{
    uint32_t call;
    assert_int_equal(player_next_us(&player), at_us);
    assert_false(player_due(&player, at_us - 1, &call));
    assert_true(player_due(&player, at_us, &call));
    assert_int_equal(call, index);
    assert_int_equal(player.calls[call].place, PLAYER_OPEN);
}

static const char diamond[] =
    "agentix-trace 1\nprogram p 0 x\n"
    "call 0 after=- gap=100 in=u:9 out=7\n"
    "call 1 after=0 gap=20 in=u:9 out=7\n"
    "call 2 after=0 gap=50 in=u:9 out=7\n"
    "call 3 after=1,2 gap=0 in=u:9 out=7\n";
static const char three[] =
    "agentix-trace 1\n"
    "program a 1000 x\ncall 0 after=- gap=0 in=u:9 out=7\n"
    "program b 1500 x\ncall 0 after=- gap=0 in=u:9 out=7\ncall 1 after=0 gap=0 in=u:9 out=7\n"
    "program c 3000 x\ncall 0 after=- gap=0 in=u:9 out=7\n";

#define CALLS_MAX 1000

static void test_call_opens_after_all_that_it_waits_for(void **state)
{
    (void)state;
    start(diamond, &(struct player_settings){.calls_max = CALLS_MAX, .gap_scale = 1,
                                             .start_us = 1000});
    expect_due(0, 1100);
    assert_int_equal(player_next_us(&player), UINT64_MAX);
    assert_false(player_over(&player, 0, 2000));
    expect_due(1, 2020);
    expect_due(2, 2050);
    assert_false(player_over(&player, 2, 2500));
    assert_int_equal(player.calls[3].place, PLAYER_BLOCKED);
    assert_false(player_over(&player, 1, 2400 + 200));
    expect_due(3, 2600);
    assert_true(player_over(&player, 3, 3000));
    assert_int_equal(player.runs_left, 0);
    /* 900 of call 0, the longer of 580 and 450, 400 of call 3: without gaps. */
    assert_int_equal(player.runs[0].path_us, 900 + 580 + 400);
}

static void test_call_put_back_counts_from_when_it_was_due(void **state)
{
    (void)state;
    start(diamond, &(struct player_settings){.calls_max = CALLS_MAX, .gap_scale = 0.5});
    expect_due(0, 50);
    player_again(&player, 0, 5000);
    expect_due(0, 5000);
    assert_false(player_over(&player, 0, 6000));
    assert_int_equal(player.runs[0].path_us, 5950);
    expect_due(1, 6010);
}

static void test_failed_run_goes_no_further(void **state)
{
    (void)state;
    start(diamond, &(struct player_settings){.calls_max = CALLS_MAX, .gap_scale = 1});
    expect_due(0, 100);
    assert_false(player_over(&player, 0, 200));
    expect_due(1, 220);
    expect_due(2, 250);
    assert_true(player_fail(&player, 1, 260));
    assert_int_equal(player.runs_left, 0);
    assert_false(player_over(&player, 2, 300));
    assert_int_equal(player.calls[3].place, PLAYER_BLOCKED);
    assert_int_equal(player_next_us(&player), UINT64_MAX);
}

static void expect_arrivals(const uint64_t *arrivals_us)
{
    for (uint32_t i = 0; i < player.runs_count; i++) {
        assert_int_equal(player.runs[i].arrival_us, arrivals_us[i]);
    }
}

static void test_arrivals_are_stretched_and_repeat(void **state)
{
    (void)state;
    static const uint64_t twice_as_slow[] = {7, 1007, 4007, 6007, 7007};
    trace_text_load(&trace, three);
    double natural = player_natural_rate(&trace, 0);
    assert_true(natural == 1000);       /* three arrivals, two gaps, 2 ms */
    struct player_settings settings = {.programs = 5, .calls_max = CALLS_MAX, .rate = 500,
                                       .gap_scale = 1, .start_us = 7};
    assert_int_equal(player_init(&player, &trace, &settings), PLAYER_READY);
    assert_int_equal(player.calls_count, 4 + 1 + 2);
    expect_arrivals(twice_as_slow);
    assert_ptr_equal(player.runs[4].program, &trace.programs[1]);
    assert_int_equal(player_traced(&player, 6), 2);
    assert_true(player_natural_rate(&trace, 2) == 2000);
}

static void test_rate_of_zero_lets_all_arrive_at_once(void **state)
{
    (void)state;
    static const uint64_t at_once[] = {7, 7, 7};
    start(three, &(struct player_settings){.calls_max = CALLS_MAX, .gap_scale = 1, .start_us = 7});
    expect_arrivals(at_once);
    expect_due(0, 7);
    expect_due(1, 7);
    expect_due(3, 7);
}

/* The runs that have arrived and are not over. */
static uint32_t open_runs(void)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < player.runs_count; i++) {
        const struct player_run *run = &player.runs[i];
        assert_true(i < player.runs_arrived ? run->arrival_us < UINT64_MAX
                                            : run->arrival_us == UINT64_MAX);
        count += i < player.runs_arrived && run->calls_left > 0 && !run->failed;
    }
    return count;
}

static void test_session_plays_the_next_run_when_one_ends(void **state)
{
    (void)state;
    start(three, &(struct player_settings){.programs = 4, .sessions = 2, .calls_max = CALLS_MAX,
                                           .gap_scale = 1, .start_us = 7});
    expect_due(0, 7);                               /* a */
    expect_due(1, 7);                               /* b */
    assert_int_equal(player_next_us(&player), UINT64_MAX);
    assert_false(player_over(&player, 1, 100));     /* b goes on */
    expect_due(2, 100);
    assert_int_equal(player.runs_arrived, 2);
    assert_true(player_over(&player, 0, 200));
    expect_due(3, 200);                             /* c */
    assert_true(player_over(&player, 2, 300));
    expect_due(4, 300);                             /* a again, the last one */
    assert_int_equal(open_runs(), 2);
    assert_true(player_over(&player, 3, 400));
    assert_int_equal(open_runs(), 1);
    assert_true(player_over(&player, 4, 500));
    assert_int_equal(player.runs_left, 0);
    assert_int_equal(player.runs[3].arrival_us, 300);
}

static void test_session_goes_on_after_a_failed_run(void **state)
{
    (void)state;
    start(three, &(struct player_settings){.sessions = 1, .calls_max = CALLS_MAX, .gap_scale = 1,
                                           .start_us = 7});
    expect_due(0, 7);
    assert_true(player_fail(&player, 0, 50));
    expect_due(1, 50);
    assert_int_equal(open_runs(), 1);
}

/* Calls end in an order drawn by lot. */
static void test_as_many_runs_are_open_as_there_are_sessions(void **state)
{
    (void)state;
    uint32_t open[16], count = 0, call;
    uint64_t now_us = 0, lot = 1;
    start(three, &(struct player_settings){.programs = 60, .sessions = 5, .calls_max = CALLS_MAX,
                                           .gap_scale = 1, .seed = 3});
    while (player.runs_left > 0) {
        assert_int_equal(open_runs(), player.runs_left < 5 ? player.runs_left : 5);
        while (player_due(&player, now_us, &call)) {
            open[count++] = call;
        }
        lot = lot * UINT64_C(6364136223846793005) + 1;
        uint32_t at = (uint32_t)(lot >> 33) % count;
        player_over(&player, open[at], ++now_us);
        open[at] = open[--count];
    }
    assert_int_equal(player.runs_arrived, 60);
}

static void test_seed_deals_each_program_once_a_cycle(void **state)
{
    (void)state;
    bool differs = false;
    trace_text_load(&trace, three);
    for (uint64_t seed = 1; seed < 20; seed++) {
        uint32_t seen[2] = {0};
        struct player_settings settings = {.programs = 6, .calls_max = CALLS_MAX, .rate = 1,
                                           .gap_scale = 1, .seed = seed};
        assert_int_equal(player_init(&player, &trace, &settings), PLAYER_READY);
        for (uint32_t i = 0; i < 6; i++) {
            seen[i / 3] |= 1u << (player.runs[i].program - trace.programs);
            differs = differs || player.runs[i].program != &trace.programs[i % 3];
        }
        assert_int_equal(seen[0], 7);
        assert_int_equal(seen[1], 7);
        player_free(&player);
    }
    assert_true(differs);
    memset(&player, 0, sizeof player);
}

static void test_gap_is_cut_before_it_is_scaled(void **state)
{
    (void)state;
    start(diamond, &(struct player_settings){.calls_max = CALLS_MAX, .gap_scale = 0.5,
                                             .gap_s_max = 30e-6, .start_us = 1000});
    expect_due(0, 1000 + 30 / 2);       /* 100 */
    assert_false(player_over(&player, 0, 2000));
    expect_due(1, 2000 + 20 / 2);
    expect_due(2, 2000 + 30 / 2);       /* 50 */
}

static void test_too_many_calls_are_refused(void **state)
{
    (void)state;
    trace_text_load(&trace, three);
    assert_int_equal(player_calls(&trace, 4), 5);
    struct player_settings settings = {.programs = 4, .calls_max = 4, .gap_scale = 1};
    assert_int_equal(player_init(&player, &trace, &settings), PLAYER_TOO_MANY_CALLS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_call_opens_after_all_that_it_waits_for, stop),
        cmocka_unit_test_teardown(test_call_put_back_counts_from_when_it_was_due, stop),
        cmocka_unit_test_teardown(test_failed_run_goes_no_further, stop),
        cmocka_unit_test_teardown(test_arrivals_are_stretched_and_repeat, stop),
        cmocka_unit_test_teardown(test_rate_of_zero_lets_all_arrive_at_once, stop),
        cmocka_unit_test_teardown(test_session_plays_the_next_run_when_one_ends, stop),
        cmocka_unit_test_teardown(test_session_goes_on_after_a_failed_run, stop),
        cmocka_unit_test_teardown(test_as_many_runs_are_open_as_there_are_sessions, stop),
        cmocka_unit_test_teardown(test_seed_deals_each_program_once_a_cycle, stop),
        cmocka_unit_test_teardown(test_gap_is_cut_before_it_is_scaled, stop),
        cmocka_unit_test_teardown(test_too_many_calls_are_refused, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
