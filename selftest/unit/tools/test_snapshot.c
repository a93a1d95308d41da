/* SPDX-License-Identifier: MIT */
/*
 * Goal: `agx top` joins the pages of a text port: calls to programs and to clients; sorts by each
 * key; keeps lines within the width; and no name does harm to a terminal.
 * Method: the test is the text port, in a thread at the other end of a socket pair.
 */
#include "selftest/unit/test.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/agx/command.h"
#include "tools/agx/watch/frame.h"

#define PROGRAMS_HEAD "slot id service_ms wait_ms open blocks tenant class_name client threads\n"
#define CALLS_HEAD    "slot state program queue prompt output wait_ms service_ms blocks conn why\n"
#define CLIENTS_HEAD  "slot state address client affinity\n"

static const char *pages[5];        /* in the order in which they are asked for */
static struct snapshot before, now;
static struct text_port port;
static int far_end;

static void *serve(void *unused)
{
    char line[64];
    for (uint32_t i = 0; i < 5; i++) {
        uint32_t bytes = 0;
        while (bytes == 0 || line[bytes - 1] != '\n') {
            assert_int_equal(read(far_end, line + bytes, 1), 1);
            bytes++;
        }
        assert_int_equal(write(far_end, pages[i], strlen(pages[i])), strlen(pages[i]));
        assert_int_equal(write(far_end, "end\n", 4), 4);
    }
    return unused;
}

static void take(struct snapshot *snapshot)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, serve, NULL), 0);
    assert_int_equal(snapshot_take(snapshot, &port), EXIT_COMPLETE);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static int set_up(void **state)
{
    int ends[2];
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    far_end = ends[1];
    port = (struct text_port){.descriptor = ends[0], .address = "test",
                              .page = malloc(TEXT_PORT_BYTES_MIN),
                              .page_max = TEXT_PORT_BYTES_MIN, .page_limit = TEXT_PORT_BYTES_MIN};
    pages[0] = "ready last_step_ms=1 uptime_s=3661\n";
    pages[1] = "calls_running 1\nkv_blocks_used 5\nkv_blocks_total 10\n";
    pages[2] = PROGRAMS_HEAD
        "0 aaaaaaaa 100 10 2 7 research reviewer agents 4 5\n"
        "1 bbbbbbbb 900 0 0 0 user:1000 - - -\n";
    pages[3] = CALLS_HEAD
        "4 running 0 2 33 10 5 50 3 8 -\n"
        "5 queued 0 1 40 0 70 0 4 9 batch\n";
    pages[4] = CLIENTS_HEAD
        "8 open 10.0.0.7 alice agents-7\n"
        "9 open 10.0.0.8 - x\n";
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    text_port_close(&port);
    close(far_end);
    snapshot_free(&before);
    snapshot_free(&now);
    return 0;
}

static char *drawn(const struct columns_order *order, uint32_t columns, uint32_t lines)
{
    static char text[1 << 16];
    const struct frame frame = {.address = "test", .columns = columns, .lines = lines};
    FILE *file = fmemopen(text, sizeof text, "w");
    assert_non_null(file);
    frame_draw(&frame, order, &now, &before, file);
    fclose(file);
    return text;
}

static void test_calls_are_joined_to_programs_and_clients(void **state)
{
    (void)state;
    take(&now);
    assert_int_equal(now.programs_count, 2);
    assert_int_equal(now.rows_count, 4);
    const struct snapshot_row *program = &now.rows[0], *call = &now.rows[2];
    assert_string_equal(program->state, "running");
    assert_int_equal(program->level, 1);
    assert_int_equal(program->running, 1);
    assert_int_equal(program->wait_ms, 10 + 5 + 70);
    assert_string_equal(program->client, "x");
    assert_string_equal(call->who, "alice");
    assert_string_equal(call->client, "agents-7");
    assert_string_equal(call->address, "10.0.0.7");
    assert_string_equal(now.rows[3].who, "research");       /* no key: the program's domain */
    assert_string_equal(now.rows[3].state, "batch");
    assert_string_equal(now.rows[1].state, "idle");
}

static void test_rates_are_of_the_time_between(void **state)
{
    (void)state;
    take(&before);
    pages[3] = CALLS_HEAD "4 running 0 2 33 30 5 50 3 8 -\n" "5 queued 0 1 41 6 70 0 4 9 kv\n";
    take(&now);
    before.taken_us = 1000000;
    now.taken_us = 3000000;
    snapshot_compare(&now, &before);
    assert_int_equal(now.rows[2].output_per_s, 10);
    assert_int_equal(now.rows[3].output_per_s, 3);          /* another call in its slot */
    assert_int_equal(now.rows[0].output_per_s, 13);
}

static void assert_order(const char *text, const char *first, const char *second)
{
    const char *a = strstr(text, first), *b = strstr(text, second);
    assert_true(a != NULL && b != NULL && a < b);
}

static void test_each_key_sorts(void **state)
{
    (void)state;
    take(&now);
    struct columns_order order = {VIEW_PROGRAMS, 's'};
    assert_order(drawn(&order, 140, 0), "aaaaaaaa", "bbbbbbbb");    /* more service, none open */
    order.key = 'w';
    assert_order(drawn(&order, 140, 0), "aaaaaaaa", "bbbbbbbb");
    assert_order(drawn(&order, 140, 0), "  call 5", "  call 4");
    order.key = 'u';
    assert_order(drawn(&order, 140, 0), "research", "user:1000");
    order = (struct columns_order){VIEW_CALLS, 'k'};
    assert_order(drawn(&order, 140, 0), "call 5", "call 4");
    assert_null(strstr(drawn(&order, 140, 0), "aaaaaaaa"));
    assert_false(columns_has_key('x'));
    assert_false(columns_has_key('\0'));
}

static void test_a_picture_keeps_to_its_size(void **state)
{
    (void)state;
    take(&now);
    const struct columns_order order = {VIEW_PROGRAMS, 's'};
    for (uint32_t columns = 1; columns < FRAME_COLUMNS_MAX; columns += 7) {
        const char *text = drawn(&order, columns, FRAME_HEAD_LINES + 3);
        uint32_t lines = 0;
        for (const char *at = text; *at != '\0'; at = strchr(at, '\n') + 1, lines++) {
            assert_true((uint32_t)(strchr(at, '\n') - at) <= columns);
        }
        assert_int_equal(lines, FRAME_HEAD_LINES + 3);
    }
    assert_non_null(strstr(drawn(&order, 80, FRAME_HEAD_LINES + 3), "... 2 more\n"));
    assert_non_null(strstr(drawn(&order, 80, 24), "[####################....................]"));
}

static void test_hostile_names_are_plain_text(void **state)
{
    (void)state;
    pages[0] = "\x1b[2Jready\x9b\n";
    pages[2] = PROGRAMS_HEAD "0 \x1b]0;a\x07 100 10 2 7 \xe2\x80\xae\x1b[31m r\x08 \xff\xfe 4\n";
    pages[4] = CLIENTS_HEAD "8 open \x1b[6n \xc2\x9b" "1m \x1bP1\n";
    take(&now);
    const struct columns_order order = {VIEW_PROGRAMS, 's'};
    for (const char *at = drawn(&order, 200, 0); *at != '\0'; at++) {
        assert_true(*at == '\n' || (*at >= ' ' && *at <= '~'));
    }
}

static void test_a_page_without_a_column_or_a_line_is_no_harm(void **state)
{
    (void)state;
    pages[1] = "x\n";
    pages[2] = "slot\n1\n\n";
    pages[3] = "slot\n";
    pages[4] = "a b\n";
    take(&now);
    assert_int_equal(now.rows_count, 1);
    const struct columns_order order = {VIEW_PROGRAMS, 's'};
    assert_non_null(strstr(drawn(&order, 80, 24), "idle"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_calls_are_joined_to_programs_and_clients, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_rates_are_of_the_time_between, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_each_key_sorts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_picture_keeps_to_its_size, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hostile_names_are_plain_text, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_page_without_a_column_or_a_line_is_no_harm, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
