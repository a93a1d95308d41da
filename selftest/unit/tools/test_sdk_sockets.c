/* SPDX-License-Identifier: MIT */
/*
 * Goal: the client library connects, proves its key, finds impostors, and waits before it tries
 * again.
 * Method: the answers wait in a socket pair before the client reads; no threads.
 */
#include "selftest/unit/tools/sdk_rig.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tools/sdk/socket.h"

/* ---- what the system says -------------------------------------------------------------------- */

static int receive_errno;           /* 0: the system's own answer */

/* In place of libc's: networks that fail cannot be had on loopback. */
ssize_t recv(int descriptor, void *bytes, size_t max, int flags)
{
    if (receive_errno != 0) {
        errno = receive_errno;
        return -1;
    }
    return recvfrom(descriptor, bytes, max, flags, NULL, NULL);
}

static void test_receive_what_a_network_does_can_be_resumed(void **state)
{
    (void)state;
    static const struct { int error; enum agx_result result; } cases[] = {
        {EHOSTUNREACH, AGX_ERROR_CLOSED}, {ENETUNREACH, AGX_ERROR_CLOSED},
        {ENETDOWN, AGX_ERROR_CLOSED}, {ECONNRESET, AGX_ERROR_CLOSED},
        {ETIMEDOUT, AGX_ERROR_CLOSED}, {EAGAIN, AGX_AGAIN}, {EINTR, AGX_AGAIN},
        {EBADF, AGX_ERROR_SYSTEM}, {ENOTSOCK, AGX_ERROR_SYSTEM}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t byte;
        uint32_t moved;
        receive_errno = cases[i].error;
        assert_int_equal(agx_socket_receive(-1, &byte, 1, &moved), cases[i].result);
        assert_int_equal(moved, 0);
    }
    receive_errno = 0;
}

/* ---- the key --------------------------------------------------------------------------------- */

static const struct agx_key key = {.id = "ops", .secret = "thirty-two bytes that we share.."};
static const uint8_t our_nonce[WIRE_NONCE_BYTES] = "ours";

/* Asked for a key, with AUTH in the output buffer. */
static void challenged_session(struct agx *agx)
{
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    uint32_t sent;
    struct wire_welcome welcome = welcome_frame();
    welcome.auth = WIRE_AUTH_KEY;
    memcpy(welcome.nonce, "theirs", 6);
    assert_int_equal(agx_session_init(agx, buffer, sizeof buffer), AGX_OK);
    feed(agx, bytes, wire_welcome_encode(&welcome, bytes, sizeof bytes));
    assert_int_equal(agx_session_welcome(agx), AGX_OK);
    assert_true(agx->welcome.needs_key);
    assert_int_equal(agx_session_auth(agx, &key, our_nonce), AGX_OK);
    (void)agx_session_unsent(agx, &sent);
    assert_int_equal(sent, WIRE_HEADER_BYTES + WIRE_AUTH_BYTES);
}

/* What an appliance makes of the AUTH that was sent. */
static void proof_of(struct agx *agx, enum wire_side side, const uint8_t *secret, uint8_t *mac)
{
    uint32_t sent;
    struct wire_auth auth;
    struct wire_fault fault;
    struct wire_proof proof = {.boot_id = {1, 2, 3}, .server_nonce = "theirs"};
    const uint8_t *bytes = agx_session_unsent(agx, &sent);
    assert_status(STATUS_OK, wire_auth_decode(bytes + WIRE_HEADER_BYTES, WIRE_AUTH_BYTES, &auth,
                                              &fault));
    assert_string_equal(auth.key_id, "ops");
    assert_memory_equal(auth.nonce, our_nonce, sizeof our_nonce);
    memcpy(proof.key_id, auth.key_id, sizeof proof.key_id);
    memcpy(proof.client_nonce, auth.nonce, sizeof proof.client_nonce);
    wire_proof_mac(&proof, side, secret, mac);
    uint8_t expected[WIRE_MAC_BYTES];
    wire_proof_mac(&proof, WIRE_CLIENT, key.secret, expected);
    assert_memory_equal(auth.mac, expected, sizeof expected);
}

static void feed_auth_reply(struct agx *agx, const uint8_t *mac)
{
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    struct wire_auth_reply reply;
    memcpy(reply.mac, mac, sizeof reply.mac);
    feed(agx, bytes, wire_auth_reply_encode(&reply, bytes, sizeof bytes));
}

static void test_auth_right_proof_opens_the_session(void **state)
{
    struct agx agx;
    uint8_t mac[WIRE_MAC_BYTES];
    challenged_session(&agx);
    assert_int_equal(agx_session_admitted(&agx), AGX_AGAIN);
    assert_false(agx.is_admitted);
    proof_of(&agx, WIRE_SERVER, key.secret, mac);
    feed_auth_reply(&agx, mac);
    assert_int_equal(agx_session_admitted(&agx), AGX_OK);
    assert_true(agx.is_admitted);
}

/* Our own proof sent back, one of another secret, none at all. */
static void test_auth_wrong_proof_is_an_impostor(void **state)
{
    uint8_t macs[3][WIRE_MAC_BYTES] = {{0}}, other[WIRE_SECRET_BYTES] = "another secret";
    for (int i = 0; i < 3; i++) {
        struct agx agx;
        challenged_session(&agx);
        proof_of(&agx, WIRE_CLIENT, key.secret, macs[0]);
        proof_of(&agx, WIRE_SERVER, other, macs[1]);
        feed_auth_reply(&agx, macs[i]);
        assert_int_equal(agx_session_admitted(&agx), AGX_ERROR_IMPOSTOR);
        assert_int_equal(agx_session_admitted(&agx), AGX_ERROR_IMPOSTOR);
        assert_false(agx.is_admitted);
    }
}

static void test_auth_not_asked_for_is_an_impostor(void **state)
{
    struct agx agx;
    open_session(&agx);
    assert_int_equal(agx_session_auth(&agx, &key, our_nonce), AGX_ERROR_IMPOSTOR);
}

static void test_auth_refused_or_answered_by_something_else(void **state)
{
    struct agx agx;
    challenged_session(&agx);
    feed_error(&agx, STATUS_BAD_AUTH, WIRE_AUTH, 0, true);
    assert_int_equal(agx_session_admitted(&agx), AGX_ERROR_KEY);
    challenged_session(&agx);
    feed_error(&agx, STATUS_BUSY_CONNECTIONS, WIRE_AUTH, 0, true);
    assert_int_equal(agx_session_admitted(&agx), AGX_ERROR_BUSY);
    challenged_session(&agx);
    feed_accept(&agx, 1);
    assert_int_equal(agx_session_admitted(&agx), AGX_ERROR_PROTOCOL);
    challenged_session(&agx);
    feed_welcome(&agx);
    assert_int_equal(agx_session_admitted(&agx), AGX_ERROR_PROTOCOL);
}

/* ---- sockets --------------------------------------------------------------------------------- */

/* A client that is connected to `server`; the WELCOME waited in the socket pair. */
static void attach_pair(struct agx *agx, int *server)
{
    int pair[2];
    uint8_t bytes[WIRE_REPLY_BYTES_MAX], hello[WIRE_REPLY_BYTES_MAX];
    struct wire_welcome welcome = welcome_frame();
    uint32_t count = wire_welcome_encode(&welcome, bytes, sizeof bytes);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(write(pair[1], bytes, count), count);
    assert_int_equal(agx_attach(agx, pair[0], buffer, sizeof buffer, 1000), AGX_OK);
    assert_int_equal(read(pair[1], hello, sizeof hello), WIRE_HEADER_BYTES + 68);
    assert_int_equal(hello[4], WIRE_HELLO);
    *server = pair[1];
}

static void test_attach_sends_hello_and_answers(void **state)
{
    struct agx agx;
    struct agx_event event;
    int server;
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    struct wire_ping pong = {.nonce = 3};
    attach_pair(&agx, &server);
    assert_int_equal(agx_ping(&agx, 3), AGX_OK);
    assert_false(agx_wants_write(&agx));
    assert_int_equal(read(server, bytes, sizeof bytes), WIRE_HEADER_BYTES + 8);
    assert_int_equal(agx_next(&agx, &event, 0), AGX_AGAIN);
    uint32_t count = wire_ping_encode(&pong, WIRE_PONG, bytes, sizeof bytes);
    for (uint32_t i = 0; i < count; i++) {      /* byte by byte */
        assert_int_equal(agx_next(&agx, &event, 0), AGX_AGAIN);
        assert_int_equal(write(server, bytes + i, 1), 1);
    }
    assert_int_equal(agx_next(&agx, &event, 1000), AGX_OK);
    assert_int_equal(event.kind, AGX_PONG);
    agx_close(&agx);
    agx_close(&agx);
    close(server);
}

static void test_next_answer_before_close_is_not_lost(void **state)
{
    struct agx agx;
    struct agx_event event;
    int server;
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    struct wire_ping pong = {.nonce = 3};
    attach_pair(&agx, &server);
    uint32_t count = wire_ping_encode(&pong, WIRE_PONG, bytes, sizeof bytes);
    assert_int_equal(write(server, bytes, count), count);
    close(server);
    assert_int_equal(agx_ping(&agx, 4), AGX_OK);        /* EPIPE must not hide the answer */
    assert_int_equal(agx_next(&agx, &event, 1000), AGX_OK);
    assert_int_equal(event.nonce, 3);
    assert_true(agx_is_open(&agx));
    assert_int_equal(agx_next(&agx, &event, 1000), AGX_ERROR_CLOSED);
    assert_false(agx_is_open(&agx));
    assert_int_equal(agx_next(&agx, &event, 1000), AGX_ERROR_CLOSED);
    assert_int_equal(agx_ping(&agx, 5), AGX_ERROR_CLOSED);
    agx_close(&agx);
    assert_int_equal(agx_ping(&agx, 6), AGX_ERROR_ARGUMENT);
}

static void test_requests_wait_for_the_key(void **state)
{
    struct agx agx;
    int server;
    attach_pair(&agx, &server);
    agx.welcome.needs_key = 1;
    agx.is_admitted = 0;
    struct agx_call call = call_of_three(1);
    assert_int_equal(agx_ping(&agx, 1), AGX_ERROR_KEY);
    assert_int_equal(agx_call_start(&agx, &call), AGX_ERROR_KEY);
    assert_false(agx_wants_write(&agx));
    struct agx_key endless;
    memset(&endless, 'k', sizeof endless);
    assert_int_equal(agx_authenticate(&agx, &endless, 0), AGX_ERROR_ARGUMENT);
    assert_int_equal(agx_authenticate(&agx, NULL, 0), AGX_ERROR_ARGUMENT);
    assert_int_equal(agx_authenticate(&agx, &key, 0), AGX_ERROR_TIMEOUT);
    assert_int_equal(agx_ping(&agx, 1), AGX_ERROR_TIMEOUT);         /* the end is final */
    agx_close(&agx);
    close(server);
    attach_pair(&agx, &server);
    assert_int_equal(agx_authenticate(&agx, &key, 0), AGX_ERROR_IMPOSTOR);
    assert_false(agx_is_open(&agx));
    agx_close(&agx);
    close(server);
}

/* What HELLO says in the bytes 20 to 83 of a connection. */
static void name_of_attached(char name[WIRE_NAME_BYTES])
{
    struct agx agx;
    int pair[2];
    uint8_t hello[WIRE_HEADER_BYTES + 68];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(agx_attach(&agx, pair[0], buffer, sizeof buffer, 0), AGX_ERROR_TIMEOUT);
    assert_int_equal(read(pair[1], hello, sizeof hello), sizeof hello);
    memcpy(name, hello + 20, WIRE_NAME_BYTES);
    close(pair[1]);
}

/* Or a load balancer that goes by the name would send all of them to one appliance. */
static void test_attach_names_of_clients_without_a_key_differ(void **state)
{
    char one[WIRE_NAME_BYTES], other[WIRE_NAME_BYTES];
    name_of_attached(one);
    name_of_attached(other);
    assert_memory_equal(one, "libagx-", 7);
    assert_int_equal(strnlen(one, sizeof one), 7 + 16);
    assert_memory_not_equal(one, other, sizeof one);
}

static void test_open_affinity_key_fills_the_name_or_is_refused(void **state)
{
    struct agx agx;
    struct agx_target target = {.address = "unix:/nonexistent/socket"};
    char affinity[AGX_AFFINITY_BYTES + 2] = {0};
    memset(affinity, 'k', AGX_AFFINITY_BYTES);
    target.affinity = affinity;
    assert_int_equal(agx_open_target(&agx, &target, buffer, sizeof buffer, 0), AGX_ERROR_CONNECT);
    assert_string_equal(agx.name, affinity);
    affinity[AGX_AFFINITY_BYTES] = 'k';
    assert_int_equal(agx_open_target(&agx, &target, buffer, sizeof buffer, 0),
                     AGX_ERROR_ARGUMENT);
    target.affinity = "";
    assert_int_equal(agx_open_target(&agx, &target, buffer, sizeof buffer, 0), AGX_ERROR_CONNECT);
    assert_memory_equal(agx.name, "libagx-", 7);
    target.address = NULL;
    assert_int_equal(agx_open_target(&agx, &target, buffer, sizeof buffer, 0),
                     AGX_ERROR_ARGUMENT);
    assert_int_equal(agx_open_target(&agx, NULL, buffer, sizeof buffer, 0), AGX_ERROR_ARGUMENT);
}

static void test_attach_silent_or_gone_server(void **state)
{
    struct agx agx;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(agx_attach(&agx, pair[0], buffer, sizeof buffer, 0), AGX_ERROR_TIMEOUT);
    assert_int_equal(agx_descriptor(&agx), -1);
    close(pair[1]);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    close(pair[1]);
    assert_int_equal(agx_attach(&agx, pair[0], buffer, sizeof buffer, 1000), AGX_ERROR_CLOSED);
}

static void test_open_bad_addresses(void **state)
{
    static const char *const bad[] = {"", "unix:", "localhost:1", "127.0.0.1", "127.0.0.1:0",
                                      "127.0.0.1:65536", "::1:5", "[::1:5", "1.2.3:4",
                                      "127.0.0.1:7x"};
    struct agx agx;
    for (uint32_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(agx_open(&agx, bad[i], buffer, sizeof buffer, 0), AGX_ERROR_ADDRESS);
    }
    char path[200] = "unix:";
    memset(path + 5, 'x', 150);
    assert_int_equal(agx_open(&agx, path, buffer, sizeof buffer, 0), AGX_ERROR_ADDRESS);
    assert_int_equal(agx_open(&agx, NULL, buffer, sizeof buffer, 0), AGX_ERROR_ARGUMENT);
}

static void test_open_without_a_listener_leaves_the_cause(void **state)
{
    struct agx agx;
    assert_int_equal(agx_open(&agx, "unix:/nonexistent/socket", buffer, sizeof buffer, 0),
                     AGX_ERROR_CONNECT);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(agx_open(&agx, "127.0.0.1:1", buffer, sizeof buffer, 1000),
                     AGX_ERROR_CONNECT);
    assert_int_equal(errno, ECONNREFUSED);
}

static void test_open_listener_that_never_answers(void **state)
{
    struct agx agx;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char name[128];
    snprintf(address.sun_path, sizeof address.sun_path, "%s/s", test_folder());
    snprintf(name, sizeof name, "unix:%s", address.sun_path);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(agx_open(&agx, name, buffer, sizeof buffer, 1), AGX_ERROR_TIMEOUT);
    close(listener);
}

static void test_result_texts_are_distinct(void **state)
{
    for (int i = AGX_OK; i <= AGX_ERROR_SYSTEM; i++) {
        for (int j = i + 1; j <= AGX_ERROR_SYSTEM; j++) {
            assert_string_not_equal(agx_result_text((enum agx_result)i),
                                    agx_result_text((enum agx_result)j));
        }
    }
    assert_string_equal(agx_result_text((enum agx_result)99), "unknown result");
    assert_string_equal(agx_finish_text((enum agx_finish)99), "unknown");
}

/* ---- retries --------------------------------------------------------------------------------- */

static void test_retry_is_never_sooner_than_the_hint_and_at_most_half_later(void **state)
{
    static const uint32_t hints[] = {0, 1, 9, 100, 1000, UINT16_MAX, UINT32_MAX};
    uint64_t lot = 5;
    for (uint32_t i = 0; i < sizeof hints / sizeof hints[0]; i++) {
        for (uint32_t n = 0; n < 4000; n++) {
            uint32_t least = 10u << (n % 6) < hints[i] ? hints[i] : 10u << (n % 6);
            uint32_t pause = agx_retry_ms(hints[i], n % 6, &lot);
            assert_true(pause >= least && pause <= (uint64_t)least + least / 2);
        }
    }
    assert_in_range(agx_retry_ms(0, UINT32_MAX, &lot), 500, 750);       /* it stops growing */
}

static void test_retry_pauses_of_two_lots_differ_and_of_one_do_not(void **state)
{
    uint64_t one = 1, same = 1, other = 2;
    uint32_t differ = 0, least = UINT32_MAX, most = 0;
    for (uint32_t n = 0; n < 100; n++) {
        uint32_t pause = agx_retry_ms(1000, 0, &one);
        assert_int_equal(agx_retry_ms(1000, 0, &same), pause);
        differ += agx_retry_ms(1000, 0, &other) != pause;
        least = pause < least ? pause : least;
        most = pause > most ? pause : most;
    }
    assert_true(differ > 90);
    assert_true(least < 1050 && most > 1450);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_receive_what_a_network_does_can_be_resumed),
        cmocka_unit_test(test_auth_right_proof_opens_the_session),
        cmocka_unit_test(test_auth_wrong_proof_is_an_impostor),
        cmocka_unit_test(test_auth_not_asked_for_is_an_impostor),
        cmocka_unit_test(test_auth_refused_or_answered_by_something_else),
        cmocka_unit_test(test_requests_wait_for_the_key),
        cmocka_unit_test(test_attach_sends_hello_and_answers),
        cmocka_unit_test(test_next_answer_before_close_is_not_lost),
        cmocka_unit_test(test_attach_names_of_clients_without_a_key_differ),
        cmocka_unit_test(test_open_affinity_key_fills_the_name_or_is_refused),
        cmocka_unit_test(test_attach_silent_or_gone_server),
        cmocka_unit_test(test_open_bad_addresses),
        cmocka_unit_test(test_open_without_a_listener_leaves_the_cause),
        cmocka_unit_test(test_open_listener_that_never_answers),
        cmocka_unit_test(test_result_texts_are_distinct),
        cmocka_unit_test(test_retry_is_never_sooner_than_the_hint_and_at_most_half_later),
        cmocka_unit_test(test_retry_pauses_of_two_lots_differ_and_of_one_do_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
