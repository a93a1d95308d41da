/* SPDX-License-Identifier: MIT */
/*
 * Goal: the self-test's client accepts right answers. It reports a gap in the tokens, a wrong
 * digest, an early end, an answer that differs from the call's earlier one, and frames of unknown
 * calls.
 * Method: frames made here and handed to the client; no socket.
 */
#include "selftest/unit/test.h"

#include "selftest/post/call.h"

static struct post_client client;
static struct post_faults faults;

static void start(void)
{
    const struct limits limits = {.vocab_tokens = 64, .context_tokens = 256, .programs = 9,
                                  .calls_per_connection = 20};
    memset(&faults, 0, sizeof faults);
    post_client_init(&client, &limits, POST_CALLS_MAX, &faults);
    for (uint32_t i = 0; i < client.calls_count; i++) {
        client.asked[i].digest = WIRE_DIGEST_START;
    }
}

/* Number of tokens that a call asks for, from its frame. */
static uint32_t asked_tokens(uint32_t call)
{
    static uint8_t frame[4096];
    struct wire_call wire;
    struct wire_fault fault;
    uint32_t bytes = post_client_encode(&client, call, frame, sizeof frame);
    assert_true(bytes > WIRE_HEADER_BYTES);
    assert_status(STATUS_OK, wire_call_decode(frame + WIRE_HEADER_BYTES,
                                              bytes - WIRE_HEADER_BYTES, &wire, &fault));
    assert_int_equal(wire.call_id, call + 1);
    assert_true(wire.prompt_count + wire.max_tokens <= client.context_tokens);
    return wire.max_tokens;
}

static void say_tokens(uint32_t call, uint32_t first, const uint32_t *tokens, uint32_t count)
{
    uint8_t frame[4096];
    const struct wire_tokens wire = {
        .call_id = call + 1, .first_index = first, .tokens_count = count};
    uint32_t bytes = wire_tokens_encode(&wire, tokens, frame, sizeof frame);
    post_client_take(&client, WIRE_TOKENS, frame + WIRE_HEADER_BYTES, bytes - WIRE_HEADER_BYTES);
}

static void say_done(uint32_t call, uint32_t generated, uint64_t digest)
{
    uint8_t frame[256];
    const struct wire_done wire = {.call_id = call + 1, .finish = CALL_FINISH_LENGTH,
                                   .generated_tokens = generated, .digest = digest};
    uint32_t bytes = wire_done_encode(&wire, frame, sizeof frame);
    post_client_take(&client, WIRE_DONE, frame + WIRE_HEADER_BYTES, bytes - WIRE_HEADER_BYTES);
}

/* Gives a whole right answer, of tokens from `token` on; then the next round begins. */
static void answer(uint32_t call, uint32_t token)
{
    uint32_t tokens[64];
    uint32_t count = asked_tokens(call);
    for (uint32_t i = 0; i < count; i++) {
        tokens[i] = token + i;
    }
    say_tokens(call, 0, tokens, count);
    say_done(call, count, wire_digest(WIRE_DIGEST_START, tokens, count));
    client.asked[call] = (struct post_asked){.digest = WIRE_DIGEST_START,
                                             .known = client.asked[call].known,
                                             .is_known = client.asked[call].is_known};
}

static void test_right_answers_have_no_faults(void **state)
{
    (void)state;
    start();
    assert_int_equal(client.calls_count, 20);
    for (uint32_t i = 0; i < 40; i++) {
        answer(i % 20, i % 20);
    }
    assert_int_equal(faults.count, 0);
    assert_int_equal(client.done_count, 40);
}

static void test_canaries_are_the_same_call(void **state)
{
    (void)state;
    uint8_t a[512], b[512];
    start();
    uint32_t bytes = post_client_encode(&client, 0, a, sizeof a);
    assert_int_equal(post_client_encode(&client, POST_CANARY_EVERY, b, sizeof b), bytes);
    assert_memory_equal(a + bytes - 4 * 4, b + bytes - 4 * 4, 4 * 4);   /* the prompt */
    assert_int_equal(asked_tokens(0), asked_tokens(POST_CANARY_EVERY));
}

static void test_answer_other_than_alone_is_found(void **state)
{
    (void)state;
    start();
    answer(3, 5);
    answer(3, 6);
    assert_int_equal(faults.count, 1);
    assert_non_null(strstr(faults.kept[0].where, "alone"));
}

static void test_gap_in_tokens_is_found(void **state)
{
    (void)state;
    const uint32_t tokens[] = {1, 2};
    start();
    say_tokens(1, 0, tokens, 2);
    say_tokens(1, 3, tokens, 2);
    assert_int_equal(faults.count, 1);
}

static void test_wrong_digest_or_early_end_is_found(void **state)
{
    (void)state;
    const uint32_t tokens[64] = {1, 2};
    start();
    uint32_t count = asked_tokens(1);
    say_tokens(1, 0, tokens, count);
    say_done(1, count, 1);
    assert_int_equal(faults.count, 1);
    say_done(2, 0, WIRE_DIGEST_START);
    assert_int_equal(faults.count, 2);
    say_done(3, asked_tokens(3), WIRE_DIGEST_START);        /* of tokens that were not sent */
    assert_int_equal(faults.count, 3);
}

static void test_frames_of_unknown_calls_are_found(void **state)
{
    (void)state;
    const uint32_t tokens[] = {1};
    start();
    say_tokens(20, 0, tokens, 1);
    say_done(20, 0, 0);
    assert_int_equal(faults.count, 2);
    say_done(UINT32_MAX, 0, 0);             /* call id 0 */
    assert_int_equal(faults.count, 3);
    post_client_take(&client, WIRE_ERROR, NULL, 0);
    assert_int_equal(faults.count, 4);
    for (uint32_t i = 0; i < asked_tokens(4); i++) {
        say_tokens(4, i, tokens, 1);
    }
    say_done(4, asked_tokens(4), client.asked[4].digest);
    assert_int_equal(faults.count, 4);
    say_done(4, asked_tokens(4), client.asked[4].digest);   /* right, but a second time */
    assert_int_equal(faults.count, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right_answers_have_no_faults),
        cmocka_unit_test(test_canaries_are_the_same_call),
        cmocka_unit_test(test_answer_other_than_alone_is_found),
        cmocka_unit_test(test_gap_in_tokens_is_found),
        cmocka_unit_test(test_wrong_digest_or_early_end_is_found),
        cmocka_unit_test(test_frames_of_unknown_calls_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
