/* SPDX-License-Identifier: MIT */
/*
 * Goal: the tokens of a round can be sent while the step goes on; a published token is never taken
 * back, whatever the worker does next.
 * Method: the bench's engine computes round by round; the test bends the outs or ends the worker in
 * between.
 */
#include "selftest/unit/sched/bench.h"

#include <math.h>

enum { STEPS = 4 };

static struct bench *fresh(void)
{
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    settings.steps_per_plan = STEPS;
    return bench_start(&settings, 64);
}

/* A call whose step has had `rounds` rounds, which the core has heard of. */
static struct call *call_after(struct bench *bench, uint32_t rounds, uint32_t max_tokens)
{
    uint32_t call = bench_call(bench, 1, 3, max_tokens);
    bench_drain(bench);
    assert_true(bench_launch(bench));
    for (uint32_t i = 0; i < rounds; i++) {
        assert_true(bench_round(bench));
        bench->now_us += BENCH_UNIT;
        bench_progress(bench);
    }
    return bench_at(bench, call);
}

static void run_to_the_end(struct bench *bench)
{
    while (bench_step(bench)) {
    }
}

static void test_publish_a_round_while_the_step_goes_on(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    struct call *call = call_after(bench, 0, 10);
    for (uint32_t round = 1; round < STEPS; round++) {
        assert_true(bench_round(bench));
        bench->now_us += BENCH_UNIT;
        bench_progress(bench);
        assert_int_equal(call->published_tokens, round);
        assert_int_equal(call->generated_tokens, 0);
        assert_int_equal(call->state, CALL_RUNNING);
        assert_true(call->in_emit_ring);
        assert_int_equal(call->first_token_us, 1 + BENCH_UNIT);
        assert_int_equal(call->last_token_us, bench->now_us);
        bench_drain(bench);
        bench_progress(bench);              /* no round since: no news */
        assert_false(call->in_emit_ring);
    }
    bench_compute(bench);
    bench_settle(bench, BENCH_UNIT);
    assert_int_equal(call->published_tokens, STEPS);
    assert_int_equal(call->generated_tokens, STEPS);
    assert_true(bench_tokens_are_right(call));
    assert_int_equal(bench->sched.times.all[TIME_FIRST_TOKEN].count, 1);
    assert_int_equal(bench->sched.times.all[TIME_TOKEN_GAP].count, STEPS - 1);
}

static void test_publish_nothing_of_another_step(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    struct call *call = call_after(bench, 0, 10);
    bench_compute(bench);
    step_progress(&bench->step)->sequence--;    /* outs of the step before, still in the record */
    bench_progress(bench);
    assert_int_equal(call->published_tokens, 0);
    bench_settle(bench, BENCH_UNIT);
    assert_int_equal(call->published_tokens, STEPS);
}

enum { BAD_TOKEN, BAD_FLOOD, BAD_RESULT, BAD_LATER_TOKEN, BADS };

static void test_publish_nothing_that_cannot_be(void **state)
{
    (void)state;
    static const uint32_t published[BADS] = {[BAD_LATER_TOKEN] = 1};
    for (uint32_t bad = 0; bad < BADS; bad++) {
        struct bench *bench = fresh();
        struct call *call = call_after(bench, 0, 10);
        bench_compute(bench);
        switch (bad) {
        case BAD_TOKEN: step_out_tokens(&bench->step, 0)[0] = BENCH_VOCAB; break;
        case BAD_RESULT: step_out(&bench->step, 0)->result = 7; break;
        case BAD_LATER_TOKEN: step_out_tokens(&bench->step, 0)[1] = UINT32_MAX; break;
        default: step_out(&bench->step, 0)->produced = UINT32_MAX;
        }
        bench_progress(bench);
        assert_int_equal(call->published_tokens, published[bad]);
        assert_int_equal(bench_hear(bench, BENCH_UNIT), SCHED_REFUTED);
        bench_lose(bench);
        run_to_the_end(bench);
        assert_int_equal(call->finish, CALL_FINISH_LENGTH);
        assert_true(bench_tokens_are_right(call));
    }
}

static void test_publish_nothing_after_a_token_that_ends_the_call(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    uint32_t index = bench_take(bench, 1, 3, 10, 11), tokens[BENCH_CONTEXT];
    struct call *call = bench_at(bench, index);
    bench_oracle(call, 3, 2, tokens);
    call->sampling.stop_ids_count = 1;
    call->sampling.stop_ids[0] = tokens[3 + 1];
    bench_send(bench, index);
    bench_intake(bench);
    assert_true(bench_launch(bench));
    bench_compute(bench);
    step_out(&bench->step, 0)->produced = STEPS;    /* an engine that did not look for stops */
    for (uint32_t looks = 0; looks < 2; looks++) {
        bench_progress(bench);
        assert_int_equal(call->published_tokens, 2);
        bench_engine(bench)->rounds_published = 0;
    }
    bench_settle(bench, BENCH_UNIT);
    assert_int_equal(call->finish, CALL_FINISH_STOP_ID);
    assert_int_equal(call->generated_tokens, 2);
}

static void test_compute_again_what_was_published_and_lost(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    struct call *call = call_after(bench, 3, 10);
    assert_int_equal(call->published_tokens, 3);
    bench_lose(bench);
    assert_int_equal(call->published_tokens, 3);
    assert_int_equal(call->generated_tokens, 0);
    bench_drain(bench);
    assert_true(bench_launch(bench));
    for (uint32_t round = 1; round <= 3; round++) {
        assert_true(bench_round(bench));
        bench_progress(bench);
        assert_int_equal(call->published_tokens, 3);
        assert_false(call->in_emit_ring);           /* nothing that the client does not have */
    }
    bench_compute(bench);
    bench_settle(bench, BENCH_UNIT);
    assert_int_equal(call->published_tokens, 4);
    run_to_the_end(bench);
    assert_int_equal(call->finish, CALL_FINISH_LENGTH);
    assert_true(bench_tokens_are_right(call));
}

/* A worker that was wrong has published a token, and died. Those after it are right. */
static void test_fail_when_what_was_published_is_not_confirmed(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    struct call *call = call_after(bench, 0, 10);
    assert_true(bench_round(bench));
    uint32_t *token = step_out_tokens(&bench->step, 0);
    *token = (*token + 1) % BENCH_VOCAB;
    bench_progress(bench);
    bench_lose(bench);
    assert_true(bench_launch(bench));
    bench_compute(bench);
    assert_int_equal(bench_hear(bench, BENCH_UNIT), SCHED_REFUTED);
    assert_int_equal(call->faults, 1);
    bench_lose(bench);                              /* the second worker that it alone has cost */
    assert_int_equal(call->state, CALL_FINISHED);
    assert_int_equal(call->finish, CALL_FINISH_FAILED);
    assert_int_equal(call->status, STATUS_DEVICE_POISON);
    assert_int_equal(call->generated_tokens, 1);    /* the client has it */
}

static void test_refute_a_worker_that_takes_back_what_it_has_published(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    struct call *call = call_after(bench, 2, 10);
    bench_compute(bench);
    uint32_t *token = step_out_tokens(&bench->step, 0) + 1;
    *token = (*token + 1) % BENCH_VOCAB;
    assert_int_equal(bench_hear(bench, BENCH_UNIT), SCHED_REFUTED);
    bench_lose(bench);
    run_to_the_end(bench);
    assert_int_equal(call->finish, CALL_FINISH_LENGTH);
    assert_true(bench_tokens_are_right(call));
}

enum { END_CANCEL, END_DEADLINE, END_SHUTDOWN, END_STOP_TEXT, ENDS };

/* A call that ends after its step was lost: its answer is what the client has. */
static void test_keep_what_was_published_when_the_call_ends_early(void **state)
{
    (void)state;
    static const enum call_finish finish[ENDS] = {
        CALL_FINISH_CANCELLED, CALL_FINISH_DEADLINE, CALL_FINISH_FAILED, CALL_FINISH_STOP_TEXT};
    for (uint32_t end = 0; end < ENDS; end++) {
        struct bench *bench = fresh();
        struct call *call = call_after(bench, 3, 10);
        call->stop_text_hit = end == END_STOP_TEXT;
        call->stop_text_tokens = 2;
        if (end == END_CANCEL || end == END_STOP_TEXT) {
            bench_cancel(bench, call->slot);
            bench_intake(bench);
        }
        call->expired = end == END_DEADLINE;
        bench_lose(bench);
        if (end == END_SHUTDOWN) {
            sched_fail_all(&bench->sched, STATUS_GONE_SHUTDOWN, bench->now_us);
        }
        assert_int_equal(call->state, CALL_FINISHED);
        assert_int_equal(call->finish, finish[end]);
        assert_int_equal(call->generated_tokens, end == END_STOP_TEXT ? 2 : 3);
        assert_int_equal(bench->stats.tokens_generated, call->generated_tokens);
        assert_true(bench_tokens_are_right(call));
    }
}

/* It has fewer tokens than the step had published, and its slot is not free yet. */
static void test_step_in_which_a_call_has_ended_is_believed(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    struct call *call = call_after(bench, 3, 10);
    call->stop_text_hit = call->cancel = true;
    call->stop_text_tokens = 1;
    sched_fail_all(&bench->sched, STATUS_GONE_SHUTDOWN, bench->now_us);
    assert_int_equal(call->finish, CALL_FINISH_STOP_TEXT);
    assert_int_equal(call->generated_tokens, 1);
    assert_int_equal(bench_hear(bench, BENCH_UNIT), SCHED_BELIEVED);
    assert_int_equal(call->generated_tokens, 1);
}

/* ---- log probabilities ----------------------------------------------------------------------- */

/* A call that wants two alternatives, before its first step. */
static struct call *begin_logprobs(struct bench *bench)
{
    uint32_t index = bench_take(bench, 1, 3, 9, 5);
    struct call *call = bench_at(bench, index);
    call->sampling.wants_logprobs = true;
    call->sampling.top_logprobs = BENCH_ENTRIES - 1;
    bench_send(bench, index);
    bench_intake(bench);
    assert_true(bench_launch(bench));
    return call;
}

static void check_ring(const struct bench *bench, const struct call *call)
{
    for (uint32_t i = 0; i < call->published_tokens; i++) {
        const struct call_logprob *got = call_logprobs_at(&bench->calls, call, i);
        for (uint32_t k = 0; k < BENCH_ENTRIES; k++) {
            struct call_logprob wanted = fake_engine_logprob(
                &bench->engine, call->sampling.seed, call->prompt_tokens + i,
                (struct fake_entry){call->tokens[call->prompt_tokens + i], k});
            assert_int_equal(got[k].token, wanted.token);
            assert_true(got[k].logprob == wanted.logprob);
        }
    }
}

static void test_ring_has_what_is_published_and_keeps_it_through_a_lost_step(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    const struct call *call = begin_logprobs(bench);
    assert_true(bench_round(bench) && bench_round(bench));
    bench_progress(bench);
    assert_int_equal(call->published_tokens, 2);
    check_ring(bench, call);
    bench_lose(bench);
    check_ring(bench, call);
    assert_true(bench_step(bench));
    assert_int_equal(call->published_tokens, 4);
    check_ring(bench, call);
}

static void test_unsound_entries_refute_the_step(void **state)
{
    (void)state;
    const struct call_logprob bad[] = {
        {BENCH_VOCAB, -1}, {1, 0.5f}, {1, -(float)INFINITY}, {1, (float)NAN}};
    for (uint32_t i = 0; i < 2 * sizeof bad / sizeof bad[0]; i++) {
        struct bench *bench = fresh();
        const struct call *call = begin_logprobs(bench);
        bench_compute(bench);
        *step_logprobs(&bench->step, 0, i % 2) = bad[i / 2];
        bench_progress(bench);
        assert_int_equal(call->published_tokens, 0);
        assert_int_equal(bench_hear(bench, BENCH_UNIT), SCHED_REFUTED);
        assert_int_equal(call->generated_tokens, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring_has_what_is_published_and_keeps_it_through_a_lost_step),
        cmocka_unit_test(test_unsound_entries_refute_the_step),
        cmocka_unit_test(test_publish_a_round_while_the_step_goes_on),
        cmocka_unit_test(test_publish_nothing_of_another_step),
        cmocka_unit_test(test_publish_nothing_that_cannot_be),
        cmocka_unit_test(test_publish_nothing_after_a_token_that_ends_the_call),
        cmocka_unit_test(test_compute_again_what_was_published_and_lost),
        cmocka_unit_test(test_fail_when_what_was_published_is_not_confirmed),
        cmocka_unit_test(test_refute_a_worker_that_takes_back_what_it_has_published),
        cmocka_unit_test(test_keep_what_was_published_when_the_call_ends_early),
        cmocka_unit_test(test_step_in_which_a_call_has_ended_is_believed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
