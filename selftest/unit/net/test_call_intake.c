/* SPDX-License-Identifier: MIT */
/*
 * Goal: every refusal of a CALL that docs/protocol.md names is sent, by name, leaves no slot taken
 * and the connection alive; what is not refused reaches the scheduler as it was asked.
 */
#include "selftest/unit/net/net_client.h"

/* ---- refusals of calls ----------------------------------------------------------------------- */

static void refuse_call(struct fixture *f, uint32_t peer, const struct wire_call *call,
                        enum status status, enum wire_field field)
{
    uint32_t free_count = f->calls.free_count;
    fixture_send_call(f, peer, call);
    fixture_pass(f);
    expect_error(f, peer, status, field, false);
    assert_int_equal(got.error.fault.frame_type, WIRE_CALL);
    assert_true(got.error.fault.call_id == call->call_id);
    expect_slots_free(f, free_count);
}

static void test_bad_field_names_it_and_the_connection_lives(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    struct wire_call call = fixture_wire_call(1);
    call.sampling.top_p = 2;
    refuse_call(f, peer, &call, STATUS_BAD_FIELD, WIRE_FIELD_TOP_P);
    assert_int_equal(got.error.fault.found, 2000);
    assert_int_equal(got.error.fault.max, 1000);
    call = fixture_wire_call(1);
    call.max_tokens = 0;
    refuse_call(f, peer, &call, STATUS_BAD_FIELD, WIRE_FIELD_MAX_TOKENS);
    call = fixture_wire_call(1);
    call.sampling.temperature = __builtin_nanf("");
    refuse_call(f, peer, &call, STATUS_BAD_FIELD, WIRE_FIELD_TEMPERATURE);
    assert_int_equal(f->stats.calls_refused, 3);
    expect_alive(f, peer);
}

static void test_prompt_length_at_and_beyond_the_context(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    uint8_t ids[65 * 4] = {0};
    struct wire_call call = fixture_wire_call(1);
    call.prompt = ids;
    call.max_tokens = 1;
    call.prompt_count = 64;
    refuse_call(f, peer, &call, STATUS_BAD_PROMPT_LENGTH, WIRE_FIELD_PROMPT);
    assert_int_equal(got.error.fault.found, 65);
    assert_int_equal(got.error.fault.max, 64);
    call.prompt_count = 2;
    call.max_tokens = INT32_MAX;
    refuse_call(f, peer, &call, STATUS_BAD_PROMPT_LENGTH, WIRE_FIELD_PROMPT);
    call.prompt_count = 0;
    call.max_tokens = 1;
    refuse_call(f, peer, &call, STATUS_BAD_FIELD, WIRE_FIELD_PROMPT);
    call.prompt_count = 63;
    fixture_send_call(f, peer, &call);
    fixture_pass(f);
    assert_true(fixture_receive(f, peer, &got));
    assert_int_equal(got.type, WIRE_ACCEPT);
    assert_int_equal(got.accept.prompt_tokens, 63);
}

static void test_text_prompt_becomes_tokens_with_bos(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    struct wire_call call = fixture_wire_call(1);
    call.flags = WIRE_CALL_TEXT_PROMPT | WIRE_CALL_ADD_BOS;
    call.prompt = (const uint8_t *)"hi";
    fixture_send_call(f, peer, &call);
    fixture_pass(f);
    const struct call *slot = fixture_call(f, f->last_call);
    assert_int_equal(slot->prompt_tokens, 3);
    assert_int_equal(slot->tokens[0], 1);
    assert_int_equal(slot->tokens[2], FIXTURE_BYTE('i'));
    call.call_id = 2;
    call.prompt_count = 0;
    fixture_send_call(f, peer, &call);
    fixture_pass(f);
    assert_int_equal(fixture_call(f, f->last_call)->prompt_tokens, 1);
}

static void test_text_prompt_too_long_gives_the_slot_back(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    char text[200];
    memset(text, 'a', sizeof text);
    struct wire_call call = fixture_wire_call(1);
    call.flags = WIRE_CALL_TEXT_PROMPT;
    call.prompt = (const uint8_t *)text;
    call.prompt_count = sizeof text;
    refuse_call(f, peer, &call, STATUS_BAD_PROMPT_LENGTH, WIRE_FIELD_PROMPT);
    assert_int_equal(got.error.fault.found, f->limits.context_tokens + 1 + call.max_tokens);
    call.prompt_count = 60;
    refuse_call(f, peer, &call, STATUS_BAD_PROMPT_LENGTH, WIRE_FIELD_PROMPT);
    assert_int_equal(got.error.fault.found, call.prompt_count + call.max_tokens);
    call.prompt_count = 1;
    call.prompt = (const uint8_t *)"\xff";
    refuse_call(f, peer, &call, STATUS_BAD_TEXT, WIRE_FIELD_PROMPT);
}

/* The scratch of a context of the longest tokens (config/vocab/vocab.h), which a frame may exceed.
 * */
static void test_scratch_is_for_what_fits_the_context_and_a_frame(void **state)
{
    struct fixture *f = *state;
    struct limits limits = fixture_limits;
    assert_int_equal(f->net.scratch.text_bytes_max, 64 * 32);
    limits.context_tokens = limits.reply_tokens = 1024;
    fixture_init(f, test_arena(), &limits);
    assert_int_equal(f->net.scratch.text_bytes_max, limits.frame_bytes);
}

static void test_text_without_vocabulary_is_refused(void **state)
{
    struct fixture *f = *state;
    f->vocab.info.kind = VOCAB_NONE;
    f->vocab.info.bos_id = GGUF_NO_TOKEN;
    uint32_t peer = open_client(f);
    struct wire_call call = fixture_wire_call(1);
    call.flags = WIRE_CALL_WANT_TEXT;
    refuse_call(f, peer, &call, STATUS_BAD_FIELD, WIRE_FIELD_FLAGS);
    call.flags = WIRE_CALL_TEXT_PROMPT;
    call.prompt_count = 1;
    refuse_call(f, peer, &call, STATUS_BAD_FIELD, WIRE_FIELD_FLAGS);
    call = fixture_wire_call(1);
    call.stop_texts_count = 1;
    call.stop_texts[0] = (struct call_stop_text){1, "x"};
    refuse_call(f, peer, &call, STATUS_BAD_FIELD, WIRE_FIELD_STOP_TEXTS);
}

static void test_empty_text_without_bos_in_the_vocabulary_is_refused(void **state)
{
    struct fixture *f = *state;
    f->vocab.info.bos_id = GGUF_NO_TOKEN;
    uint32_t peer = open_client(f);
    struct wire_call call = fixture_wire_call(1);
    call.flags = WIRE_CALL_TEXT_PROMPT | WIRE_CALL_ADD_BOS;
    call.prompt_count = 0;
    refuse_call(f, peer, &call, STATUS_BAD_FIELD, WIRE_FIELD_PROMPT);
}

static void test_token_outside_the_vocabulary_is_refused(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    struct wire_call call = fixture_wire_call(1);
    uint32_t ids[2] = {1, FIXTURE_TOKENS};
    call.prompt = (const uint8_t *)ids;
    refuse_call(f, peer, &call, STATUS_BAD_TOKEN, WIRE_FIELD_PROMPT);
    assert_int_equal(got.error.fault.found, FIXTURE_TOKENS);
    assert_int_equal(got.error.fault.max, FIXTURE_TOKENS - 1);
    ids[1] = UINT32_MAX;
    refuse_call(f, peer, &call, STATUS_BAD_TOKEN, WIRE_FIELD_PROMPT);
    ids[1] = 1;
    call.sampling.stop_ids_count = 1;
    call.sampling.stop_ids[0] = FIXTURE_TOKENS;
    refuse_call(f, peer, &call, STATUS_BAD_TOKEN, WIRE_FIELD_STOP_IDS);
}

static void test_scheduler_sees_thread_and_absolute_deadline(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    struct wire_call call = fixture_wire_call(1);
    fixture_sleep(f, 1000);
    call.thread = 77;
    const struct call *slot = fixture_call(f, start_call(f, peer, &call));
    assert_int_equal(slot->thread, 77);
    assert_true(slot->deadline_us == UINT64_MAX);
    assert_true(slot->arrived_us == f->fake.now_us);
    call.call_id = 2;
    call.deadline_us = 5000;
    slot = fixture_call(f, start_call(f, peer, &call));
    assert_true(slot->deadline_us == f->fake.now_us + 5000);
    f->net.settings.call_deadline_us = 4000;        /* the appliance's own bound */
    static const uint64_t asked_us[] = {0, 5000, 3000}, expected_us[] = {4000, 4000, 3000};
    for (uint32_t i = 0; i < 3; i++) {
        fixture_finish(f, f->last_call, CALL_FINISH_EOS, STATUS_OK);
        fixture_passes(f, 2);
        call.call_id++;
        call.deadline_us = asked_us[i];
        slot = fixture_call(f, start_call(f, peer, &call));
        assert_true(slot->deadline_us == f->fake.now_us + expected_us[i]);
    }
}

static void test_eos_is_added_last_unless_ignored(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    struct wire_call call = fixture_wire_call(1);
    call.sampling.stop_ids_count = 15;
    for (uint32_t i = 0; i < 15; i++) {
        call.sampling.stop_ids[i] = 100 + i;
    }
    fixture_send_call(f, peer, &call);
    fixture_pass(f);
    const struct call *slot = fixture_call(f, f->last_call);
    assert_int_equal(slot->sampling.stop_ids_count, 17);
    assert_int_equal(slot->eos_id_index_plus_1, 17);
    assert_int_equal(slot->sampling.stop_ids[16], 2);
    assert_int_equal(slot->sampling.stop_ids[15], 3);
    call.call_id = 2;
    call.flags = WIRE_CALL_IGNORE_EOS;
    fixture_send_call(f, peer, &call);
    fixture_pass(f);
    slot = fixture_call(f, f->last_call);
    assert_int_equal(slot->sampling.stop_ids_count, 15);
    assert_int_equal(slot->eos_id_index_plus_1, 0);
}

static void test_call_id_that_is_open_is_refused_everywhere(void **state)
{
    struct fixture *f = *state;
    uint32_t one = open_client(f), other = open_client(f);
    struct wire_call call = fixture_wire_call(5);
    fixture_send_call(f, one, &call);
    fixture_pass(f);
    assert_true(fixture_receive(f, one, &got));
    refuse_call(f, one, &call, STATUS_BAD_CALL_OPEN, WIRE_FIELD_CALL_ID);
    /* Elsewhere it may be what is left of a connection that has broken: busy, not wrong. */
    refuse_call(f, other, &call, STATUS_BUSY_CALL_OPEN, WIRE_FIELD_CALL_ID);
    /* Another program may use the id, on another connection. */
    memcpy(call.program_id, fixture_program_id("second"), sizeof call.program_id);
    refuse_call(f, one, &call, STATUS_BAD_CALL_OPEN, WIRE_FIELD_CALL_ID);
    fixture_send_call(f, other, &call);
    fixture_pass(f);
    assert_true(fixture_receive(f, other, &got));
    assert_int_equal(got.type, WIRE_ACCEPT);
}

static void test_call_id_is_free_after_the_connection(void **state)
{
    struct fixture *f = *state;
    uint32_t one = open_client(f), other = open_client(f);
    struct wire_call call = fixture_wire_call(5);
    fixture_send_call(f, one, &call);
    fixture_pass(f);
    fake_client_finish(&f->fake, one);
    fixture_pass(f);
    fixture_send_call(f, other, &call);
    fixture_pass(f);
    assert_int_equal(f->commands[COMMAND_CALL], 2);
    assert_true(fixture_receive(f, other, &got));
    assert_int_equal(got.type, WIRE_ACCEPT);
}

static void test_calls_of_a_connection_and_of_all_are_limited(void **state)
{
    struct fixture *f = *state;
    uint32_t peers[3] = {open_client(f), open_client(f), open_client(f)};
    uint64_t id = 1;
    for (int p = 0; p < 3; p++) {
        for (int i = 0; i < (p == 2 ? 2 : 3); i++) {
            struct wire_call call = fixture_wire_call(id++);
            fixture_send_call(f, peers[p], &call);
            fixture_pass(f);
            assert_true(fixture_receive(f, peers[p], &got));
            assert_int_equal(got.type, WIRE_ACCEPT);
        }
    }
    struct wire_call call = fixture_wire_call(id);
    refuse_call(f, peers[0], &call, STATUS_BUSY_CALLS_OF_CONN, WIRE_FIELD_CONNECTION);
    assert_int_equal(got.error.fault.max, 3);
    refuse_call(f, peers[2], &call, STATUS_BUSY_CALLS, WIRE_FIELD_NONE);
    assert_int_equal(got.error.fault.max, 8);
    expect_slots_free(f, 0);
}

static void test_refusal_of_the_scheduler_becomes_an_error(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    f->refuse_with = STATUS_BUSY_PROGRAMS;
    struct wire_call call = fixture_wire_call(9);
    refuse_call(f, peer, &call, STATUS_BUSY_PROGRAMS, WIRE_FIELD_PROGRAM_ID);
    f->limits.calls_per_program = 5;
    f->refuse_with = STATUS_BUSY_CALLS_OF_PROG;
    refuse_call(f, peer, &call, STATUS_BUSY_CALLS_OF_PROG, WIRE_FIELD_PROGRAM_ID);
    assert_int_equal(got.error.fault.found, 5);
    assert_int_equal(got.error.fault.max, 5);
    assert_int_equal(got.error.retry_ms, 100);
    f->refuse_with = STATUS_BAD_PROMPT_LENGTH;
    refuse_call(f, peer, &call, STATUS_BAD_PROMPT_LENGTH, WIRE_FIELD_PROMPT);
    assert_int_equal(got.error.fault.found, call.prompt_count + call.max_tokens);
    assert_int_equal(got.error.fault.max, f->limits.context_tokens);
    expect_alive(f, peer);
}

static void test_draining_refuses_new_work_and_lets_open_calls_end(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    struct wire_call call = fixture_wire_call(1);
    fixture_send_call(f, peer, &call);
    fixture_pass(f);
    uint32_t slot = f->last_call;
    net_drain(&f->net);
    assert_true(fixture_receive(f, peer, &got));
    call.call_id = 2;
    refuse_call(f, peer, &call, STATUS_BUSY_DRAINING, WIRE_FIELD_NONE);
    fixture_send_program(f, peer, WIRE_PROGRAM_START, "new");
    fixture_pass(f);
    expect_error(f, peer, STATUS_BUSY_DRAINING, WIRE_FIELD_NONE, false);
    assert_int_not_equal(net_next_us(&f->net, f->fake.now_us), 0);
    uint32_t late = fake_client_connect(&f->fake, 0);
    fixture_passes(f, 3);
    assert_false(f->fake.peers[late].accepted);
    fixture_finish(f, slot, CALL_FINISH_EOS, STATUS_OK);
    assert_false(net_is_flushed(&f->net));
    fixture_pass(f);
    assert_true(fixture_receive(f, peer, &got));
    assert_int_equal(got.type, WIRE_DONE);
    assert_true(net_is_flushed(&f->net));
}

/* One client has an open call, which ends first; another has sent the half of a frame: it is told
 * why when it sends the rest. */
static void test_leaving_closes_connections_as_they_come_to_rest(void **state)
{
    struct fixture *f = *state;
    uint32_t busy = open_client(f), idle = open_client(f), halfway = open_client(f);
    struct wire_call call = fixture_wire_call(1);
    uint8_t ping[64];
    uint32_t ping_bytes = wire_ping_encode(&(struct wire_ping){7}, WIRE_PING, ping,
                                           sizeof ping);
    fixture_send_call(f, busy, &call);
    fixture_send(f, halfway, ping, ping_bytes / 2);
    fixture_pass(f);
    uint32_t slot = f->last_call;
    assert_true(fixture_receive(f, busy, &got));
    net_drain(&f->net);
    net_leave(&f->net);
    assert_true(f->fake.peers[idle].server_closed);
    assert_false(f->fake.peers[busy].server_closed);
    assert_false(f->fake.peers[halfway].server_closed);
    fixture_finish(f, slot, CALL_FINISH_EOS, STATUS_OK);
    fixture_pass(f);
    net_leave(&f->net);
    assert_true(fixture_receive(f, busy, &got));
    assert_int_equal(got.type, WIRE_DONE);
    assert_true(f->fake.peers[busy].server_closed);
    assert_false(f->fake.peers[halfway].server_closed);
    net_check(&f->net);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, setup)
    const struct CMUnitTest tests[] = {
        T(test_bad_field_names_it_and_the_connection_lives),
        T(test_prompt_length_at_and_beyond_the_context),
        T(test_text_prompt_becomes_tokens_with_bos),
        T(test_text_prompt_too_long_gives_the_slot_back),
        T(test_scratch_is_for_what_fits_the_context_and_a_frame),
        T(test_text_without_vocabulary_is_refused),
        T(test_empty_text_without_bos_in_the_vocabulary_is_refused),
        T(test_token_outside_the_vocabulary_is_refused),
        T(test_scheduler_sees_thread_and_absolute_deadline),
        T(test_eos_is_added_last_unless_ignored),
        T(test_call_id_that_is_open_is_refused_everywhere),
        T(test_call_id_is_free_after_the_connection),
        T(test_calls_of_a_connection_and_of_all_are_limited),
        T(test_refusal_of_the_scheduler_becomes_an_error),
        T(test_draining_refuses_new_work_and_lets_open_calls_end),
        T(test_leaving_closes_connections_as_they_come_to_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
