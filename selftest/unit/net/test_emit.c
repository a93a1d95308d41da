/* SPDX-License-Identifier: MIT */
/*
 * Goal: a client gets ACCEPT, its tokens in order and exactly one terminal frame with the right
 * digest, however the bytes flow; a client that does not read pauses its own calls, is dropped at
 * its deadline, and other clients are not affected.
 * Method: a reader that checks every frame against what was generated.
 */
#include "selftest/unit/net/net_client.h"

/* ---- order ----------------------------------------------------------------------------------- */

static void test_frames_of_a_call_come_in_order_and_end_once(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    struct wire_call call = fixture_wire_call(1);
    uint32_t slot = start_call(f, peer, &call);
    read_all(f, peer);
    assert_true(answers[1].accepted);
    struct call *record = fixture_call(f, slot);
    for (uint32_t i = 0; i < 5; i++) {
        record->queue = i / 2;
        fixture_generate(f, slot, 100 + i);
        if (i % 2 == 0) {
            fixture_pass(f);
        }
    }
    record->queue = 4;
    record->wait_us = 5;
    record->service_us = 6;
    record->cached_tokens = 1;
    record->preemptions = 2;
    f->fake.now_us += 1000;
    fixture_finish(f, slot, CALL_FINISH_LENGTH, STATUS_OK);
    fixture_pass(f);
    read_all(f, peer);
    assert_int_equal(answers[1].tokens_count, 5);
    assert_int_equal(answers[1].tokens[4], 104);
    assert_int_equal(answers[1].frames, 3);
    assert_true(answers[1].done);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(answers[1].queues[i], i);
    }
    assert_int_equal(answers[1].end.queue, 4);
    assert_int_equal(answers[1].end.finish, CALL_FINISH_LENGTH);
    assert_int_equal(answers[1].end.prompt_tokens, 2);
    assert_int_equal(answers[1].end.cached_tokens, 1);
    assert_int_equal(answers[1].end.preemptions, 2);
    assert_int_equal(answers[1].end.wait_us, 5);
    assert_int_equal(answers[1].end.service_us, 6);
    assert_int_equal(answers[1].end.total_us, 1000);
    assert_false(answers[1].end.has_drafts);
    assert_int_equal(f->calls.free_count, 8);
    fixture_passes(f, 3);
    assert_false(fixture_receive(f, peer, &got));
}

static void test_end_says_what_drafts_brought_when_it_was_asked(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    struct wire_call call = fixture_wire_call(1);
    call.flags |= WIRE_CALL_WANT_DRAFTS;
    uint32_t slot = start_call(f, peer, &call);
    fixture_call(f, slot)->draft_tokens = 9;
    fixture_call(f, slot)->draft_tokens_agreed = 4;
    fixture_finish(f, slot, CALL_FINISH_LENGTH, STATUS_OK);
    fixture_pass(f);
    read_all(f, peer);
    assert_true(answers[1].done && answers[1].end.has_drafts);
    assert_int_equal(answers[1].end.drafts.draft_tokens, 9);
    assert_int_equal(answers[1].end.drafts.draft_tokens_agreed, 4);
}

static void test_call_that_fails_before_a_token_still_gets_accept_and_done(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    struct wire_call call = fixture_wire_call(1);
    uint32_t slot = start_call(f, peer, &call);
    fixture_finish(f, slot, CALL_FINISH_FAILED, STATUS_DEVICE_NUMERIC);
    fixture_pass(f);
    read_all(f, peer);
    assert_true(answers[1].done);
    assert_int_equal(answers[1].end.finish, CALL_FINISH_FAILED);
    assert_int_equal(answers[1].end.status, STATUS_DEVICE_NUMERIC);
    assert_true(answers[1].end.digest == WIRE_DIGEST_START);
}

static void test_end_of_turn_token_is_reported_as_eos(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    for (uint32_t id = 1; id <= 2; id++) {
        struct wire_call call = fixture_wire_call(id);
        if (id == 2) {              /* the client names it: a stop id of its own */
            call.sampling.stop_ids_count = 1;
            call.sampling.stop_ids[0] = 3;
        }
        uint32_t slot = start_call(f, peer, &call);
        fixture_generate(f, slot, 3);
        fixture_finish(f, slot, CALL_FINISH_STOP_ID, STATUS_OK);
        fixture_pass(f);
    }
    f->vocab.info.eot_id = f->vocab.info.eos_id;    /* one token is both: it is asked for once */
    struct wire_call call = fixture_wire_call(3);
    uint32_t slot = start_call(f, peer, &call);
    assert_int_equal(fixture_call(f, slot)->sampling.stop_ids_count, 1);
    fixture_generate(f, slot, f->vocab.info.eos_id);
    fixture_finish(f, slot, CALL_FINISH_STOP_ID, STATUS_OK);
    fixture_pass(f);
    read_all(f, peer);
    assert_int_equal(answers[1].end.finish, CALL_FINISH_EOS);
    assert_int_equal(answers[2].end.finish, CALL_FINISH_STOP_ID);
    assert_int_equal(answers[3].end.finish, CALL_FINISH_EOS);
}

static void test_short_sends_change_nothing(void **state)
{
    struct fixture *f = *state;
    f->fake.transfer_max = 7;
    f->fake.random = 99;
    f->fake.again_every = 4;
    f->generates = true;
    uint32_t peer = fixture_connect(f);
    fixture_hello(f, peer);
    fixture_passes(f, 100);
    assert_true(fixture_receive(f, peer, &got));
    for (uint64_t id = 1; id <= 3; id++) {
        struct wire_call call = text_call(id, NULL);
        fixture_send_call(f, peer, &call);
    }
    for (uint32_t i = 0; i < 3000; i++) {
        fixture_pass(f);
        if (i % 50 == 0) {
            read_all(f, peer);
        }
    }
    read_all(f, peer);
    for (uint64_t id = 1; id <= 3; id++) {
        assert_true(answers[id].done);
        assert_int_equal(answers[id].tokens_count, 60);
    }
}


/* ---- readers that stop ----------------------------------------------------------------------- */

static void test_reader_that_stops_pauses_its_own_calls_only(void **state)
{
    struct fixture *f = *state;
    f->generates = true;
    f->next_token = FIXTURE_TEXT_TOKEN;
    fixture_token_texts[0] = "thirty-one bytes of text a token";
    uint32_t stopped = open_client(f), reading = open_client(f);
    struct wire_call call = text_call(1, NULL);
    fake_client_window(&f->fake, stopped, 100);
    uint32_t slots[3];
    for (uint32_t i = 0; i < 3; i++) {
        call.call_id = 1 + i;
        slots[i] = start_call(f, stopped, &call);
    }
    call.call_id = 9;
    start_call(f, reading, &call);
    fixture_passes(f, 70);
    read_all(f, reading);
    assert_true(answers[9].done);
    assert_int_equal(answers[9].tokens_count, 60);
    uint32_t unsent = 0;
    for (uint32_t i = 0; i < 3; i++) {
        const struct call *record = fixture_call(f, slots[i]);
        assert_true(record->paused);
        assert_true(record->generated_tokens - record->emit.sent_tokens <= 16 + 1);
        unsent += record->generated_tokens - record->emit.sent_tokens;
    }
    assert_true(unsent > 0);
    /* It reads again: everything comes, nothing is lost. */
    fake_client_window(&f->fake, stopped, FAKE_QUEUE_BYTES);
    fixture_passes(f, 300);
    read_all(f, stopped);
    for (uint64_t id = 1; id <= 3; id++) {
        assert_true(answers[id].done);
        assert_int_equal(answers[id].tokens_count, 60);
    }
    assert_int_equal(f->calls.free_count, 8);
}

static void test_resumed_call_makes_the_loop_go_on(void **state)
{
    struct fixture *f = *state;
    f->generates = true;
    f->next_token = FIXTURE_TEXT_TOKEN;
    fixture_token_texts[0] = "thirty-one bytes of text a token";
    struct event events[64];
    struct event_log event_log = {.events = events, .capacity = 64};
    f->net.settings.event_log = &event_log;
    uint32_t peer = open_client(f);
    fake_client_window(&f->fake, peer, 100);
    struct wire_call call = text_call(1, NULL);
    for (call.call_id = 1; call.call_id <= 3; call.call_id++) {
        start_call(f, peer, &call);
    }
    fixture_passes(f, 200);
    uint32_t slot = f->last_call;
    assert_true(fixture_call(f, slot)->paused);
    assert_int_equal(event_log.next, 3);          /* each call was paused, and once */
    assert_int_equal(event_log_at(&event_log, 0)->what.kind, EVENT_PAUSED);
    fake_client_window(&f->fake, peer, FAKE_QUEUE_BYTES);
    for (uint32_t i = 0; i < 10 && fixture_call(f, slot)->paused; i++) {
        fixture_pass(f);
    }
    assert_false(fixture_call(f, slot)->paused);
    assert_int_equal(net_next_us(&f->net, f->fake.now_us), 0);
    assert_int_equal(event_log_at(&event_log, 3)->what.kind, EVENT_RESUMED);
}

static void test_reader_that_stops_is_dropped_at_the_write_deadline(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f), other = open_client(f);
    fake_client_window(&f->fake, peer, 0);
    struct wire_call call = fixture_wire_call(1);
    uint32_t slot = start_call(f, peer, &call);
    fixture_generate(f, slot, 9);
    fixture_sleep(f, 9999999);
    assert_false(fake_client_is_closed(&f->fake, peer));
    fixture_sleep(f, 2);
    assert_true(fake_client_is_closed(&f->fake, peer));
    fixture_pass(f);
    assert_int_equal(f->calls.free_count, 8);
    assert_int_equal(f->commands[COMMAND_CANCEL], 1);
    fixture_send_ping(f, other, 3);
    fixture_pass(f);
    assert_true(fixture_receive(f, other, &got));
}

static void test_slow_reader_that_moves_is_not_dropped(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    fake_client_window(&f->fake, peer, 0);
    struct wire_call call = fixture_wire_call(1);
    uint32_t slot = start_call(f, peer, &call);
    for (uint32_t i = 0; i < 8; i++) {
        fixture_generate(f, slot, 9);
    }
    fixture_finish(f, slot, CALL_FINISH_LENGTH, STATUS_OK);
    for (uint32_t window = 1; window <= 200; window += 10) {
        fake_client_window(&f->fake, peer, window);
        fixture_sleep(f, 9000000);
        assert_false(fake_client_is_closed(&f->fake, peer));
    }
    read_all(f, peer);
    assert_true(answers[1].done);
}

/* How far the open calls are apart, in tokens that were framed. */
static uint32_t spread_of_open_calls(struct fixture *f, uint32_t *open)
{
    uint32_t least = UINT32_MAX, most = 0;
    *open = 0;
    for (uint32_t i = 0; i < f->calls.count; i++) {
        const struct call *record = fixture_call(f, i);
        if (record->state != CALL_FREE) {
            least = record->emit.sent_tokens < least ? record->emit.sent_tokens : least;
            most = record->emit.sent_tokens > most ? record->emit.sent_tokens : most;
            ++*open;
        }
    }
    return most - least;
}

static void test_calls_of_a_slow_connection_take_turns(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f), open = 0, rounds = 0;
    f->generates = true;
    f->next_token = FIXTURE_TEXT_TOKEN;
    fixture_token_texts[0] = "thirty-one bytes of text a token";
    fake_client_window(&f->fake, peer, 0);
    struct wire_call call = text_call(1, NULL);
    for (call.call_id = 1; call.call_id <= 3; call.call_id++) {
        start_call(f, peer, &call);
    }
    fixture_passes(f, 100);
    /* A trickle, slower than what is generated: no call gets far ahead of the others. */
    uint8_t bytes[512];
    fake_client_window(&f->fake, peer, sizeof bytes);
    while (spread_of_open_calls(f, &open) < 25 && open == 3) {
        fixture_passes(f, 20);
        fake_client_recv(&f->fake, peer, bytes, sizeof bytes);
        ASSERT(++rounds < 100);
    }
    assert_true(open < 3);
}

/* The send buffer empties within a pass: no event will report that there is room. */
static void test_backlog_with_an_empty_buffer_makes_the_loop_go_on(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    fixture_token_texts[0] = "thirty-one bytes of text a token";
    struct wire_call call = text_call(1, NULL);
    uint32_t slot = start_call(f, peer, &call);
    for (uint32_t i = 0; i < 60; i++) {
        fixture_generate(f, slot, FIXTURE_TEXT_TOKEN);
    }
    fixture_finish(f, slot, CALL_FINISH_LENGTH, STATUS_OK);
    fixture_pass(f);
    assert_int_equal(f->calls.free_count, 7);
    assert_int_equal(net_next_us(&f->net, f->fake.now_us), 0);
    fixture_sleep(f, 1);
    read_all(f, peer);
    assert_true(answers[1].done);
}

static void test_flushed_means_that_the_last_byte_was_taken(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    fake_client_window(&f->fake, peer, 0);
    struct wire_call call = fixture_wire_call(1);
    fixture_finish(f, start_call(f, peer, &call), CALL_FINISH_EOS, STATUS_OK);
    fixture_pass(f);
    assert_int_equal(f->calls.free_count, 8);
    assert_false(net_is_flushed(&f->net));
    fake_client_window(&f->fake, peer, FAKE_QUEUE_BYTES);
    fixture_passes(f, 2);
    assert_true(net_is_flushed(&f->net));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, setup)
    const struct CMUnitTest tests[] = {
        T(test_frames_of_a_call_come_in_order_and_end_once),
        T(test_end_says_what_drafts_brought_when_it_was_asked),
        T(test_end_says_what_drafts_brought_when_it_was_asked),
        T(test_call_that_fails_before_a_token_still_gets_accept_and_done),
        T(test_end_of_turn_token_is_reported_as_eos),
        T(test_short_sends_change_nothing),
        T(test_reader_that_stops_pauses_its_own_calls_only),
        T(test_resumed_call_makes_the_loop_go_on),
        T(test_reader_that_stops_is_dropped_at_the_write_deadline),
        T(test_slow_reader_that_moves_is_not_dropped),
        T(test_calls_of_a_slow_connection_take_turns),
        T(test_backlog_with_an_empty_buffer_makes_the_loop_go_on),
        T(test_flushed_means_that_the_last_byte_was_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
