/* SPDX-License-Identifier: MIT */
/*
 * Goal: connections to the appliance go through their states as tools/door/uplink/uplink.c draws
 * them: no call is sent before the appliance has said that it serves our model, calls of a
 * connection that breaks go on or end with a refusal, and what clients have left is cancelled.
 */
#include "selftest/unit/door/appliance_rig.h"

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
    rig.door.connects_us = 0;               /* however long the try before took */
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

/* The unsent bytes of the connection leave no room for CANCEL, until the appliance reads again. */
static void test_cancel_that_finds_no_room_is_sent_later(void **state)
{
    struct uplink *uplink = begin();
    uint32_t pings = 0;
    connect_once();
    struct request *request = rig_ask(CHAT, question);
    struct choice *choice = request->choices[0];
    while (agx_ping(&uplink->agx, 0) == AGX_OK) {
        pings++;
    }
    assert_true(call_cancel(choice) == false && choice->cancel_due);
    assert_int_equal(take_frame(), WIRE_CALL);
    for (; pings > 0; pings--) {
        uplinks_run(&rig.door);
        assert_int_equal(take_frame(), WIRE_PING);
    }
    uplinks_run(&rig.door);
    assert_false(choice->cancel_due);
    assert_int_equal(take_frame(), WIRE_CANCEL);
    rig_close(choice);
    request_free(request);
    finish();
}

/* One of several of a request: that waits for the others. */
static void test_resume_cancels_again_what_was_cancelled(void **state)
{
    begin();
    struct request *request = break_with_a_call();
    assert_false(call_cancel(request->choices[0]));
    resume_once();
    run_until(UPLINK_UP);
    assert_int_equal(take_frame(), WIRE_CANCEL);
    rig_close(request->choices[0]);
    request_free(request);
    finish();
}

/* ---- a key that is refused ------------------------------------------------------------------- */

static const struct config_key alice = {.id = "alice"};

/* A pass in which the appliance refuses the key of a connection, and of no other. */
static void try_in_vain(void)
{
    assert_int_equal(pthread_create(&server.thread, NULL, play_refusal, NULL), 0);
    rig.door.connects_us = 0;
    uplinks_run(&rig.door);
    pthread_join(server.thread, NULL);
    server.peer = -1;
}

static struct domain *begin_with_key(void)
{
    struct domain *domain = begin()->domain;
    give_spare_a_buffer();
    domain->key = &alice;
    server.needs_key = true;
    return domain;
}

/* A try that is not expected finds nothing that accepts it, and would set the time of the next. */
static void test_refused_key_is_tried_once_at_a_time_and_less_and_less(void **state)
{
    static const uint64_t pauses_us[] = {500000, 1000000, 2000000, 4000000, 8000000, 8000000};
    struct domain *domain = begin_with_key();
    for (uint32_t i = 0; i < sizeof pauses_us / sizeof pauses_us[0]; i++) {
        try_in_vain();
        assert_true(domain->is_refused);
        assert_int_equal(domain->again_us, rig.door.now_us + pauses_us[i]);
        rig.door.now_us += pauses_us[i] - 1;
        rig.door.connects_us = 0;
        uint64_t tried_us = rig.uplinks[0].again_us;
        uplinks_run(&rig.door);
        assert_int_equal(rig.uplinks[0].again_us, tried_us);
        assert_int_equal(rig.uplinks[1].again_us, 0);
        rig.door.now_us++;
    }
    finish();
}

static void test_refused_key_that_is_accepted_again_has_its_first_pause_again(void **state)
{
    struct domain *domain = begin_with_key();
    try_in_vain();
    rig.door.now_us = domain->again_us;
    try_in_vain();
    assert_non_null(strstr(domain->absence, "'alice'"));
    server.needs_key = false;
    rig.uplinks[1].again_us = UINT64_MAX;
    connect_once();
    assert_int_equal(rig.uplinks[0].state, UPLINK_UP);
    assert_false(domain->is_refused);
    assert_string_equal(domain->absence, "");
    say_key_refused();
    run_until(UPLINK_DOWN);
    assert_int_equal(domain->again_us, rig.door.now_us + 500000);
    finish();
}

/* What is refused on one connection is not tried on those that are broken. */
static void test_withdrawn_key_ends_the_calls_of_its_domain_with_401(void **state)
{
    struct domain *domain = begin_with_key();
    server.needs_key = false;
    rig.uplinks[1].again_us = UINT64_MAX;
    connect_once();
    struct request *request = rig_ask(CHAT, question);
    rig.uplinks[1].state = UPLINK_BROKEN;
    say_key_refused();
    run_until(UPLINK_DOWN);
    assert_int_equal(rig.uplinks[1].state, UPLINK_DOWN);
    assert_true(domain->is_refused);
    assert_int_equal(request->status, 401);
    assert_int_equal(request->retry_s, 0);
    assert_non_null(strstr(rig_out(request), "\"authentication_error\""));
    request_free(request);
    finish();
}

static void assert_answer(const char *path, const char *body, uint32_t status, const char *text)
{
    struct request *request = rig_ask(path, body);
    assert_int_equal(request->status, status);
    assert_non_null(strstr(rig_out(request), text));
    request_free(request);
}

/* Each API's own shape. Without a key of the token there is nothing that a client has wrong. */
static void test_refused_key_is_401_until_the_appliance_is_away(void **state)
{
    static const char message[] = "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\","
                                  "\"content\":\"a\"}]}";
    struct domain *domain = begin_with_key();
    try_in_vain();
    assert_answer(CHAT, question, 401, "{\"error\":{\"message\":\"the key of this token is not "
                  "accepted by the appliance\",\"type\":\"authentication_error\"");
    assert_answer("/v1/messages", message, 401, "{\"type\":\"error\",\"error\":{\"type\":"
                  "\"authentication_error\",\"message\":\"the key of this token");
    domain->key = NULL;
    assert_answer(CHAT, question, 503, "cannot be reached now");
    domain->key = &alice;
    close(server.listener);
    rig.door.now_us = domain->again_us;
    rig.door.connects_us = 0;
    uplinks_run(&rig.door);
    assert_answer(CHAT, question, 503, "cannot connect");
    finish();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_is_up_when_the_appliance_serves_our_model),
        cmocka_unit_test(test_open_takes_no_call_of_another_model_until_it_is_ours),
        cmocka_unit_test(test_open_without_an_appliance_is_tried_again_later),
        cmocka_unit_test(test_asked_takes_no_call_and_is_up_with_the_answer),
        cmocka_unit_test(test_break_without_calls_is_down_and_opened_again_at_once),
        cmocka_unit_test(test_break_with_a_call_is_resumed_and_the_call_goes_on),
        cmocka_unit_test(test_resume_with_another_model_ends_the_call),
        cmocka_unit_test(test_resume_ends_the_call_when_patience_is_over),
        cmocka_unit_test(test_resume_cancels_what_a_client_has_left),
        cmocka_unit_test(test_resume_cancels_again_what_was_cancelled),
        cmocka_unit_test(test_cancel_that_finds_no_room_is_sent_later),
        cmocka_unit_test(test_refused_key_is_tried_once_at_a_time_and_less_and_less),
        cmocka_unit_test(test_refused_key_that_is_accepted_again_has_its_first_pause_again),
        cmocka_unit_test(test_withdrawn_key_ends_the_calls_of_its_domain_with_401),
        cmocka_unit_test(test_refused_key_is_401_until_the_appliance_is_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
