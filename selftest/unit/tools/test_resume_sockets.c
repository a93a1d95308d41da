/* SPDX-License-Identifier: MIT */
/*
 * Goal: agx_resume() connects again, in good time, until the answer is whole or it is told to stop.
 * Method: a thread plays the appliance on a unix socket that closes, refuses and restarts.
 */
#include "selftest/unit/tools/resume_rig.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- over sockets ---------------------------------------------------------------------------- */

static struct server {
    char path[64], address[80];
    int listener;
    pthread_t thread;
    char key[WIRE_NAME_BYTES];      /* that the callers must have named */
    uint32_t refused;
    bool is_confused;
} server;

static void listen_again(void)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path, sizeof name.sun_path, "%s", server.path);
    unlink(server.path);
    server.listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(server.listener, (struct sockaddr *)&name, sizeof name), 0);
    assert_int_equal(listen(server.listener, 4), 0);
}

static void start_server(void)
{
    snprintf(server.path, sizeof server.path, "%s/s", test_folder());
    snprintf(server.address, sizeof server.address, "unix:%s", server.path);
    listen_again();
}

static void stop_server(void)
{
    close(server.listener);
}

static void put(int peer, const uint8_t *bytes, uint32_t count)
{
    server.is_confused |= count == 0 || send(peer, bytes, count, MSG_NOSIGNAL) != (ssize_t)count;
}

/* Accepts a client, greets it, and waits for the whole CALL. */
static int take_caller(uint8_t boot)
{
    uint8_t bytes[1024];
    const size_t expected = WIRE_HEADER_BYTES + 68 + WIRE_HEADER_BYTES + WIRE_CALL_BYTES_MIN + 12;
    int peer = accept(server.listener, NULL, NULL);
    put(peer, bytes, welcome_frame(boot, bytes));
    server.is_confused |=
        recv(peer, bytes, expected, MSG_WAITALL) != (ssize_t)expected;
    server.is_confused |= server.key[0] != '\0' && memcmp(bytes + 20, server.key,
                                                          sizeof server.key) != 0;
    return peer;
}

static void *play_restarts(void *context)
{
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    int peer = take_caller(1);
    put(peer, bytes, accept_frame(1, 0, bytes));
    put(peer, bytes, part_frame((struct part){0, 2, 0, 3}, answer, text, bytes));
    close(peer);
    close(accept(server.listener, NULL, NULL));         /* closed before the greeting */
    peer = take_caller(2);
    put(peer, bytes, error_frame(STATUS_BUSY_CALL_OPEN, 1, bytes));
    /* Sent again after a pause, though nothing else comes. */
    const size_t call_bytes = WIRE_HEADER_BYTES + WIRE_CALL_BYTES_MIN + 12;
    server.is_confused |=
        recv(peer, bytes, call_bytes, MSG_WAITALL) != (ssize_t)call_bytes;
    put(peer, bytes, accept_frame(1, 0, bytes));
    put(peer, bytes, part_frame((struct part){0, TOKENS, 0, TEXT_BYTES}, answer, text, bytes));
    put(peer, bytes, done_frame(CALL_FINISH_LENGTH, STATUS_OK, answer, TOKENS, bytes));
    server.is_confused |= recv(peer, bytes, 1, 0) != 0;
    close(peer);
    return context;
}

/* With the same affinity key. */
static void test_resume_survives_a_restart(void **state)
{
    struct agx agx;
    struct agx_event event = {0};
    const struct agx_call call = call_of(1);
    uint32_t tokens = 0, bytes = 0, resumed = 0;
    enum agx_result result;
    const struct agx_target target = {.address = server.address, .affinity = "session 17"};
    start_server();
    memcpy(server.key, target.affinity, strlen(target.affinity));
    assert_int_equal(pthread_create(&server.thread, NULL, play_restarts, NULL), 0);
    assert_int_equal(agx_open_target(&agx, &target, buffer, sizeof buffer, 10000), AGX_OK);
    assert_int_equal(agx_call_start(&agx, &call), AGX_OK);
    while (event.kind != AGX_DONE) {
        result = agx_next(&agx, &event, 10000);
        if (result == AGX_ERROR_CLOSED) {
            assert_int_equal(agx_resume(&agx, server.address, NULL, 10000), AGX_OK);
            assert_int_equal(agx.welcome.boot_id[0], 2);
            resumed++;
            continue;
        }
        assert_int_equal(result, AGX_OK);
        tokens += event.tokens_count;
        bytes += event.text_bytes;
    }
    assert_int_equal(tokens, TOKENS);
    assert_int_equal(bytes, TEXT_BYTES);
    assert_int_equal(resumed, 1);
    assert_int_equal(agx_wait_ms(&agx), -1);
    assert_int_equal(agx.busy_tries, 0);
    agx_close(&agx);
    pthread_join(server.thread, NULL);
    assert_false(server.is_confused);
    memset(server.key, 0, sizeof server.key);
    stop_server();
}

static void *play_end(void *context)
{
    close(take_caller(1));
    close(server.listener);
    unlink(server.path);
    return context;
}

static void *play_busy(void *context)
{
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    int peer = take_caller(2);
    put(peer, bytes, error_frame(STATUS_BUSY_CALLS, 1, bytes));
    server.is_confused |= recv(peer, bytes, 1, 0) != 0;
    close(peer);
    return context;
}

/* Has no room for anybody, until it ends. */
static void *play_full(void *context)
{
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    const struct wire_error error = {.fault = {.status = STATUS_BUSY_CONNECTIONS}, .closes = true,
                                     .retry_ms = context != NULL ? 60000 : 0};
    int peer;
    uint32_t count = wire_error_encode(&error, bytes, sizeof bytes);
    server.refused = 0;
    while ((peer = accept(server.listener, NULL, NULL)) >= 0) {
        server.refused++;
        (void)send(peer, bytes, count, MSG_NOSIGNAL);   /* who waited in the backlog may be gone */
        close(peer);
    }
    return context;
}

static void test_resume_without_an_appliance_may_be_tried_again(void **state)
{
    struct agx agx;
    struct agx_event event;
    const struct agx_call call = call_of(1);
    start_server();
    assert_int_equal(pthread_create(&server.thread, NULL, play_end, NULL), 0);
    assert_int_equal(agx_open(&agx, server.address, buffer, sizeof buffer, 10000), AGX_OK);
    assert_int_equal(agx_call_start(&agx, &call), AGX_OK);
    assert_int_equal(agx_next(&agx, &event, 10000), AGX_ERROR_CLOSED);
    pthread_join(server.thread, NULL);
    assert_int_equal(agx_resume(&agx, server.address, NULL, 0), AGX_ERROR_CONNECT);
    assert_int_equal(agx_resume(&agx, server.address, NULL, 30), AGX_ERROR_CONNECT);
    assert_false(agx_is_open(&agx));
    assert_int_equal(agx_next(&agx, &event, 0), AGX_ERROR_ARGUMENT);
    assert_int_equal(agx_resume(&agx, "nonsense", NULL, 30), AGX_ERROR_ADDRESS);
    listen_again();
    /* It is silent. */
    assert_int_equal(agx_resume(&agx, server.address, NULL, 0), AGX_ERROR_TIMEOUT);
    assert_int_equal(pthread_create(&server.thread, NULL, play_full, NULL), 0);
    enum agx_result result = agx_resume(&agx, server.address, NULL, 1000);
    assert_true(result == AGX_ERROR_BUSY || result == AGX_ERROR_TIMEOUT);
    shutdown(server.listener, SHUT_RDWR);
    pthread_join(server.thread, NULL);
    close(server.listener);
    listen_again();
    assert_int_equal(pthread_create(&server.thread, NULL, play_busy, NULL), 0);
    assert_int_equal(agx_resume(&agx, server.address, NULL, 10000), AGX_OK);
    /* Until the busy answer is there, which is no event; and 0 means: call agx_next() now. */
    while (agx_wait_ms(&agx) <= 0) {
        assert_int_equal(agx_next(&agx, &event, 1), AGX_AGAIN);
    }
    assert_true(agx_wait_ms(&agx) > 1000);      /* a minute was the hint */
    agx_close(&agx);
    pthread_join(server.thread, NULL);
    assert_false(server.is_confused);
    stop_server();
}

static void test_resume_does_not_connect_sooner_than_it_was_told(void **state)
{
    struct agx agx;
    struct agx_event event;
    start_server();
    assert_int_equal(pthread_create(&server.thread, NULL, play_end, NULL), 0);
    assert_int_equal(agx_open(&agx, server.address, buffer, sizeof buffer, 10000), AGX_OK);
    const struct agx_call call = call_of(1);
    assert_int_equal(agx_call_start(&agx, &call), AGX_OK);
    assert_int_equal(agx_next(&agx, &event, 10000), AGX_ERROR_CLOSED);
    pthread_join(server.thread, NULL);
    listen_again();
    assert_int_equal(pthread_create(&server.thread, NULL, play_full, &server), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(agx_resume(&agx, server.address, NULL, i == 0 ? 10000 : 10),
                         AGX_ERROR_BUSY);
        assert_false(agx_is_open(&agx));
    }
    shutdown(server.listener, SHUT_RDWR);
    pthread_join(server.thread, NULL);
    assert_int_equal(server.refused, 1);
    assert_false(server.is_confused);
    stop_server();
}

static void test_resume_bad_arguments(void **state)
{
    struct agx agx = {.descriptor = -1};
    assert_int_equal(agx_resume(NULL, "unix:/nowhere", NULL, 0), AGX_ERROR_ARGUMENT);
    assert_int_equal(agx_resume(&agx, "unix:/nowhere", NULL, 0), AGX_ERROR_ARGUMENT);
    assert_int_equal(agx_session_init(&agx, buffer, sizeof buffer), AGX_OK);
    assert_int_equal(agx_resume(&agx, NULL, NULL, 0), AGX_ERROR_ARGUMENT);
}

int main(void)
{
#define T(name) cmocka_unit_test(name)
    const struct CMUnitTest tests[] = {
        T(test_resume_survives_a_restart),
        T(test_resume_without_an_appliance_may_be_tried_again),
        T(test_resume_does_not_connect_sooner_than_it_was_told),
        T(test_resume_bad_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
