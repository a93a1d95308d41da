/* SPDX-License-Identifier: MIT */
/*
 * Goal: a call that has ended is never executed twice while its reply is on record: a client that
 * sends it again gets the same answer, frame by frame; a different call with its ids is refused.
 * A call that is not on record (forgotten, failed, broken off) runs again.
 * Method: the record of the fixture is small: 4 calls, 100 tokens. Commands that the scheduler sees
 * are counted.
 */
#include "selftest/unit/net/net_client.h"

#include "net/kept/replies.h"

/* Sends the call, lets it generate `tokens` times (call id + index) and end; takes the answer. */
static void run_call(struct fixture *f, uint32_t peer, const struct wire_call *call,
                     uint32_t tokens, enum call_finish finish)
{
    uint32_t slot = start_call(f, peer, call);
    for (uint32_t i = 0; i < tokens; i++) {
        fixture_generate(f, slot, FIXTURE_BYTE(call->call_id + i));
        fixture_pass(f);
        read_all(f, peer);
    }
    fixture_finish(f, slot, finish, STATUS_OK);
    fixture_pass(f);
    read_all(f, peer);
    assert_true(answers[call->call_id].done);
}

/* Sends the call again, after forgetting its answer here and in the slots. */
static void ask_again(struct fixture *f, uint32_t peer, const struct wire_call *call)
{
    memset(&answers[call->call_id], 0, sizeof answers[call->call_id]);
    for (uint32_t i = 0; i < f->calls.count; i++) {
        if (fixture_call(f, i)->state == CALL_FREE) {
            memset(fixture_call(f, i)->tokens, 0xff, 4 * (size_t)f->limits.context_tokens);
        }
    }
    fixture_send_call(f, peer, call);
    fixture_passes(f, 2);
}

/* It is answered as the last time, and the scheduler has not seen it. */
static void expect_replay(struct fixture *f, uint32_t peer, const struct wire_call *call)
{
    const struct answer_so_far *answer = &answers[call->call_id], before = *answer;
    uint64_t calls = f->commands[COMMAND_CALL], replayed = f->stats.calls_replayed;
    uint32_t free_count = f->calls.free_count;
    ask_again(f, peer, call);
    read_all(f, peer);
    assert_true(before.done && answer->done && answer->replayed);
    assert_int_equal(f->commands[COMMAND_CALL], calls);
    assert_int_equal(f->stats.calls_replayed, replayed + 1);
    assert_int_equal(answer->tokens_count, before.tokens_count);
    assert_memory_equal(answer->tokens, before.tokens, 4 * (size_t)before.tokens_count);
    assert_int_equal(answer->text_bytes, before.text_bytes);
    assert_memory_equal(answer->text, before.text, before.text_bytes);
    assert_memory_equal(&answer->end, &before.end, sizeof before.end);
    expect_slots_free(f, free_count);
}

static void expect_run(struct fixture *f, uint32_t peer, const struct wire_call *call)
{
    memset(&answers[call->call_id], 0, sizeof answers[call->call_id]);
    start_call(f, peer, call);
    read_all(f, peer);
    assert_true(answers[call->call_id].accepted && !answers[call->call_id].replayed);
}

/* ---- answered from the record ---------------------------------------------------------------- */

static void test_ended_call_is_answered_and_not_executed(void **state)
{
    struct fixture *f = *state;
    uint32_t one = open_client(f), other = open_client(f);
    struct wire_call call = fixture_wire_call(1);
    call.flags |= WIRE_CALL_WANT_DRAFTS;
    uint32_t slot = start_call(f, one, &call);
    struct call *record = fixture_call(f, slot);
    record->queue = 4;
    record->wait_us = 5;
    record->service_us = 6;
    record->cached_tokens = 1;
    record->preemptions = 2;
    record->draft_tokens = 9;
    record->draft_tokens_agreed = 4;
    for (uint32_t i = 0; i < 7; i++) {
        fixture_generate(f, slot, 100 + i);
    }
    f->fake.now_us += 1000;
    fixture_finish(f, slot, CALL_FINISH_LENGTH, STATUS_OK);
    fixture_pass(f);
    read_all(f, one);
    assert_int_equal(answers[1].end.total_us, 1000);
    assert_int_equal(answers[1].end.drafts.draft_tokens_agreed, 4);
    fixture_sleep(f, 5000);
    expect_replay(f, one, &call);
    expect_replay(f, other, &call);
    fake_client_finish(&f->fake, one);
    fixture_pass(f);
    expect_replay(f, other, &call);
}

/* The terminal frame waits in the buffer of a client that reads no more. */
static void test_answer_that_was_lost_on_its_way_is_given_again(void **state)
{
    struct fixture *f = *state;
    uint32_t one = open_client(f), other = open_client(f);
    struct wire_call call = fixture_wire_call(1);
    fake_client_window(&f->fake, one, 0);
    uint32_t slot = start_call(f, one, &call);
    fixture_generate(f, slot, 77);
    fixture_finish(f, slot, CALL_FINISH_EOS, STATUS_OK);
    fixture_pass(f);
    fake_client_reset(&f->fake, one);
    fixture_passes(f, 2);
    ask_again(f, other, &call);
    read_all(f, other);
    assert_true(answers[1].done && answers[1].replayed);
    assert_int_equal(answers[1].tokens[0], 77);
    assert_int_equal(answers[1].end.finish, CALL_FINISH_EOS);
    assert_int_equal(f->commands[COMMAND_CALL], 1);
}

static void test_text_and_stop_strings_come_out_the_same(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    static const struct { const char *said, *stop; } rows[] = {
        {"plain text", NULL}, {"before END behind", "END"}, {"half of EN", "END"},
        {"h\xc3\xa9llo \xe2\x82", NULL}};
    for (uint32_t i = 0; i < 4; i++) {
        struct wire_call call = text_call(i, rows[i].stop);
        uint32_t slot = start_call(f, peer, &call);
        generate_text(f, slot, rows[i].said);
        if (fixture_call(f, slot)->state == CALL_QUEUED) {
            fixture_finish(f, slot, CALL_FINISH_LENGTH, STATUS_OK);
        }
        fixture_passes(f, 2);
        read_all(f, peer);
        assert_true(answers[i].done);
        expect_replay(f, peer, &call);
    }
    expect_text(1, "before ");
    assert_int_equal(answers[1].end.finish, CALL_FINISH_STOP_TEXT);
    expect_text(3, "h\xc3\xa9llo \xef\xbf\xbd");
}

static void test_end_of_turn_is_eos_again(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    struct wire_call call = fixture_wire_call(1);
    uint32_t slot = start_call(f, peer, &call);
    fixture_generate(f, slot, 3);
    fixture_finish(f, slot, CALL_FINISH_STOP_ID, STATUS_OK);
    fixture_pass(f);
    read_all(f, peer);
    assert_int_equal(answers[1].end.finish, CALL_FINISH_EOS);
    expect_replay(f, peer, &call);
}

static void test_cancelled_and_expired_calls_are_told_as_they_ended(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    struct wire_call call = fixture_wire_call(1);
    uint32_t slot = start_call(f, peer, &call);
    fixture_generate(f, slot, 9);
    fixture_send_cancel(f, peer, 1, "program");
    fixture_pass(f);
    read_all(f, peer);
    assert_int_equal(answers[1].end.finish, CALL_FINISH_CANCELLED);
    expect_replay(f, peer, &call);
    call.call_id = 2;
    run_call(f, peer, &call, 3, CALL_FINISH_DEADLINE);
    expect_replay(f, peer, &call);
}

static void test_program_that_ended_has_left_its_answers(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    struct wire_call call = fixture_wire_call(1);
    run_call(f, peer, &call, 3, CALL_FINISH_EOS);
    fixture_send_program(f, peer, WIRE_PROGRAM_END, "program");
    fixture_pass(f);
    assert_true(fixture_receive(f, peer, &got));
    assert_int_equal(got.type, WIRE_PROGRAM_OK);
    expect_replay(f, peer, &call);
}

static void test_replayed_call_waits_for_a_slow_reader(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f), slow = open_client(f);
    fixture_token_texts[0] = "thirty-one bytes of text a token";
    f->next_token = FIXTURE_TEXT_TOKEN;
    struct wire_call call = text_call(1, NULL);
    f->generates = true;
    start_call(f, peer, &call);
    fixture_passes(f, 62);
    read_all(f, peer);
    assert_int_equal(answers[1].tokens_count, 60);
    const struct answer_so_far before = answers[1];
    fake_client_window(&f->fake, slow, 100);
    f->limits.send_bytes = 4096 - 1200;     /* less than all of its frames */
    ask_again(f, slow, &call);
    assert_int_equal(f->calls.free_count, 7);
    fixture_send_cancel(f, slow, 1, "program");     /* it has ended: nothing to cancel */
    fixture_passes(f, 5);
    assert_int_equal(f->calls.free_count, 7);
    assert_int_equal(f->commands[COMMAND_CANCEL], 0);
    expect_alive(f, peer);
    fake_client_window(&f->fake, slow, FAKE_QUEUE_BYTES);
    fixture_passes(f, 100);
    read_all(f, slow);
    assert_true(answers[1].done && answers[1].replayed);
    assert_int_equal(answers[1].text_bytes, before.text_bytes);
    assert_memory_equal(&answers[1].end, &before.end, sizeof before.end);
    expect_slots_free(f, 8);
}

static void test_replayed_call_that_loses_its_client_frees_the_slot(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f), slow = open_client(f);
    struct wire_call call = fixture_wire_call(1);
    run_call(f, peer, &call, 3, CALL_FINISH_EOS);
    fixture_send_call(f, slow, &call);
    fake_client_finish(&f->fake, slow);             /* the frame is still acted upon */
    fixture_passes(f, 3);
    assert_int_equal(f->stats.calls_replayed, 1);
    expect_slots_free(f, 8);
    expect_replay(f, peer, &call);
}

/* ---- something else by the same ids ---------------------------------------------------------- */

static void refuse_reused(struct fixture *f, uint32_t peer, const struct wire_call *call)
{
    fixture_send_call(f, peer, call);
    fixture_pass(f);
    expect_error(f, peer, STATUS_BAD_CALL_REUSED, WIRE_FIELD_CALL_ID, false);
    assert_int_equal(got.error.fault.frame_type, WIRE_CALL);
    assert_true(got.error.fault.call_id == call->call_id);
    expect_slots_free(f, 8);
}

static void test_another_request_with_the_ids_is_refused(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    static const uint8_t other_prompt[8] = {1, 0, 0, 0, 10, 0, 0, 0};
    const struct wire_call call = fixture_wire_call(1);
    run_call(f, peer, &call, 3, CALL_FINISH_EOS);
    struct wire_call others[8];
    for (uint32_t i = 0; i < 8; i++) {
        others[i] = call;
    }
    others[0].prompt = other_prompt;
    others[1].max_tokens++;
    others[2].sampling.seed++;
    others[3].thread++;
    others[4].deadline_us = 1000000;
    others[5].flags = WIRE_CALL_IGNORE_EOS;
    others[6].sampling.temperature = 1;
    others[7].prompt_count = 1;
    for (uint32_t i = 0; i < 8; i++) {
        refuse_reused(f, peer, &others[i]);
    }
    assert_int_equal(f->stats.calls_refused, 8);
    expect_replay(f, peer, &call);
}

/* Two requests whose digests are equal by chance: the tokens must fit after the prompt even so. */
static void test_prompt_of_another_length_is_another_request(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    const struct wire_call call = fixture_wire_call(1);
    run_call(f, peer, &call, 3, CALL_FINISH_EOS);
    f->net.replies.records[0].done.prompt_tokens = 1;
    refuse_reused(f, peer, &call);
}

/* Many programs and few heads: they meet in the chains. */
static void test_foreign_program_has_ids_of_its_own(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    struct wire_call call = fixture_wire_call(1);
    run_call(f, peer, &call, 3, CALL_FINISH_EOS);
    for (uint8_t i = 1; i <= 40; i++) {
        call.program_id[15] = i;
        call.thread = i;
        memset(&answers[1], 0, sizeof answers[1]);
        run_call(f, peer, &call, i % 3, CALL_FINISH_EOS);
        assert_false(answers[1].replayed);
        expect_replay(f, peer, &call);
    }
}

/* ---- not on record --------------------------------------------------------------------------- */

static void test_oldest_is_forgotten_when_there_are_too_many(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    struct wire_call call = fixture_wire_call(0);
    for (call.call_id = 0; call.call_id < 5; call.call_id++) {
        run_call(f, peer, &call, 1, CALL_FINISH_EOS);
    }
    for (call.call_id = 1; call.call_id < 5; call.call_id++) {
        expect_replay(f, peer, &call);
    }
    call.call_id = 0;
    expect_run(f, peer, &call);
}

static void test_oldest_are_forgotten_when_tokens_are_too_many(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    struct wire_call call = fixture_wire_call(0);
    call.max_tokens = 60;
    for (call.call_id = 0; call.call_id < 3; call.call_id++) {
        run_call(f, peer, &call, 33, CALL_FINISH_EOS);          /* 99 of 100 */
    }
    call.call_id = 0;
    expect_replay(f, peer, &call);
    call.call_id = 3;
    run_call(f, peer, &call, 1, CALL_FINISH_EOS);               /* 100: all stay */
    call.call_id = 0;
    expect_replay(f, peer, &call);
    call.call_id = 4;
    run_call(f, peer, &call, 60, CALL_FINISH_EOS);              /* 0 and 1 must go */
    for (call.call_id = 2; call.call_id < 5; call.call_id++) {
        expect_replay(f, peer, &call);
    }
    call.call_id = 1;
    expect_run(f, peer, &call);
}

/* Lengths of all kinds, the ring of tokens many times around. */
static void test_ring_of_tokens_goes_round(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    struct wire_call call = fixture_wire_call(0);
    call.max_tokens = 60;
    for (uint32_t i = 0; i < 200; i++) {
        call.call_id = i % 16;
        call.sampling.seed = i;
        memset(&answers[call.call_id], 0, sizeof answers[0]);
        run_call(f, peer, &call, i * 37 % 61, CALL_FINISH_EOS);
        expect_replay(f, peer, &call);
    }
}

static void test_call_that_a_break_ended_runs_again(void **state)
{
    struct fixture *f = *state;
    uint32_t one = open_client(f), other = open_client(f);
    struct wire_call call = fixture_wire_call(1);
    uint32_t slot = start_call(f, one, &call);
    fixture_generate(f, slot, 9);
    fixture_pass(f);
    fake_client_reset(&f->fake, one);
    fixture_passes(f, 2);
    expect_run(f, other, &call);
}

/* It had ended, but its client had no room even for ACCEPT. */
static void test_call_that_ended_unsaid_runs_again(void **state)
{
    struct fixture *f = *state;
    uint32_t one = open_client(f), other = open_client(f);
    struct wire_call call = fixture_wire_call(1);
    fake_client_window(&f->fake, one, 0);
    f->limits.send_bytes = 2048 + 8;        /* of which 2048 are kept for replies */
    uint32_t slot = start_call(f, one, &call);
    fixture_finish(f, slot, CALL_FINISH_EOS, STATUS_OK);
    fixture_pass(f);
    fake_client_reset(&f->fake, one);
    fixture_passes(f, 2);
    f->limits.send_bytes = 4096;
    expect_run(f, other, &call);
}

static void test_call_that_failed_runs_again(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    struct wire_call call = fixture_wire_call(1);
    run_call(f, peer, &call, 2, CALL_FINISH_FAILED);
    expect_run(f, peer, &call);
}

static void test_without_a_record_every_call_runs(void **state)
{
    struct fixture *f = *state;
    struct limits limits = fixture_limits;
    limits.replies = limits.reply_tokens = 0;
    fixture_init(f, test_arena(), &limits);
    uint32_t peer = open_client(f);
    struct wire_call call = fixture_wire_call(1);
    run_call(f, peer, &call, 2, CALL_FINISH_EOS);
    expect_run(f, peer, &call);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, setup)
    const struct CMUnitTest tests[] = {
        T(test_ended_call_is_answered_and_not_executed),
        T(test_answer_that_was_lost_on_its_way_is_given_again),
        T(test_text_and_stop_strings_come_out_the_same),
        T(test_end_of_turn_is_eos_again),
        T(test_cancelled_and_expired_calls_are_told_as_they_ended),
        T(test_program_that_ended_has_left_its_answers),
        T(test_replayed_call_waits_for_a_slow_reader),
        T(test_replayed_call_that_loses_its_client_frees_the_slot),
        T(test_another_request_with_the_ids_is_refused),
        T(test_prompt_of_another_length_is_another_request),
        T(test_foreign_program_has_ids_of_its_own),
        T(test_oldest_is_forgotten_when_there_are_too_many),
        T(test_oldest_are_forgotten_when_tokens_are_too_many),
        T(test_ring_of_tokens_goes_round),
        T(test_call_that_a_break_ended_runs_again),
        T(test_call_that_ended_unsaid_runs_again),
        T(test_call_that_failed_runs_again),
        T(test_without_a_record_every_call_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
