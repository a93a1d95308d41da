/* SPDX-License-Identifier: MIT */
/*
 * Goal: every command, both HTTP requests, and every way in which a peer of the text port can
 * misbehave: garbage, half lines, no reading, too many of them. A peer that does loses its slot and
 * costs no other peer anything.
 * Method: sockets that are two arrays, of what a peer sent and what it got; a level-triggered pump;
 * a clock that the test moves.
 */
#include "selftest/unit/appliance/textport_rig.h"
#include "selftest/unit/draw.h"

/* ---- HTTP ------------------------------------------------------------------------------------ */

static void test_http_health_and_stats(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    const char *text = ask(peer, "GET /health HTTP/1.0\r\n\r\n");
    assert_starts(text, "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\nContent-Length: ");
    const char *body = strstr(text, "\r\n\r\n");
    assert_non_null(body);
    char length[64];
    snprintf(length, sizeof length, "Content-Length: %zu\r\nConnection: close\r\n\r\n",
             strlen(body + 4));
    assert_contains(text, length);
    assert_starts(body + 4, "ready ");
    assert_true(peer->closed);
    peer = connect_peer();
    assert_contains(ask(peer, "GET /stats HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n"),
                    "\r\n\r\nconnections_accepted 0\n");
    assert_true(peer->closed);
}

static void test_http_health_not_ready_is_503(void **state)
{
    (void)state;
    static const enum health_state not_ready[] = {HEALTH_STARTING, HEALTH_DRAINING, HEALTH_DEGRADED,
                                                  HEALTH_FAILED};
    for (size_t i = 0; i < 4; i++) {
        health.state = not_ready[i];
        assert_starts(ask(connect_peer(), "GET /health HTTP/1.0\n\n"), "HTTP/1.0 503 ");
        assert_starts(ask(connect_peer(), "GET /stats HTTP/1.0\n\n"), "HTTP/1.0 200 ");
    }
}

/* An engine of several is away: the others serve. */
static void test_http_health_of_a_box_that_still_serves_is_200(void **state)
{
    (void)state;
    health.state = HEALTH_DEGRADED;
    health.moves = true;
    assert_starts(ask(connect_peer(), "GET /health HTTP/1.0\n\n"), "HTTP/1.0 200 ");
}

static void test_http_everything_else_is_refused_and_closed(void **state)
{
    (void)state;
    static const struct { const char *request, *start; } cases[] = {
        {"GET / HTTP/1.0\r\n\r\n", "HTTP/1.0 404 "},
        {"GET /healthz HTTP/1.0\r\n\r\n", "HTTP/1.0 404 "},
        {"GET /health?x=1 HTTP/1.0\r\n\r\n", "HTTP/1.0 404 "},
        {"GET /../stats HTTP/1.0\r\n\r\n", "HTTP/1.0 404 "},
        {"GET http://x/health HTTP/1.0\r\n\r\n", "HTTP/1.0 404 "},
        {"GET  HTTP/1.0\r\n\r\n", "HTTP/1.0 404 "},
        {"GET /nothing\r\n", "HTTP/1.0 404 "},
        {"GET /health\r\n", "HTTP/1.0 200 "},
        {"GET /health HTTP/2.0\r\n\r\n", "HTTP/1.0 400 "},
        {"GET /health HTTP/1.0 x\r\n\r\n", "HTTP/1.0 400 "},
        {"POST /health HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc", "HTTP/1.0 400 "},
        {"HEAD /health HTTP/1.1\r\n\r\n", "HTTP/1.0 400 "},
        {"get /health HTTP/1.1\r\n\r\n", "HTTP/1.0 400 "},
        {"PRI * HTTP/2.0\r\n\r\n", "HTTP/1.0 400 "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct peer *peer = connect_peer();
        assert_starts(ask(peer, cases[i].request), cases[i].start);
        assert_true(peer->closed);
    }
}

static void test_http_headers_are_bounded_in_number_length_and_time(void **state)
{
    (void)state;
    struct peer *many = connect_peer(), *wide = connect_peer(), *slow = connect_peer();
    say(many, "GET /health HTTP/1.0\r\n");
    for (uint32_t i = 0; i <= TEXTPORT_HEADERS_MAX; i++) {
        say(many, "A: b\r\n");
    }
    pump(TEXTPORT_HEADERS_MAX + 8);
    many->got[many->got_bytes] = '\0';
    assert_starts(many->got, "HTTP/1.0 400 ");
    assert_true(many->closed);
    char header[600];
    memset(header, 'h', sizeof header);
    header[599] = '\0';
    say(wide, "GET /health HTTP/1.0\r\n");
    assert_starts(ask(wide, header), "HTTP/1.0 400 ");
    assert_true(wide->closed);
    say(slow, "GET /health HTTP/1.0\r\n");
    pump(2);
    for (uint32_t i = 0; i < 4; i++) {          /* a header now and then gains no time */
        now += 1200000;
        say(slow, "A: b\r\n");
        pump(2);
    }
    assert_true(slow->open);
    now += 300000;
    pump(1);
    assert_true(slow->closed);
    assert_int_equal(slow->got_bytes, 0);
    assert_int_equal(stats.text_dropped, 1);
}

static void test_http_peer_that_ends_before_its_headers_is_answered(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    peer->fin = true;
    assert_starts(ask(peer, "GET /health HTTP/1.0\r\nHost: x\r\n"), "HTTP/1.0 200 ");
    assert_true(peer->closed);
}

/* ---- bad peers ------------------------------------------------------------------------------- */

static void test_unknown_and_garbage_lines_are_refused_without_echo(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    static const struct { const char *bytes; uint32_t count; } lines[] = {
        {"nonsense\n", 9}, {"hel\n", 4}, {"helpx\n", 6}, {"help\0\n", 6},
        {"\0\0\0\n", 4}, {"\x16\x03\x01\x02\n", 5}, {"SSH-2.0-x\r\n", 11}, {"\x80\xfe%n%s\n", 7},
        {"AGX1\x01\n", 6}, {"\r\r\n", 3}};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        say_bytes(peer, lines[i].bytes, lines[i].count);
        assert_string_equal(answer(peer), "error unknown command, try help\nend\n");
    }
    assert_starts(ask(peer, "health\n"), "ready");
}

static void test_an_argument_that_a_command_does_not_take_is_refused(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    static const char *const lines[] = {"help me\n", "stats 1\n", "health\tx\n", "quit 1\n",
                                        "agent-check 1\n"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        assert_string_equal(ask(peer, lines[i]), "error this command takes no argument\nend\n");
    }
    assert_starts(ask(peer, "health \n"), "ready");
}

static void test_empty_lines_are_ignored(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    assert_string_equal(ask(peer, "\n\r\n  \n\t\n"), "");
    assert_int_equal(stats.text_requests, 0);
    assert_starts(ask(peer, "health\n"), "ready");
}

static void test_line_of_512_bytes_is_read_and_513_refused(void **state)
{
    (void)state;
    char line[600];
    memset(line, ' ', sizeof line);
    memcpy(line, "health", 6);
    struct peer *peer = connect_peer();
    line[512] = '\r';
    line[513] = '\n';
    say_bytes(peer, line, 514);
    assert_starts(answer(peer), "ready");
    line[512] = ' ';
    say_bytes(peer, line, 514);
    assert_string_equal(answer(peer), "error line too long, at most 512 bytes\nend\n");
    assert_true(peer->closed);
    peer = connect_peer();
    memset(line, 'x', sizeof line);
    for (uint32_t i = 0; i < 20; i++) {         /* 12,000 bytes without a line end */
        say_bytes(peer, line, sizeof line);
    }
    assert_string_equal(answer(peer), "error line too long, at most 512 bytes\nend\n");
    assert_true(peer->closed);
}

static void test_half_line_is_dropped_after_its_total_time(void **state)
{
    (void)state;
    struct peer *peer = connect_peer(), *other = connect_peer();
    pump(1);
    for (uint32_t i = 0; i < 5; i++) {          /* a byte a second gains no time */
        say(peer, "h");
        pump(1);
        now += 1000000;
    }
    assert_true(peer->open);
    assert_starts(ask(other, "health\n"), "ready");
    assert_true(peer->closed);
    assert_int_equal(peer->got_bytes, 0);
    assert_int_equal(stats.text_dropped, 1);
    assert_true(other->open);
}

static void test_idle_peer_is_closed_and_not_counted(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    pump(1);
    now += TEXTPORT_IDLE_US - 1;
    assert_starts(ask(peer, "health\n"), "ready");
    assert_int_equal(textport_next_us(&port, now), now + TEXTPORT_IDLE_US);
    now += TEXTPORT_IDLE_US;
    pump(1);
    assert_true(peer->closed);
    assert_int_equal(stats.text_dropped, 0);
    assert_int_equal(textport_next_us(&port, now), UINT64_MAX);
}

static void test_unread_answer_is_dropped_after_its_total_time(void **state)
{
    (void)state;
    struct peer *peer = connect_peer(), *other = connect_peer();
    peer->room = 10;
    say(peer, "stats\nhealth\n");
    pump(3);
    assert_int_equal(peer->got_bytes, 10);
    assert_int_equal(peer->interest, WORLD_WRITABLE);
    for (uint32_t i = 0; i < 9; i++) {          /* a byte a second gains no time */
        now += 1000000;
        peer->room = 1;
        pump(1);
    }
    assert_true(peer->open);
    now += 1000000;
    assert_starts(ask(other, "health\n"), "ready");
    assert_true(peer->closed);
    assert_int_equal(stats.text_dropped, 1);
}

static void test_slow_reader_gets_the_whole_snapshot(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    peer->chunk = 7;
    say(peer, "stats\n");
    pump(2);
    stats.calls_accepted = 99;                  /* later than the snapshot */
    const uint32_t got = peer->got_bytes;
    pump(400);
    peer->got[peer->got_bytes] = '\0';
    assert_true(got < peer->got_bytes);
    assert_ends(peer->got, "\nend\n");
    assert_contains(peer->got, "calls_accepted 12\n");
}

static void test_ninth_peer_is_closed_at_once_and_counted(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 9; i++) {
        connect_peer();
    }
    pump(2);
    for (uint32_t i = 0; i < 8; i++) {
        assert_true(peers[i].open);
    }
    assert_true(peers[8].closed);
    assert_int_equal(stats.text_refused, 1);
    ask(&peers[3], "quit\n");
    assert_starts(ask(connect_peer(), "health\n"), "ready");
}

/* Seven telnets that people have left open, and one that is in the middle of a line: a probe of
 * health takes the place of the one that has been idle longest. */
static void test_probe_takes_the_place_of_the_peer_that_is_idle_longest(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        connect_peer();
    }
    pump(1);
    say(&peers[0], "hea");
    now += TEXTPORT_GRACE_US;
    assert_starts(ask(&peers[1], "health\n"), "ready");
    now += TEXTPORT_GRACE_US;
    struct peer *probe = connect_peer();
    assert_starts(ask(probe, "GET /health HTTP/1.0\r\n\r\n"), "HTTP/1.0 200");
    assert_true(peers[0].open && peers[1].open && peers[2].closed && peers[3].open);
    assert_int_equal(stats.text_refused, 0);
    assert_starts(ask(&peers[0], "lth\n"), "ready");
}

/* Half a line, half a request, an answer that is not read: each keeps its place for a second. */
static void test_probe_takes_the_place_of_a_peer_that_dawdles(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        say(connect_peer(), i < 3 ? "hea" : i < 6 ? "GET /health HTTP/1.0\r\nA" : "stats\n");
        peers[i].room = 0;
    }
    pump(3);
    struct peer *early = connect_peer();
    pump(2);
    assert_true(early->closed);
    now += TEXTPORT_GRACE_US;
    assert_starts(ask(connect_peer(), "GET /health HTTP/1.0\r\n\r\n"), "HTTP/1.0 200");
    assert_int_equal(stats.text_refused, 1);
    assert_int_equal(stats.text_dropped, 1);
}

static void test_flood_is_accepted_a_few_a_pass(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 30; i++) {
        connect_peer();
    }
    pump(1);
    assert_int_equal(accepted_count, TEXTPORT_ACCEPTS_PER_PASS_MAX);
    pump(3);
    assert_int_equal(accepted_count, 30);
    assert_int_equal(stats.text_refused, 22);
}

static void test_no_descriptors_pauses_the_listener(void **state)
{
    (void)state;
    accepts_full = 1;
    struct peer *peer = connect_peer();
    pump(3);
    assert_false(peer->open);
    assert_int_equal(listener_interest, 0);
    assert_int_equal(textport_next_us(&port, now), now + 1000000);
    now += 1000000;
    pump(1);
    assert_true(peer->open);
    assert_int_equal(listener_interest, WORLD_READABLE);
}

/* Also one whose listener waits for a descriptor. */
static void test_who_leaves_accepts_nothing_and_answers_who_is_there(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    pump(1);
    accepts_full = 1;
    struct peer *late = connect_peer();
    pump(1);
    textport_leave(&port);
    textport_leave(&port);
    assert_int_equal(listener_interest, 0);
    now += 2000000;
    assert_starts(ask(peer, "health\n"), "ready");
    assert_false(late->open);
    textport_check(&port);
}

static void test_telnet_sequences_are_skipped(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    static const char bytes[] = "\xff\xfd\x03\xff\xfb\x18"          /* DO, WILL */
                                "he\xff\xfa\x18\x01health\n\xff\xff\xff\xf0"    /* SB ... SE */
                                "al\xff\xf1th\r\n";                 /* NOP */
    peer->chunk = 1;
    say_bytes(peer, bytes, sizeof bytes - 1);
    pump(60);
    peer->chunk = UINT32_MAX;
    assert_starts(answer(peer), "");
    pump(60);
    assert_int_equal(stats.text_requests, 1);
    assert_starts(ask(peer, "health\n"), "ready");
    assert_string_equal(ask(peer, "health\xff\xff\n"), "error unknown command, try help\nend\n");
}

static void test_endless_telnet_sequence_is_a_half_line(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    say(peer, "\xff\xfa\x18");
    for (uint32_t i = 0; i < 5; i++) {
        say(peer, "xxxxxxxx\n");
        pump(2);
        now += 1000000;
    }
    assert_true(peer->open);
    pump(1);
    assert_true(peer->closed);
    assert_int_equal(stats.text_requests, 0);
}

static void test_pipelined_lines_are_answered_one_a_pass(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    say(peer, "kv\nkv\nkv\nhea");
    pump(2);                                    /* accepted, then read */
    assert_int_equal(stats.text_requests, 1);
    assert_int_equal(textport_next_us(&port, now), 0);
    pump(2);
    assert_int_equal(stats.text_requests, 3);
    assert_int_equal(textport_next_us(&port, now), now + TEXTPORT_LINE_US);
    assert_starts(ask(peer, "lth\n"), "ready");
}

static void test_peer_that_ends_gets_its_answers_first(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    peer->fin = true;
    say(peer, "health\nkv\nhalf");
    const char *text = answer(peer);
    assert_starts(text, "ready");
    assert_contains(text, "blocks_free 16\n");
    assert_true(peer->closed);
    assert_int_equal(stats.text_dropped, 0);
}

static void test_reset_frees_the_slot(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    peer->room = 3;
    say(peer, "stats\n");
    pump(2);
    peer->reset = true;
    pump(1);
    assert_true(peer->closed);
    assert_int_equal(textport_next_us(&port, now), UINT64_MAX);
}

static void test_random_bytes_never_break_an_invariant(void **state)
{
    (void)state;
    uint64_t random = 88172645463325252u;
    static const char alphabet[] = "hkv \r\n\n\xff\xfa\xf0GET /health HTTP/1.0\nquit";
    for (uint32_t round = 0; round < 2000; round++) {
        peers_count = accepted_count = 0;
        memset(peers, 0, sizeof peers[0] * 2);
        struct peer *peer = connect_peer();
        peer->chunk = 1 + round % 37;
        for (uint32_t i = 0; i < 200; i++) {
            draw_next(&random);
            char byte = (random & 1) ? alphabet[(random >> 8) % (sizeof alphabet - 1)]
                                     : (char)(random >> 8);
            say_bytes(peer, &byte, 1);
        }
        peer->fin = (random & 2) != 0;
        pump(30);
        peer->reset = true;
        pump(1);
        assert_true(peer->closed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_http_health_and_stats, set_up),
        cmocka_unit_test_setup(test_http_health_not_ready_is_503, set_up),
        cmocka_unit_test_setup(test_http_health_of_a_box_that_still_serves_is_200, set_up),
        cmocka_unit_test_setup(test_http_everything_else_is_refused_and_closed, set_up),
        cmocka_unit_test_setup(test_http_headers_are_bounded_in_number_length_and_time, set_up),
        cmocka_unit_test_setup(test_http_peer_that_ends_before_its_headers_is_answered, set_up),
        cmocka_unit_test_setup(test_probe_takes_the_place_of_the_peer_that_is_idle_longest,
                               set_up),
        cmocka_unit_test_setup(test_unknown_and_garbage_lines_are_refused_without_echo, set_up),
        cmocka_unit_test_setup(test_an_argument_that_a_command_does_not_take_is_refused, set_up),
        cmocka_unit_test_setup(test_empty_lines_are_ignored, set_up),
        cmocka_unit_test_setup(test_line_of_512_bytes_is_read_and_513_refused, set_up),
        cmocka_unit_test_setup(test_half_line_is_dropped_after_its_total_time, set_up),
        cmocka_unit_test_setup(test_idle_peer_is_closed_and_not_counted, set_up),
        cmocka_unit_test_setup(test_unread_answer_is_dropped_after_its_total_time, set_up),
        cmocka_unit_test_setup(test_slow_reader_gets_the_whole_snapshot, set_up),
        cmocka_unit_test_setup(test_ninth_peer_is_closed_at_once_and_counted, set_up),
        cmocka_unit_test_setup(test_probe_takes_the_place_of_a_peer_that_dawdles, set_up),
        cmocka_unit_test_setup(test_flood_is_accepted_a_few_a_pass, set_up),
        cmocka_unit_test_setup(test_no_descriptors_pauses_the_listener, set_up),
        cmocka_unit_test_setup(test_who_leaves_accepts_nothing_and_answers_who_is_there, set_up),
        cmocka_unit_test_setup(test_telnet_sequences_are_skipped, set_up),
        cmocka_unit_test_setup(test_endless_telnet_sequence_is_a_half_line, set_up),
        cmocka_unit_test_setup(test_pipelined_lines_are_answered_one_a_pass, set_up),
        cmocka_unit_test_setup(test_peer_that_ends_gets_its_answers_first, set_up),
        cmocka_unit_test_setup(test_reset_frees_the_slot, set_up),
        cmocka_unit_test_setup(test_random_bytes_never_break_an_invariant, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
