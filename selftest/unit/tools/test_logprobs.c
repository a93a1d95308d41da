/* SPDX-License-Identifier: MIT */
/*
 * Goal: log probabilities come with their tokens, as many as were asked for; what cannot be ends
 * the session.
 * Method: frames are fed to a session in memory (sdk_rig.h).
 */
#include "selftest/unit/tools/sdk_rig.h"

#include <math.h>

/* An open session whose call 1 wants two alternatives. */
static void open_logprobs(struct agx *agx)
{
    static struct agx_call call;
    struct agx_event event;
    call = call_of_three(1);
    call.want_logprobs = 1;
    call.top_logprobs = 2;
    open_session(agx);
    assert_int_equal(agx_session_call(agx, &call), AGX_OK);
    feed_accept(agx, 1);
    assert_int_equal(agx_session_next(agx, &event), AGX_OK);
}

static void test_next_logprobs_come_with_their_tokens(void **state)
{
    const struct agx_logprob entries[] = {{7, -2.5f}, {4, -0.5f}, {7, -2.5f}};
    struct agx agx;
    struct agx_event event;
    open_logprobs(&agx);
    for (uint32_t i = 0; i < 2; i++) {
        feed_logprobs(&agx, i, 7, entries, 3);
        assert_int_equal(agx_session_next(&agx, &event), AGX_OK);
        assert_int_equal(event.kind, AGX_TOKENS);
        assert_int_equal(event.tokens[0], 7);
        assert_int_equal(event.logprobs_each, 3);
        assert_memory_equal(event.logprobs, entries, sizeof entries);
    }
}

static void test_next_unsound_logprobs_are_a_protocol_error(void **state)
{
    const struct { struct agx_logprob entries[3]; uint32_t count; } bad[] = {
        {{{6, -1}, {4, -1}, {5, -2}}, 3},               /* not the token's own */
        {{{7, -1}, {VOCAB, -1}, {5, -2}}, 3},
        {{{7, 0.5f}, {4, -1}, {5, -2}}, 3},
        {{{7, -1}, {4, -2}, {5, -1}}, 3},               /* not in order */
        {{{7, -1}, {4, -INFINITY}, {5, -INFINITY}}, 3},
        {{{7, NAN}, {4, -1}, {5, -2}}, 3},
        {{{7, -1}, {4, -1}, {5, NAN}}, 3},
        {{{7, -1}, {4, -1}}, 2},                        /* fewer than were asked for */
        {{{7, -1}}, 0},
    };
    for (uint32_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct agx agx;
        struct agx_event event;
        open_logprobs(&agx);
        feed_logprobs(&agx, 0, 7, bad[i].entries, bad[i].count);
        assert_int_equal(agx_session_next(&agx, &event), AGX_ERROR_PROTOCOL);
    }
    struct agx agx;
    struct agx_event event;
    open_call(&agx);                                    /* which has not asked */
    feed_logprobs(&agx, 0, 7, bad[0].entries, 1);
    assert_int_equal(agx_session_next(&agx, &event), AGX_ERROR_PROTOCOL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_next_logprobs_come_with_their_tokens),
        cmocka_unit_test(test_next_unsound_logprobs_are_a_protocol_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
