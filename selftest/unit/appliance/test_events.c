/* SPDX-License-Identifier: MIT */
/*
 * Goal: `events` and `ended` answer page by page, from a number or a time of day on, say what is
 * lost, and always fit.
 * Method: the port over sockets in memory; the event log is filled by hand.
 */
#include "selftest/unit/appliance/textport_rig.h"

#define NOW  " now=2026-11-24T12:03:07.123Z"
#define REFUSAL "error expected a number or a time of day, like 12:03 or 12:03:07\nend\n"
#define THEN " 2026-11-24T12:03:06.123Z "       /* of the first hundredths of that second */

static void note_steps(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        event_log_note(&event_log, 500 + event_log.next, (struct event_what){EVENT_STEP_ENDED,
                                                                             {77}});
    }
}

static uint32_t count_lines(const char *text)
{
    uint32_t lines = 0;
    for (; (text = strchr(text, '\n')) != NULL; text++) {
        lines++;
    }
    return lines;
}

static void test_events_are_lines_with_numbers(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    assert_string_equal(ask(peer, "events\n"),
                        "next=0 end=0 lost=0 now_us=1000000" NOW "\nend\n");
    uint32_t slot = call_take(&calls, 0);
    struct call *call = &calls.calls[slot];
    call->client_call_id = 17;
    memset(call->program_id, 0xa5, sizeof call->program_id);
    call->program = 2;
    event_log_note_program(&event_log, 11, 2, call->program_id,
                         (struct event_what){.kind = EVENT_PROGRAM_STARTED});
    event_log_note_call(&event_log, 12, call, (struct event_what){EVENT_RAN, {3, 900, 5, 8}});
    event_log_note(&event_log, 13, (struct event_what){.kind = EVENT_ENGINE_LOST});
    assert_string_equal(ask(peer, "events\n"),
                        "0 11" THEN "program_started program=2:a5a5a5a5\n"
                        "1 12" THEN "ran call=0 id=17 program=2:a5a5a5a5 row=3 us=900 fed=5 "
                        "tokens=8\n"
                        "2 13" THEN "engine_lost\n"
                        "next=3 end=3 lost=0 now_us=1000000" NOW "\nend\n");
    assert_string_equal(ask(peer, " EVENTS \t 2 \n"),
                        "2 13" THEN "engine_lost\n"
                        "next=3 end=3 lost=0 now_us=1000000" NOW "\nend\n");
}

static void test_events_go_on_page_by_page_and_say_what_is_lost(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    note_steps(128 + 40);
    const char *text = ask(peer, "events 7\n");
    uint32_t lines = count_lines(text) - 2;
    assert_true(lines >= 15 && lines < 128);    /* the page has 17,056 bytes */
    assert_starts(text, "40 540" THEN "step_ended us=77\n");
    char line[128];
    snprintf(line, sizeof line, "\nnext=%u end=168 lost=33 now_us=1000000" NOW "\nend\n",
             40 + lines);
    assert_ends(text, line);
    for (uint32_t next = 40 + lines; next < 168; next += count_lines(text) - 2) {
        snprintf(line, sizeof line, "events %u\n", next);
        text = ask(peer, line);
        snprintf(line, sizeof line, "%u %u" THEN "step_ended us=77\n", next, 500 + next);
        assert_starts(text, line);
    }
    assert_ends(text, "\nnext=168 end=168 lost=0 now_us=1000000" NOW "\nend\n");
    /* From the oldest that is kept, and from the one before it. */
    for (uint32_t lost = 0; lost <= 1; lost++) {
        snprintf(line, sizeof line, "events %u\n", 40 - lost);
        text = ask(peer, line);
        assert_starts(text, "40 540" THEN "step_ended us=77\n");
        assert_contains(text, lost == 0 ? " lost=0 " : " lost=1 ");
    }
    /* Without a number: the last ones. */
    text = ask(peer, "events\n");
    assert_int_equal(count_lines(text) - 2, lines);
    assert_contains(text, "\n167 667" THEN "step_ended us=77\nnext=168 ");
}

static void test_events_from_anywhere_are_answered_or_refused(void **state)
{
    static const char *const beyond[] = {"events 3\n", "events 4\n",
                                         "events 18446744073709551615\n",
                                         "events 000000000000000000000000000000000003\n"};
    static const char *const wrong[] = {"events 18446744073709551616\n", "events -1\n",
                                        "events 1 2\n", "events 0x1\n", "events 1e3\n",
                                        "events x\n", "ended x\n",
                                        "events 99999999999999999999999999999999999999\n"};
    (void)state;
    struct peer *peer = connect_peer();
    note_steps(3);
    for (size_t i = 0; i < sizeof beyond / sizeof beyond[0]; i++) {
        assert_string_equal(ask(peer, beyond[i]),
                            "next=3 end=3 lost=0 now_us=1000000" NOW "\nend\n");
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_string_equal(ask(peer, wrong[i]), REFUSAL);
    }
    assert_string_equal(ask(peer, "eventsx\n"), "error unknown command, try help\nend\n");
    assert_string_equal(ask(peer, "event\n"), "error unknown command, try help\nend\n");
    assert_true(peer->open);
    event_log = (struct event_log){0};
    assert_string_equal(ask(peer, "events 0\n"),
                        "error no events are kept, limits.events is 0\nend\n");
}

static void test_events_from_a_time_of_day_on(void **state)
{
    static const char *const wrong[] = {"events 24:00\n", "events 12:60\n", "events 12:03:60\n",
                                        "events 12:3\n", "events 12-03\n", "events 12:03:\n",
                                        "events :03\n", "events 12:03:07.5\n"};
    (void)state;
    struct peer *peer = connect_peer();
    now = UINT64_C(100000) * 1000000;                   /* since 08:16:27 of the day before */
    for (uint64_t minute = 0; minute < 10; minute++) {  /* the last one at 12:03:07 */
        event_log_note(&event_log, now - (9 - minute) * 60000000,
                       (struct event_what){.kind = EVENT_ENGINE_LOST});
    }
    assert_starts(ask(peer, "events 12:00\n"), "6 99820000000 2026-11-24T12:00:07.123Z ");
    assert_starts(ask(peer, "events 12:00:07\n"), "6 99820000000 ");
    assert_starts(ask(peer, "events 12:00:08\n"), "7 99880000000 2026-11-24T12:01:07.123Z ");
    assert_starts(ask(peer, "events 12:03:08\n"), "0 ");   /* yesterday's */
    assert_starts(ask(peer, "events 08:00\n"), "0 ");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_string_equal(ask(peer, wrong[i]), REFUSAL);
    }
}

static void test_ended_calls_say_who_and_how_long(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    struct call *call = &calls.calls[call_take(&calls, 0)];
    *call = (struct call){.client_call_id = 17, .domain = (UINT64_C(1) << 32) | 1000,
                          .program_id = {0xa5, 0xb6}, .finish = CALL_FINISH_FAILED,
                          .status = STATUS_DEVICE_FAILED, .arrived_us = 100, .first_token_us = 350,
                          .wait_us = 50, .service_us = 600, .queue = 2, .prompt_tokens = 33,
                          .cached_tokens = 16, .generated_tokens = 4, .preemptions = 1000,
                          .draft_tokens = 90000, .draft_tokens_agreed = 70000};
    assert_string_equal(ask(peer, "ended\n"),
                        "next=0 end=0 lost=0 now_us=1000000" NOW "\nend\n");
    event_log_note_ended(&event_log, 900, call);
    char code[16];
    snprintf(code, sizeof code, "code=%u", status_wire(STATUS_DEVICE_FAILED));
    const char *text = ask(peer, "ended\n");
    assert_starts(text, "0 900" THEN "failed who=user:1000 program=a5b60000 id=17 code=");
    assert_contains(text, code);
    assert_contains(text, " queue=2 engine=0 prompt=33 cached=16 output=4 first_us=250 wait_us=50 "
                          "service_us=600 total_us=800 preempted=255 agreed=65535\nnext=1 ");
    for (uint32_t i = 0; i < 40; i++) {
        event_log_note_ended(&event_log, 910 + i, call);
    }
    text = ask(peer, "ended 3\n");
    assert_starts(text, "9 918" THEN);                 /* 32 are kept */
    assert_ends(text, "\nnext=41 end=41 lost=6 now_us=1000000" NOW "\nend\n");
    assert_starts(ask(peer, "ended 12:03:06\n"), "9 918" THEN);
    event_log.ended_capacity = 0;
    assert_string_equal(ask(peer, "ended\n"),
                        "error no ended calls are kept, limits.ended is 0\nend\n");
}

static void test_ended_calls_of_the_longest_lines_fit_the_page(void **state)
{
    (void)state;
    memset(tenants[0].name, 'x', sizeof tenants[0].name - 1);
    tenants[0].domain = UINT64_MAX;
    memset(event_log.ended, 0xff, 32 * sizeof *event_log.ended);
    event_log.ended_next = UINT64_MAX - 1000;
    now = UINT64_MAX - 20 * TEXTPORT_IDLE_US;
    const char *text = ask(connect_peer(), "ended 0\n");
    assert_contains(text, " - who=xxxxxxxxxxxxxxxx program=ffffffff id=18446744073709551615 ");
    assert_ends(text, "\nend\n");
    assert_null(strstr(text, "cut"));
}

static void test_events_of_the_longest_lines_fit_the_page(void **state)
{
    (void)state;
    uint32_t slot = call_take(&calls, 0);
    calls.calls[slot].client_call_id = UINT64_MAX;
    calls.calls[slot].program = UINT32_MAX - 1;
    event_log.next = UINT64_MAX - 1000;           /* numbers of 20 digits */
    for (uint32_t i = 0; i < 128; i++) {
        uint32_t kind = i % EVENT_KINDS_COUNT;
        event_log_note_call(&event_log, UINT64_MAX, &calls.calls[slot],
                          (struct event_what){kind, {UINT32_MAX, UINT32_MAX, UINT32_MAX,
                                                     UINT32_MAX}});
        event_log.events[(event_log.next - 1) & (event_log.capacity - 1)].call = CALL_NONE - 1;
    }
    now = UINT64_MAX - 20 * TEXTPORT_IDLE_US;
    const char *text = ask(connect_peer(), "events 0\n");
    assert_null(strstr(text, "cut"));
    assert_ends(text, "\nend\n");
    assert_true(count_lines(text) > 15);
    ptrdiff_t longest = 0;
    for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1) {
        ptrdiff_t bytes = strchr(line, '\n') + 1 - line;
        longest = bytes > longest ? bytes : longest;
    }
    assert_true(longest == 217);                /* EVENT_BYTES_MAX of events.c: 224 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_events_are_lines_with_numbers, set_up),
        cmocka_unit_test_setup(test_events_go_on_page_by_page_and_say_what_is_lost, set_up),
        cmocka_unit_test_setup(test_events_from_anywhere_are_answered_or_refused, set_up),
        cmocka_unit_test_setup(test_events_from_a_time_of_day_on, set_up),
        cmocka_unit_test_setup(test_ended_calls_say_who_and_how_long, set_up),
        cmocka_unit_test_setup(test_ended_calls_of_the_longest_lines_fit_the_page, set_up),
        cmocka_unit_test_setup(test_events_of_the_longest_lines_fit_the_page, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
