/* SPDX-License-Identifier: MIT */
/*
 * Goal: a client that resumes loses nothing, gets nothing twice, and finds answers that differ from
 * those before the break.
 * Method: breaks in each state of a session in memory.
 */
#include "selftest/unit/tools/resume_rig.h"

/* ---- breaks ---------------------------------------------------------------------------------- */

static void test_break_in_each_state_goes_on_where_it_was(void **state)
{
    const struct agx_call call = call_of(1);
    for (int stage = 0; stage < 6; stage++) {
        struct agx agx;
        struct wire_call sent;
        struct agx_event last;
        memset(&told, 0, sizeof told);
        open_session(&agx, &call);
        if (stage > 0) {                        /* else its frame was not even sent */
            assert_true(take_sent_call(&agx, &sent));
        }
        if (stage > 1) {
            feed(&agx, accept_frame(1, 0, frame));
        }
        if (stage > 2) {
            feed_part(&agx, (struct part){0, 2, 0, 4});
        }
        if (stage > 3) {
            feed_part(&agx, (struct part){2, 4, 4, TEXT_BYTES - 4});
        }
        if (stage > 4) {                        /* half of DONE */
            feed(&agx, done_frame(CALL_FINISH_LENGTH, STATUS_OK, answer, TOKENS, frame) / 2);
        }
        assert_int_equal(take_all(&agx, &last), AGX_AGAIN);
        resume(&agx);
        expect_sent(&agx, &call);
        feed(&agx, accept_frame(1, 0, frame));
        feed_part(&agx, (struct part){0, TOKENS, 0, TEXT_BYTES});
        feed_done(&agx);
        expect_whole(&agx);
        assert_int_equal(agx_session_call(&agx, &call), AGX_OK);     /* the id is free */
    }
}

/* Whatever was told, and however the second answer is cut into two frames. */
static void test_second_answer_may_be_cut_elsewhere(void **state)
{
    static const uint32_t cuts[] = {0, 1, 3, 4, 5, 9, 11, 14};  /* between two characters */
    const struct agx_call call = call_of(1);
    const uint32_t cuts_count = sizeof cuts / sizeof cuts[0];
    for (uint32_t i = 0; i < 8 * 8 * (TOKENS + 1) * (TOKENS + 1); i++) {
        struct agx agx;
        uint32_t was = cuts[i % 8], now = cuts[i / 8 % 8];
        uint32_t had = i / 64 % (TOKENS + 1), has = i / 64 / (TOKENS + 1);
        assert_int_equal(cuts[cuts_count - 1], TEXT_BYTES);
        open_and_hear(&agx, &call, had, was);
        resume(&agx);
        feed(&agx, accept_frame(1, 0, frame));
        feed_part(&agx, (struct part){0, has, 0, now});
        feed_part(&agx, (struct part){has, TOKENS - has, now, TEXT_BYTES - now});
        feed_done(&agx);
        expect_whole(&agx);
    }
}

static void test_break_after_break_goes_on(void **state)
{
    struct agx agx;
    struct agx_event last;
    const struct agx_call call = call_of(1);
    open_and_hear(&agx, &call, 4, 9);
    for (int i = 0; i < 3; i++) {               /* each comes less far than the first */
        resume(&agx);
        feed(&agx, accept_frame(1, 0, frame));
        feed_part(&agx, (struct part){0, 2, 0, 5});
        assert_int_equal(take_all(&agx, &last), AGX_AGAIN);
        assert_int_equal(told.tokens_count, 4);
    }
    resume(&agx);
    feed(&agx, accept_frame(1, 0, frame));
    feed_part(&agx, (struct part){0, TOKENS, 0, TEXT_BYTES});
    feed_done(&agx);
    expect_whole(&agx);
}

static void test_answer_from_the_record_says_so(void **state)
{
    const struct agx_call call = call_of(1);
    for (uint32_t flags = 0; flags < 2; flags++) {
        struct agx agx;
        struct agx_event last;
        open_and_hear(&agx, &call, 2, 3);
        resume(&agx);
        feed(&agx, accept_frame(1, flags, frame));
        feed_part(&agx, (struct part){0, TOKENS, 0, TEXT_BYTES});
        feed_done(&agx);
        assert_int_equal(take_all(&agx, &last), AGX_AGAIN);
        assert_int_equal(last.kind, AGX_DONE);
        assert_int_equal(last.is_replayed, flags);
    }
}

/* The appliance gives a call up when it shuts down: no end for us, and nothing to send it yet. */
static void test_end_by_shutdown_is_a_break(void **state)
{
    struct agx agx;
    struct agx_event last;
    struct wire_call sent;
    const struct agx_call call = call_of(1);
    open_and_hear(&agx, &call, 2, 3);
    feed(&agx, done_frame(CALL_FINISH_FAILED, STATUS_GONE_SHUTDOWN, answer, 2, frame));
    assert_int_equal(take_all(&agx, &last), AGX_AGAIN);
    assert_int_equal(told.dones, 0);
    assert_int_equal(agx_session_resend(&agx), AGX_OK);
    assert_false(take_sent_call(&agx, &sent));
    resume(&agx);
    expect_sent(&agx, &call);
    feed(&agx, accept_frame(1, 0, frame));
    feed_part(&agx, (struct part){0, TOKENS, 0, TEXT_BYTES});
    feed_done(&agx);
    expect_whole(&agx);
}

static void test_cancelled_call_may_come_less_far_than_before(void **state)
{
    struct agx agx;
    struct agx_event last;
    const struct agx_call call = call_of(1);
    open_and_hear(&agx, &call, 4, 9);
    resume(&agx);
    feed(&agx, accept_frame(1, 0, frame));
    feed_part(&agx, (struct part){0, 1, 0, 0});
    feed(&agx, done_frame(CALL_FINISH_CANCELLED, STATUS_GONE_CANCELLED, answer, 1, frame));
    assert_int_equal(take_all(&agx, &last), AGX_AGAIN);
    assert_int_equal(last.kind, AGX_DONE);
    assert_int_equal(last.finish, AGX_FINISH_CANCELLED);
    assert_int_equal(last.generated_tokens, 4);
    assert_true(last.digest == wire_digest(WIRE_DIGEST_START, answer, 4));
}

/* What waits when a call ends early is not sent, this time or the last time. */
static void test_sooner_end_may_say_less(void **state)
{
    for (uint32_t told_bytes = 3; told_bytes < 6; told_bytes++) {
        struct agx agx;
        struct agx_event last;
        const struct agx_call call = call_of(1);
        open_and_hear(&agx, &call, 4, told_bytes);
        resume(&agx);
        feed(&agx, accept_frame(1, 0, frame));
        feed_part(&agx, (struct part){0, 2, 0, 1});     /* and half a character, which waits */
        feed(&agx, done_frame(CALL_FINISH_CANCELLED, STATUS_GONE_CANCELLED, answer, 2, frame));
        assert_int_equal(take_all(&agx, &last), AGX_AGAIN);
        assert_int_equal(last.kind, AGX_DONE);
        assert_int_equal(told.text_bytes, told_bytes);
        assert_true(agx.broken == AGX_OK);
    }
}

/* ---- answers that differ after the break ----------------------------------------------------- */

static void expect_different(struct agx *agx)
{
    struct agx_event last;
    assert_int_equal(take_all(agx, &last), AGX_ERROR_DIFFERENT);
    assert_int_equal(agx_resume(agx, "unix:/nowhere", NULL, 0), AGX_ERROR_DIFFERENT);
}

static void resume_and_accept(struct agx *agx, const struct agx_call *call, uint32_t tokens,
                              uint32_t bytes)
{
    open_and_hear(agx, call, tokens, bytes);
    resume(agx);
    feed(agx, accept_frame(1, 0, frame));
}

static void test_other_tokens_are_found_before_any_new_one(void **state)
{
    const struct agx_call call = call_of(1);
    for (uint32_t wrong = 0; wrong < 4; wrong++) {
        struct agx agx;
        uint32_t other[TOKENS];
        memcpy(other, answer, sizeof other);
        other[wrong]++;
        resume_and_accept(&agx, &call, 4, 0);
        feed(&agx, part_frame((struct part){0, 3, 0, 0}, other, text, frame));
        feed(&agx, part_frame((struct part){3, 3, 0, 0}, other, text, frame));
        expect_different(&agx);
        assert_int_equal(told.tokens_count, 4);
    }
}

static void test_other_text_is_found_before_any_new_one(void **state)
{
    struct agx agx;
    const struct agx_call call = call_of(1);
    resume_and_accept(&agx, &call, 0, 5);
    feed(&agx, part_frame((struct part){0, 1, 0, TEXT_BYTES}, answer, "h\xc3\xa9lpo, w\xc3\xb6rld",
                          frame));
    expect_different(&agx);
    assert_int_equal(told.text_bytes, 5);
}

static void test_answer_that_is_whole_but_shorter_is_found(void **state)
{
    struct agx agx;
    const struct agx_call call = call_of(1);
    resume_and_accept(&agx, &call, 4, 0);
    feed_part(&agx, (struct part){0, 3, 0, 0});
    feed(&agx, done_frame(CALL_FINISH_EOS, STATUS_OK, answer, 3, frame));
    expect_different(&agx);
    resume_and_accept(&agx, &call, 3, 3);       /* another text of fewer tokens than were told */
    feed(&agx, part_frame((struct part){0, 2, 0, 3}, answer, "hel", frame));
    feed_part(&agx, (struct part){2, 2, 3, 1});
    expect_different(&agx);
    resume_and_accept(&agx, &call, 3, 3);       /* the same, and it ends there */
    feed(&agx, part_frame((struct part){0, 2, 0, 3}, answer, "hel", frame));
    feed(&agx, done_frame(CALL_FINISH_EOS, STATUS_OK, answer, 2, frame));
    expect_different(&agx);
    resume_and_accept(&agx, &call, 2, 5);       /* as many tokens, and less text */
    feed_part(&agx, (struct part){0, 2, 0, 4});
    feed(&agx, done_frame(CALL_FINISH_EOS, STATUS_OK, answer, 2, frame));
    expect_different(&agx);
}

static void test_gap_in_the_second_answer_is_found(void **state)
{
    struct agx agx;
    struct agx_event last;
    const struct agx_call call = call_of(1);
    resume_and_accept(&agx, &call, 3, 0);
    feed_part(&agx, (struct part){3, 3, 0, 0});     /* as if the first three were taken for sent */
    assert_int_equal(take_all(&agx, &last), AGX_ERROR_INDEX);
    resume_and_accept(&agx, &call, 3, 0);
    feed_part(&agx, (struct part){0, 2, 0, 0});
    feed(&agx, done_frame(CALL_FINISH_LENGTH, STATUS_OK, answer, TOKENS, frame));
    assert_int_equal(take_all(&agx, &last), AGX_ERROR_INDEX);
}

/* Frames for a call that is not sent yet. */
static void test_answer_before_the_question_is_found(void **state)
{
    struct agx agx;
    struct agx_event last;
    const struct agx_call call = call_of(1);
    open_and_hear(&agx, &call, 2, 0);
    agx_session_break(&agx, AGX_ERROR_CLOSED);
    agx_session_reset(&agx);
    greet(&agx, 2);
    agx_session_resume(&agx);
    feed_part(&agx, (struct part){0, 1, 0, 0});
    assert_int_equal(take_all(&agx, &last), AGX_ERROR_PROTOCOL);
}

/* ---- refusals and room ----------------------------------------------------------------------- */

static void test_busy_is_asked_again_and_other_refusals_are_told(void **state)
{
    struct agx agx;
    struct agx_event last;
    struct wire_call sent;
    const struct agx_call call = call_of(1), fresh = call_of(2);
    open_and_hear(&agx, &call, 2, 0);
    resume(&agx);
    expect_sent(&agx, &call);
    for (int i = 0; i < 3; i++) {
        feed(&agx, error_frame(STATUS_BUSY_CALL_OPEN, 1, frame));
        assert_int_equal(take_all(&agx, &last), AGX_AGAIN);
        assert_int_equal(agx_session_resend(&agx), AGX_OK);
        expect_sent(&agx, &call);
    }
    feed(&agx, error_frame(STATUS_BUSY_DRAINING, 1, frame));
    assert_int_equal(take_all(&agx, &last), AGX_AGAIN);
    resume(&agx);                               /* a break while it waits */
    expect_sent(&agx, &call);
    /* A new call is its caller's to repeat. */
    assert_int_equal(agx_session_call(&agx, &fresh), AGX_OK);
    feed(&agx, error_frame(STATUS_BUSY_CALLS, 2, frame));
    assert_int_equal(take_all(&agx, &last), AGX_AGAIN);
    assert_int_equal(last.kind, AGX_REFUSED);
    assert_int_equal(last.call_id, 2);
    assert_true(take_sent_call(&agx, &sent));
    feed(&agx, error_frame(STATUS_BAD_CALL_REUSED, 1, frame));
    assert_int_equal(take_all(&agx, &last), AGX_AGAIN);
    assert_int_equal(last.kind, AGX_REFUSED);
    assert_int_equal(last.call_id, 1);
    assert_int_equal(agx_session_call(&agx, &call), AGX_OK);
}

/* More open calls than the output buffer holds: they go out as it empties. */
static void test_many_calls_are_sent_again_as_there_is_room(void **state)
{
    static const uint32_t prompt[1000];
    static struct agx_call calls[AGX_CALLS_MAX];
    struct agx agx;
    struct wire_call sent;
    uint32_t rounds = 0, seen = 0;
    assert_int_equal(agx_session_init(&agx, buffer, sizeof buffer), AGX_OK);
    greet(&agx, 1);
    for (uint32_t i = 0; i < AGX_CALLS_MAX; i++) {
        calls[i] = call_of(i);
        calls[i].prompt_ids = prompt;
        calls[i].prompt_ids_count = 1000;
        assert_int_equal(agx_session_call(&agx, &calls[i]), AGX_OK);
        assert_true(take_sent_call(&agx, &sent));
    }
    resume(&agx);
    for (; seen < AGX_CALLS_MAX; rounds++) {
        assert_int_equal(agx_session_resend(&agx), AGX_OK);
        while (take_sent_call(&agx, &sent)) {
            assert_int_equal(sent.call_id, seen++);
        }
    }
    assert_true(rounds > 4);
    assert_int_equal(agx.calls_due, 0);
}

static void test_call_that_no_longer_fits_ends_the_session(void **state)
{
    struct agx agx;
    struct agx_event last;
    const struct agx_call call = call_of(1);
    open_and_hear(&agx, &call, 2, 0);
    agx_session_break(&agx, AGX_ERROR_CLOSED);
    agx_session_reset(&agx);
    greet(&agx, 2);
    agx.welcome.frame_bytes_max = WIRE_CALL_BYTES_MIN;
    agx_session_resume(&agx);
    assert_int_equal(agx_session_resend(&agx), AGX_ERROR_ARGUMENT);
    assert_string_equal(agx_fault(&agx)->field, "length");
    assert_int_equal(take_all(&agx, &last), AGX_ERROR_ARGUMENT);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, set_up)
    const struct CMUnitTest tests[] = {
        T(test_break_in_each_state_goes_on_where_it_was),
        T(test_second_answer_may_be_cut_elsewhere),
        T(test_break_after_break_goes_on),
        T(test_answer_from_the_record_says_so),
        T(test_end_by_shutdown_is_a_break),
        T(test_cancelled_call_may_come_less_far_than_before),
        T(test_sooner_end_may_say_less),
        T(test_other_tokens_are_found_before_any_new_one),
        T(test_other_text_is_found_before_any_new_one),
        T(test_answer_that_is_whole_but_shorter_is_found),
        T(test_gap_in_the_second_answer_is_found),
        T(test_answer_before_the_question_is_found),
        T(test_busy_is_asked_again_and_other_refusals_are_told),
        T(test_many_calls_are_sent_again_as_there_is_room),
        T(test_call_that_no_longer_fits_ends_the_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
