/* SPDX-License-Identifier: MIT */
/*
 * Goal: connections to the appliance go through their states as tools/door/uplink/uplink.c draws
 * them: no call is sent before the appliance has said that it serves our model, calls of a
 * connection that breaks go on or end with a refusal, what clients have left is cancelled, and what
 * an appliance that drains sends away goes to another one.
 * Method: a thread plays the appliance on a unix socket, one connection each time; the door's time
 * is set by hand.
 */
#include "selftest/unit/door/door_rig.h"

#include <poll.h>
#include <pthread.h>
#include <sys/un.h>

#define PATIENCE_US 5000000
#define CHAT "/v1/chat/completions"
static const char question[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}";

/* ---- the appliance --------------------------------------------------------------------------- */

static struct server {
    int listener, peer;             /* the peer of the last connection; -1: none */
    pthread_t thread;
    const char *name;               /* what it says of its model */
    uint64_t vocab, chat;
    uint8_t types[8];               /* of the frames that it got, up to MODEL_ASK */
    uint32_t types_count;
} server;

static void put(const uint8_t *bytes, uint32_t count)
{
    (void)send(server.peer, bytes, count, MSG_NOSIGNAL);
}

static void say_welcome(void)
{
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    struct wire_welcome welcome = {.version = 1, .frame_bytes_max = 1 << 20,
                                   .context_tokens_max = 4096, .vocab_tokens = 1000,
                                   .calls_per_connection_max = 64, .programs_max = 64,
                                   .bos_id = 1, .eos_id = 2};
    snprintf(welcome.model, sizeof welcome.model, "%s", server.name);
    put(bytes, wire_welcome_encode(&welcome, bytes, sizeof bytes));
}

static void say_model(void)
{
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    const struct wire_model model = {.vocab = server.vocab, .chat = server.chat};
    put(bytes, wire_model_encode(&model, bytes, sizeof bytes));
}

/* The type of the client's next frame, which is taken whole; 0: there is none. */
static uint8_t take_frame(void)
{
    static uint8_t payload[RIG_BODY_BYTES];
    uint8_t header[WIRE_HEADER_BYTES];
    uint32_t count = 0;
    if (recv(server.peer, header, sizeof header, MSG_WAITALL) != (ssize_t)sizeof header) {
        return 0;
    }
    memcpy(&count, header + 8, sizeof count);
    bool is_whole = count <= sizeof payload &&
                    recv(server.peer, payload, count, MSG_WAITALL) == (ssize_t)count;
    return is_whole ? header[4] : 0;
}

static void *play(void *self)
{
    server.types_count = 0;
    server.peer = accept(server.listener, NULL, NULL);
    say_welcome();
    while (server.types_count < sizeof server.types) {
        uint8_t type = take_frame();
        server.types[server.types_count++] = type;
        if (type == WIRE_MODEL_ASK || type == 0) {
            break;
        }
    }
    say_model();
    return self;
}

static void listen_at_path(void)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path, sizeof name.sun_path, "%s/a", test_folder());
    unlink(name.sun_path);
    server.listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(server.listener, (struct sockaddr *)&name, sizeof name), 0);
    assert_int_equal(listen(server.listener, 4), 0);
    snprintf(rig.door.appliance, sizeof rig.door.appliance, "unix:%s", name.sun_path);
}

/* ---- the door -------------------------------------------------------------------------------- */

static struct uplink *begin(void)
{
    static _Alignas(8) uint8_t buffer[3 * (AGX_BUFFER_BYTES_MIN + RIG_BODY_BYTES)];
    rig_begin();
    agx_close(&rig.uplinks[0].agx);
    rig.uplinks[0] = (struct uplink){.domain = &rig.door.domains[0], .buffer = buffer,
                                     .watched = -1};
    rig.door.epoll = -1;
    rig.door.options.door_patience.number = PATIENCE_US;
    server = (struct server){.peer = -1, .name = rig.door.model.name,
                             .vocab = rig.door.model.vocab_digest,
                             .chat = rig.door.model.chat_digest};
    listen_at_path();
    return &rig.uplinks[0];
}

static void finish(void)
{
    close(server.peer);
    close(server.listener);
    rig_end();
}

/* A pass in which the appliance takes a connection; its answer is there at the end. */
static void connect_once(void)
{
    assert_int_equal(pthread_create(&server.thread, NULL, play, NULL), 0);
    rig.door.now_us += 60000000;
    rig.door.connects_us = 0;
    uplinks_run(&rig.door);
    pthread_join(server.thread, NULL);
}

/* Passes until the connection is in a state. */
static void run_until(int state)
{
    struct uplink *uplink = &rig.uplinks[0];
    while ((int)uplink->state != state) {
        struct pollfd wait = {.fd = agx_descriptor(&uplink->agx), .events = POLLIN};
        assert_true(poll(&wait, 1, 60000) == 1);
        uplinks_run(&rig.door);
    }
}

static void break_connection(void)
{
    close(server.peer);
    server.peer = -1;
}

/* Frees a request, and finds in its answer what must be there. */
static void assert_refused(struct request *request, const char *text)
{
    assert_int_equal(request->status, 503);
    assert_non_null(strstr(rig_out(request), text));
    request_free(request);
}

static void assert_takes_no_call(const char *text)
{
    assert_null(domain_welcome(&rig.door, &rig.door.domains[0]));
    assert_refused(rig_ask(CHAT, question), text);
}

/* ---- room ------------------------------------------------------------------------------------ */

static void *take_calls(void *self)
{
    for (uint32_t i = 0; i < RIG_CALLS - 1; i++) {
        assert_int_equal(take_frame(), WIRE_CALL);
    }
    return self;
}

static uint32_t count_waiting(void)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < RIG_CALLS; i++) {
        count += rig.choices[i].is_used && rig.choices[i].waits;
    }
    return count;
}

/* More than fits between the two: an appliance that is slow to read is not away. What a client has
 * left meanwhile is never sent. */
static void test_calls_wait_while_the_appliance_does_not_read(void **state)
{
    static char body[RIG_BODY_BYTES];
    struct request *requests[RIG_CALLS];
    pthread_t reader;
    struct uplink *uplink = begin();
    const int bytes = 4096;
    int length = snprintf(body, sizeof body, "%s",
                          "{\"messages\":[{\"role\":\"user\",\"content\":\"");
    while (length < 12000) {
        length += snprintf(body + length, sizeof body - (size_t)length, "the ");
    }
    snprintf(body + length, sizeof body - (size_t)length, "\"}]}");
    connect_once();
    assert_int_equal(setsockopt(agx_descriptor(&uplink->agx), SOL_SOCKET, SO_SNDBUF, &bytes,
                                sizeof bytes), 0);
    for (uint32_t i = 0; i < RIG_CALLS; i++) {
        requests[i] = rig_ask(CHAT, body);
        assert_int_equal(requests[i]->state, REQUEST_WAITING);
    }
    assert_in_range(count_waiting(), 2, RIG_CALLS - 1);
    assert_true(requests[RIG_CALLS - 1]->choices[0]->waits);
    request_free(requests[RIG_CALLS - 1]);
    assert_int_equal(pthread_create(&reader, NULL, take_calls, NULL), 0);
    while (count_waiting() > 0 || agx_wants_write(&uplink->agx)) {
        uplinks_run(&rig.door);
        calls_run(&rig.door);
    }
    pthread_join(reader, NULL);
    assert_int_equal(uplink->calls_open, RIG_CALLS - 1);
    for (uint32_t i = 0; i < RIG_CALLS - 1; i++) {
        rig_close(requests[i]->choices[0]);
        request_free(requests[i]);
    }
    finish();
}

/* ---- opening --------------------------------------------------------------------------------- */

static void test_open_is_up_when_the_appliance_serves_our_model(void **state)
{
    struct uplink *uplink = begin();
    assert_takes_no_call("cannot be reached");
    connect_once();
    assert_int_equal(uplink->state, UPLINK_UP);
    assert_memory_equal(server.types, ((uint8_t[]){WIRE_HELLO, WIRE_MODEL_ASK}), 2);
    struct request *request = rig_ask(CHAT, question);
    assert_int_equal(request->state, REQUEST_WAITING);
    assert_int_equal(take_frame(), WIRE_CALL);
    rig_close(request->choices[0]);
    request_free(request);
    finish();
}

static void test_open_takes_no_call_of_another_model_until_it_is_ours(void **state)
{
    struct uplink *uplink = begin();
    const struct server ours = server;
    for (int what = 0; what < 3; what++) {
        server.name = what == 0 ? "another" : ours.name;
        server.vocab = ours.vocab + (what == 1);
        server.chat = ours.chat ^ (what == 2);
        connect_once();
        assert_int_equal(uplink->state, UPLINK_DOWN);
        assert_true(rig.door.is_other);
        assert_takes_no_call("another model");
        assert_int_equal(take_frame(), 0);              /* it was left */
        close(server.peer);
    }
    server = ours;
    connect_once();
    assert_int_equal(uplink->state, UPLINK_UP);
    assert_false(rig.door.is_other);
    finish();
}

static void test_open_without_an_appliance_is_tried_again_later(void **state)
{
    struct uplink *uplink = begin();
    close(server.listener);
    rig.door.is_other = true;
    rig.door.now_us = 7000000;
    uplinks_run(&rig.door);
    assert_int_equal(uplink->state, UPLINK_DOWN);
    assert_true(uplink->again_us > rig.door.now_us && rig.door.connects_us > rig.door.now_us);
    assert_int_not_equal(uplinks_wait_ms(&rig.door), 0);
    /* No word of another model, nor where the appliance is looked for. */
    assert_takes_no_call("cannot be reached now: cannot connect: Connection refused");
    finish();
}

/* The answer has not come: calls wait for it no longer than any other refusal. */
static void test_asked_takes_no_call_and_is_up_with_the_answer(void **state)
{
    struct uplink *uplink = begin();
    connect_once();
    uplink->state = UPLINK_ASKED;
    uplink->has_asked = false;
    assert_takes_no_call("cannot be reached");
    uplinks_run(&rig.door);
    assert_true(uplink->has_asked);
    assert_int_equal(take_frame(), WIRE_MODEL_ASK);
    say_model();
    run_until(UPLINK_UP);
    finish();
}

/* ---- breaking -------------------------------------------------------------------------------- */

static void test_break_without_calls_is_down_and_opened_again_at_once(void **state)
{
    struct uplink *uplink = begin();
    connect_once();
    break_connection();
    run_until(UPLINK_DOWN);
    assert_true(uplink->again_us <= rig.door.now_us);
    connect_once();
    assert_int_equal(uplink->state, UPLINK_UP);
    finish();
}

static struct request *break_with_a_call(void)
{
    connect_once();
    struct request *request = rig_ask(CHAT, question);
    break_connection();
    run_until(UPLINK_BROKEN);
    assert_takes_no_call("cannot be reached");
    return request;
}

/* As connect_once(), within door.patience. */
static void resume_once(void)
{
    assert_int_equal(pthread_create(&server.thread, NULL, play, NULL), 0);
    rig.door.connects_us = 0;
    uplinks_run(&rig.door);
    pthread_join(server.thread, NULL);
}

static void test_break_with_a_call_is_resumed_and_the_call_goes_on(void **state)
{
    struct uplink *uplink = begin();
    struct request *request = break_with_a_call();
    resume_once();
    run_until(UPLINK_UP);
    assert_memory_equal(server.types, ((uint8_t[]){WIRE_HELLO, WIRE_CALL, WIRE_MODEL_ASK}), 3);
    assert_int_equal(request->state, REQUEST_WAITING);
    assert_int_equal(uplink->calls_open, 1);
    rig_close(request->choices[0]);
    request_free(request);
    finish();
}

static void test_resume_with_another_model_ends_the_call(void **state)
{
    struct uplink *uplink = begin();
    struct request *request = break_with_a_call();
    server.vocab++;
    resume_once();
    run_until(UPLINK_DOWN);
    assert_int_equal(uplink->calls_open, 0);
    assert_refused(request, "another model");
    finish();
}

static void test_resume_ends_the_call_when_patience_is_over(void **state)
{
    struct uplink *uplink = begin();
    struct request *request = break_with_a_call();
    close(server.listener);
    rig.door.connects_us = 0;
    uplinks_run(&rig.door);
    assert_int_equal(uplink->state, UPLINK_BROKEN);
    assert_int_equal(request->state, REQUEST_WAITING);
    rig.door.now_us += PATIENCE_US;
    uplinks_run(&rig.door);
    assert_int_equal(uplink->state, UPLINK_DOWN);
    assert_refused(request, "did not come back");
    finish();
}

static void test_resume_cancels_what_a_client_has_left(void **state)
{
    begin();
    request_free(break_with_a_call());
    resume_once();
    run_until(UPLINK_UP);
    assert_int_equal(server.types[1], WIRE_CALL);       /* the library needs its end */
    assert_int_equal(take_frame(), WIRE_CANCEL);
    assert_int_equal(rig.uplinks[0].calls_open, 1);
    close(server.listener);
    break_connection();
    run_until(UPLINK_BROKEN);
    rig.door.now_us += PATIENCE_US;
    rig.door.connects_us = 0;
    uplinks_run(&rig.door);                             /* gives up, and frees the call */
    assert_int_equal(rig.uplinks[0].calls_open, 0);
    finish();
}

/* ---- draining -------------------------------------------------------------------------------- */

static void give_spare_a_buffer(void)
{
    static _Alignas(8) uint8_t buffer[3 * (AGX_BUFFER_BYTES_MIN + RIG_BODY_BYTES)];
    rig.uplinks[1].buffer = buffer;
}

/* Two requests; the appliance takes the first and sends the second away. */
static void drain_with_two(struct request *requests[2])
{
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    connect_once();
    rig.uplinks[1].again_us = UINT64_MAX;
    for (uint32_t i = 0; i < 2; i++) {
        requests[i] = rig_ask(CHAT, question);
        assert_int_equal(take_frame(), WIRE_CALL);
    }
    const struct wire_error error = {
        .fault = {.status = STATUS_BUSY_DRAINING, .frame_type = WIRE_CALL,
                  .call_id = requests[1]->choices[0]->call.call_id},
        .retry_ms = 100};
    put(bytes, wire_error_encode(&error, bytes, sizeof bytes));
    while (!rig.uplinks[0].drains) {
        struct pollfd wait = {.fd = agx_descriptor(&rig.uplinks[0].agx), .events = POLLIN};
        assert_true(poll(&wait, 1, 60000) == 1);
        uplinks_run(&rig.door);
    }
}

static void test_drained_sends_calls_to_the_one_at_the_same_address(void **state)
{
    struct request *requests[2];
    begin();
    give_spare_a_buffer();
    drain_with_two(requests);
    int drained = server.peer;
    assert_int_equal(rig.uplinks[0].calls_open, 2);
    assert_int_equal(pthread_create(&server.thread, NULL, play, NULL), 0);
    rig.door.connects_us = rig.uplinks[1].again_us = 0;
    calls_run(&rig.door);
    pthread_join(server.thread, NULL);
    assert_int_equal(rig.uplinks[1].state, UPLINK_UP);
    assert_int_equal(take_frame(), WIRE_CALL);
    struct request *third = rig_ask(CHAT, question);
    assert_int_equal(take_frame(), WIRE_CALL);          /* there, too, though it has more */
    assert_int_equal(rig.uplinks[0].calls_open, 1);
    assert_int_equal(rig.uplinks[1].calls_open, 2);
    assert_ptr_equal(requests[1]->choices[0]->uplink, &rig.uplinks[1]);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(requests[i]->state, REQUEST_WAITING);
    }
    calls_run(&rig.door);                              /* once is enough */
    rig.uplinks[0].calls_open = rig.uplinks[1].calls_open = 0;
    struct request *all[] = {requests[0], requests[1], third};
    for (uint32_t i = 0; i < 3; i++) {
        all[i]->choices[0]->is_open = false;
        request_free(all[i]);
    }
    agx_close(&rig.uplinks[1].agx);
    close(drained);
    finish();
}

static void test_drained_without_another_refuses_what_it_sends_away(void **state)
{
    struct request *requests[2];
    begin();
    give_spare_a_buffer();
    drain_with_two(requests);
    close(server.listener);
    rig.door.connects_us = rig.uplinks[1].again_us = 0;
    calls_run(&rig.door);
    assert_int_equal(rig.uplinks[1].state, UPLINK_DOWN);
    assert_refused(requests[1], "draining");
    assert_refused(rig_ask(CHAT, question), "draining");
    assert_int_equal(requests[0]->state, REQUEST_WAITING);
    assert_int_equal(rig.uplinks[0].calls_open, 1);
    rig_close(requests[0]->choices[0]);
    request_free(requests[0]);
    finish();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_wait_while_the_appliance_does_not_read),
        cmocka_unit_test(test_open_is_up_when_the_appliance_serves_our_model),
        cmocka_unit_test(test_open_takes_no_call_of_another_model_until_it_is_ours),
        cmocka_unit_test(test_open_without_an_appliance_is_tried_again_later),
        cmocka_unit_test(test_asked_takes_no_call_and_is_up_with_the_answer),
        cmocka_unit_test(test_break_without_calls_is_down_and_opened_again_at_once),
        cmocka_unit_test(test_break_with_a_call_is_resumed_and_the_call_goes_on),
        cmocka_unit_test(test_resume_with_another_model_ends_the_call),
        cmocka_unit_test(test_resume_ends_the_call_when_patience_is_over),
        cmocka_unit_test(test_resume_cancels_what_a_client_has_left),
        cmocka_unit_test(test_drained_sends_calls_to_the_one_at_the_same_address),
        cmocka_unit_test(test_drained_without_another_refuses_what_it_sends_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
