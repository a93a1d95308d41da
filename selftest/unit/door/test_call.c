/* SPDX-License-Identifier: MIT */
/*
 * Goal: a call waits for room on a connection, and for the end of others where its program has as
 * many open as may be; what an appliance that drains sends away goes to another one.
 */
#include "selftest/unit/door/appliance_rig.h"

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

/* ---- calls of a program ---------------------------------------------------------------------- */

/* The appliance does not take the call. */
static void refuse_call(const struct choice *choice, enum status status, uint64_t most)
{
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    const struct wire_error error = {
        .fault = {.status = status, .frame_type = WIRE_CALL, .found = most, .max = most,
                  .call_id = choice->call.call_id},
        .retry_ms = 100};
    put(bytes, wire_error_encode(&error, bytes, sizeof bytes));
}

static void say_busy(const struct request *request, enum status status, uint64_t most)
{
    refuse_call(request->choices[0], status, most);
}

/* Passes until so many calls are open, and what they bring about. */
static void run_to_open(uint32_t calls)
{
    struct uplink *uplink = &rig.uplinks[0];
    while (uplink->calls_open != calls) {
        struct pollfd wait = {.fd = agx_descriptor(&uplink->agx), .events = POLLIN};
        assert_true(poll(&wait, 1, 60000) == 1);
        uplinks_run(&rig.door);
    }
    calls_run(&rig.door);
}

static void say_end(const struct choice *choice, enum call_finish finish, enum status status)
{
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    const struct wire_accept accept = {.call_id = choice->call.call_id, .prompt_tokens = 1};
    const struct wire_done done = {.call_id = choice->call.call_id,
                                   .finish = finish, .status = status,
                                   .digest = WIRE_DIGEST_START};
    put(bytes, wire_accept_encode(&accept, bytes, sizeof bytes));
    put(bytes, wire_done_encode(&done, bytes, sizeof bytes));
}

static void say_done(const struct choice *choice)
{
    say_end(choice, CALL_FINISH_STOP_ID, STATUS_OK);
}

/* Two of five may be open. The others are sent one after another, in the order of their refusals;
 * one whose client has left is not. */
static void test_calls_of_a_full_program_wait_for_the_end_of_others(void **state)
{
    struct request *requests[5];
    struct uplink *uplink = begin();
    connect_once();
    rig_header("X-Agentix-Program", "wide");
    for (uint32_t i = 0; i < 5; i++) {
        requests[i] = rig_ask(CHAT, question);
        assert_int_equal(take_frame(), WIRE_CALL);
    }
    for (uint32_t i = 2; i < 5; i++) {
        say_busy(requests[i], STATUS_BUSY_CALLS_OF_PROG, 2);
    }
    run_to_open(2);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(requests[i]->state, REQUEST_WAITING);
    }
    request_free(requests[2]);
    for (uint32_t next = 3; next < 5; next++) {
        say_done(requests[next - 3]->choices[0]);
        run_to_open(1);
        assert_int_equal(take_frame(), WIRE_CALL);
        assert_ptr_equal(uplink->calls[uplink->calls_open - 1], requests[next]->choices[0]);
        assert_int_equal(uplink->calls_open, 2);
        assert_int_equal(requests[next - 3]->status, 200);
        request_free(requests[next - 3]);
    }
    for (uint32_t i = 3; i < 5; i++) {
        rig_close(requests[i]->choices[0]);
        request_free(requests[i]);
    }
    rig_no_headers();
    finish();
}

/* The first is refused while the second is on its way, and would wait for its end. */
static void test_no_call_waits_for_one_that_is_refused_too(void **state)
{
    struct request *requests[2];
    begin();
    connect_once();
    rig_header("X-Agentix-Program", "wide");
    for (uint32_t i = 0; i < 2; i++) {
        requests[i] = rig_ask(CHAT, question);
        assert_int_equal(take_frame(), WIRE_CALL);
    }
    say_busy(requests[0], STATUS_BUSY_CALLS_OF_PROG, 2);
    run_to_open(1);
    assert_int_equal(requests[0]->state, REQUEST_WAITING);
    say_busy(requests[1], STATUS_BUSY_CALLS_OF_PROG, 2);
    run_to_open(0);
    assert_int_equal(requests[1]->status, 429);
    assert_int_equal(rig.uplinks[0].calls_open, 1); /* once more: nothing here is in its way */
    assert_int_equal(take_frame(), WIRE_CALL);
    say_busy(requests[0], STATUS_BUSY_CALLS_OF_PROG, 2);
    run_to_open(0);
    assert_int_equal(requests[0]->status, 429);
    for (uint32_t i = 0; i < 2; i++) {
        request_free(requests[i]);
    }
    rig_no_headers();
    finish();
}

/* One of three choices is refused, so there is no whole answer. One that waits for its program is
 * not sent any more, and the one that is computed is cancelled, and refused too late to wait. The
 * answer does not wait for another request of the program. */
static void test_no_call_is_sent_for_a_request_that_is_refused(void **state)
{
    struct uplink *uplink = begin();
    connect_once();
    rig_header("X-Agentix-Program", "wide");
    struct request *other = rig_ask(CHAT, question);
    struct request *request = rig_ask("/v1/completions", "{\"prompt\":\"a\",\"n\":3}");
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(take_frame(), WIRE_CALL);
    }
    refuse_call(request->choices[1], STATUS_BUSY_CALLS_OF_PROG, 2);
    run_to_open(3);
    assert_int_equal(request->choices_open, 3);
    refuse_call(request->choices[0], STATUS_BUSY_CALLS, 3);
    run_to_open(2);
    assert_int_equal(request->choices_open, 1);
    assert_int_equal(request->state, REQUEST_WAITING);
    assert_int_equal(take_frame(), WIRE_CANCEL);
    refuse_call(request->choices[2], STATUS_BUSY_CALLS_OF_PROG, 1);
    run_to_open(1);
    assert_int_equal(request->status, 429);
    assert_int_equal(uplink->calls_open, 1);
    request_free(request);
    rig_close(other->choices[0]);
    request_free(other);
    rig_no_headers();
    finish();
}

static void test_a_call_that_fails_cancels_those_of_its_whole_answer(void **state)
{
    begin();
    connect_once();
    struct request *request = rig_ask("/v1/completions", "{\"prompt\":\"a\",\"n\":2}");
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(take_frame(), WIRE_CALL);
    }
    say_end(request->choices[0], CALL_FINISH_FAILED, STATUS_DEVICE_POISON);
    run_to_open(1);
    assert_int_equal(take_frame(), WIRE_CANCEL);
    say_end(request->choices[1], CALL_FINISH_CANCELLED, STATUS_OK);
    run_to_open(0);
    assert_int_equal(request->status, 422);
    request_free(request);
    finish();
}

/* As many as the program may have are open; the client has the whole answer when all have ended. */
static void test_choices_beyond_the_program_follow_one_another(void **state)
{
    begin();
    connect_once();
    struct request *request = rig_ask("/v1/completions", "{\"prompt\":\"a\",\"n\":3}");
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(take_frame(), WIRE_CALL);
    }
    refuse_call(request->choices[1], STATUS_BUSY_CALLS_OF_PROG, 1);
    refuse_call(request->choices[2], STATUS_BUSY_CALLS_OF_PROG, 1);
    run_to_open(1);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(request->state, REQUEST_WAITING);
        say_done(request->choices[i]);
        run_to_open(0);
        assert_int_equal(rig.uplinks[0].calls_open, i < 2);     /* the next one */
        assert_true(i == 2 || take_frame() == WIRE_CALL);
    }
    assert_int_equal(request->status, 200);
    request_free(request);
    finish();
}

static void test_a_call_of_a_program_that_others_fill_is_refused(void **state)
{
    begin();
    connect_once();
    struct request *request = rig_ask(CHAT, question);
    assert_int_equal(take_frame(), WIRE_CALL);
    say_busy(request, STATUS_BUSY_CALLS_OF_PROG, 2);
    run_to_open(0);
    assert_int_equal(request->status, 429);
    assert_int_equal(request->retry_s, 1);
    request_free(request);
    finish();
}

/* ---- draining -------------------------------------------------------------------------------- */

/* Two requests; the appliance takes the first and sends the second away. */
static void drain_with_two(struct request *requests[2])
{
    connect_once();
    rig.uplinks[1].again_us = UINT64_MAX;
    for (uint32_t i = 0; i < 2; i++) {
        requests[i] = rig_ask(CHAT, question);
        assert_int_equal(take_frame(), WIRE_CALL);
    }
    say_busy(requests[1], STATUS_BUSY_DRAINING, 0);
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
        cmocka_unit_test(test_calls_of_a_full_program_wait_for_the_end_of_others),
        cmocka_unit_test(test_no_call_waits_for_one_that_is_refused_too),
        cmocka_unit_test(test_no_call_is_sent_for_a_request_that_is_refused),
        cmocka_unit_test(test_a_call_that_fails_cancels_those_of_its_whole_answer),
        cmocka_unit_test(test_choices_beyond_the_program_follow_one_another),
        cmocka_unit_test(test_a_call_of_a_program_that_others_fill_is_refused),
        cmocka_unit_test(test_drained_sends_calls_to_the_one_at_the_same_address),
        cmocka_unit_test(test_drained_without_another_refuses_what_it_sends_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
