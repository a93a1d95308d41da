/* SPDX-License-Identifier: MIT */
/*
 * Goal: `agx trace` reads a text port exactly: whole lines become events, other text is passed
 * over, and a peer that says too much or too little is an error.
 * Method: the test is the text port, at the other end of a socket pair.
 */
#include "selftest/unit/test.h"

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/agx/command.h"
#include "tools/agx/watch/events.h"

#define WALL " 2026-11-24T12:03:07.123Z "

static struct events events;
static int port;

static int set_up(void **state)
{
    int ends[2];
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    events = (struct events){
        .port = {.descriptor = ends[0], .address = "test", .page = malloc(TEXT_PORT_BYTES_MIN),
                 .page_max = TEXT_PORT_BYTES_MIN, .page_limit = TEXT_PORT_BYTES_MIN}};
    events.line = events.port.page;
    port = ends[1];
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    events_close(&events);
    close(port);
    return 0;
}

static void answer(const char *text)
{
    assert_int_equal(write(port, text, strlen(text)), strlen(text));
}

static uint32_t take_all(struct event *event)
{
    uint64_t number;
    uint32_t count = 0;
    while (events_take(&events, &number, event)) {
        count++;
    }
    return count;
}

static void test_question_and_answer(void **state)
{
    char asked[64] = {0};
    struct event event;
    uint64_t number = 0;
    (void)state;
    events.next = 12;
    answer("12 900" WALL "ran call=3 id=18446744073709551615 program=1:a5b60001 row=4 us=77 fed=5 "
           "tokens=8\n"
           "13 901" WALL "program_ended program=0:00000000\n"
           "14 902" WALL "engine_lost\n"
           "next=15 end=20 lost=0 now_us=903 now=2026-11-24T12:03:07.123Z\nend\n");
    assert_int_equal(events_ask(&events), EXIT_COMPLETE);
    assert_true(read(port, asked, sizeof asked - 1) > 0);
    assert_string_equal(asked, "events 12\n");
    assert_true(events_take(&events, &number, &event));
    assert_int_equal(number, 12);
    assert_int_equal(event.time_us, 900);
    assert_int_equal(event.what.kind, EVENT_RAN);
    assert_int_equal(event.call, 3);
    assert_true(event.client_call_id == UINT64_MAX);
    assert_int_equal(event.program, 1);
    assert_memory_equal(event.program_tag, "\xa5\xb6\x00\x01", 4);
    for (uint32_t i = 0; i < 4; i++) {
        static const uint32_t values[] = {4, 77, 5, 8};
        assert_int_equal(event.what.values[i], values[i]);
    }
    assert_true(events_take(&events, &number, &event));
    assert_int_equal(event.what.kind, EVENT_PROGRAM_ENDED);
    assert_int_equal(event.call, CALL_NONE);
    assert_true(events_take(&events, &number, &event));
    assert_int_equal(number, 14);
    assert_int_equal(event.program, EVENT_PROGRAM_NONE);
    assert_int_equal(events.next, 12);      /* not before the last line */
    assert_false(events_take(&events, &number, &event));
    assert_int_equal(events.next, 15);
    assert_int_equal(events.end, 20);
    assert_int_equal(events.now_us, 903);
}

static void test_lines_that_are_no_event_are_passed_over(void **state)
{
    static const char *const lines[] = {
        "12 900 engine_lost", "12 900 2026-11-24 engine_lost",
        "12 900 2026-11-24T12:03:07.12aZ engine_lost", "", " ", "12", "12 900", "12 900 ",
        "12 900" WALL "nonsense", "x 900" WALL "engine_lost", "12 x" WALL "engine_lost",
        "-1 900" WALL "engine_lost", "12 900" WALL "engine_lost ", "12 900" WALL "engine_los",
        "12 900" WALL "engine_lost call=1", "12 900" WALL "step_ended",
        "12 900" WALL "step_ended us=", "12 900" WALL "step_ended us=4294967296",
        "12 900" WALL "step_ended us=1 us=2", "12 900" WALL "finished reason=1 code=0 tokens=3",
        "18446744073709551616 900" WALL "engine_lost",
        "12 900" WALL "paused call=1 id=2 program=1:a5",
        "12 900" WALL "paused call=1 id=2 program=1:a5b6000g",
        "12 900" WALL "paused call=1 id=2 program=1:",
        "12 900" WALL "paused call=1 program=1:a5b60001",
        "12 900" WALL "paused call=4294967296 id=2", "12 900" WALL "paused id=2 call=1",
        "next=5", "next=5 end=5 lost=0 now_us=", "next=x end=5 lost=0 now_us=3"};
    struct event event;
    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        char text[256];
        snprintf(text, sizeof text, "%s\nend\n", lines[i]);
        answer(text);
        assert_int_equal(events_ask(&events), EXIT_COMPLETE);
        assert_int_equal(take_all(&event), 0);
        assert_int_equal(events.next, 0);
    }
    uint64_t number = 0;
    answer("rubbish\n7 8" WALL "engine_lost\n\xff\xfe\nend\n");
    assert_int_equal(events_ask(&events), EXIT_COMPLETE);
    assert_true(events_take(&events, &number, &event));
    assert_int_equal(event.time_us, 8);
    assert_int_equal(take_all(&event), 0);
}

/* Asks, and returns the output on stderr meanwhile. */
static const char *ask_and_hear(int expected)
{
    static char heard[512];
    FILE *file = tmpfile();
    int before = dup(STDERR_FILENO);
    assert_non_null(file);
    assert_int_equal(dup2(fileno(file), STDERR_FILENO), STDERR_FILENO);
    int code = events_ask(&events);
    assert_int_equal(dup2(before, STDERR_FILENO), STDERR_FILENO);
    rewind(file);
    heard[fread(heard, 1, sizeof heard - 1, file)] = '\0';
    fclose(file);
    close(before);
    assert_int_equal(code, expected);
    return heard;
}

static void test_refusal_is_told(void **state)
{
    struct event event;
    (void)state;
    answer("error no events are kept, limits.events is 0\nend\n");
    assert_string_equal(ask_and_hear(EXIT_REFUSED),
                        "agx: test: error no events are kept, limits.events is 0\n");
    assert_int_equal(take_all(&event), 0);
}

static void test_refusal_does_not_move_the_cursor(void **state)
{
    struct event event;
    (void)state;
    answer("error \x1b[2J\r\xc2\x9b" "1m\xff\nnext=9 end=9 lost=0 now_us=1\nend\n");
    assert_string_equal(ask_and_hear(EXIT_REFUSED), "agx: test: error .[2J..1m.\n");
    assert_int_equal(take_all(&event), 0);
    assert_int_equal(events.next, 0);
}

static void test_peer_that_leaves_in_the_middle(void **state)
{
    struct event event;
    (void)state;
    answer("7 8 engine_lost\nnext=");
    shutdown(port, SHUT_WR);
    assert_int_equal(events_ask(&events), EXIT_INCOMPLETE);
    assert_int_equal(take_all(&event), 0);
}

static void test_endless_answer_is_a_protocol_error(void **state)
{
    static char flood[TEXT_PORT_BYTES_MIN + 1];
    int bytes = 2 * TEXT_PORT_BYTES_MIN;
    (void)state;
    memset(flood, 'x', sizeof flood);
    assert_int_equal(setsockopt(port, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes), 0);
    ssize_t sent = write(port, flood, sizeof flood);
    if (sent < (ssize_t)sizeof flood) {
        print_message("skipped: the system buffers %zd bytes only\n", sent);
        skip();
    }
    assert_int_equal(events_ask(&events), EXIT_PROTOCOL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_question_and_answer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lines_that_are_no_event_are_passed_over, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_refusal_is_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refusal_does_not_move_the_cursor, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_peer_that_leaves_in_the_middle, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_endless_answer_is_a_protocol_error, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
