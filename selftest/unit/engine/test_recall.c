/* SPDX-License-Identifier: MIT */
/*
 * Goal: a call recalls the last that ended calls of its program have said; with kv.sharing = domain
 * those of its class, too; of others it is told nothing.
 * Method: the bench's engine; the test reads what the record brings with a row that may have a
 * draft.
 */
#include "selftest/unit/sched/bench.h"

enum { RECALL = 20, DRAFTS = 7, STEPS = 8, BATCH = 8, PROMPT = BENCH_PREFILL_MAX / BATCH };

static const struct step_row *row_of(const struct bench *bench)
{
    return step_row(&bench->step, 0);
}

static struct bench *fresh(enum sched_sharing sharing)
{
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    settings.steps_per_plan = STEPS;
    settings.batch_calls = BATCH;
    settings.speculate = DRAFTS;
    settings.recall_tokens = RECALL;
    settings.sharing = sharing;
    return bench_start(&settings, 400);
}

/* A call of the program that has so many tokens of output: they go to `said`, which grows. */
static uint32_t say(struct bench *bench, uint32_t program, uint32_t count, uint32_t *said)
{
    uint32_t call = bench_take(bench, program, PROMPT, count, 100 * program + count);
    bench_send(bench, call);
    bench_intake(bench);
    while (bench_at(bench, call)->state != CALL_FINISHED) {
        assert_true(bench_step(bench));
    }
    memcpy(said, bench_at(bench, call)->tokens + PROMPT, count * sizeof *said);
    bench_free(bench, call);
    return count;
}

/* The next call of the program, in this domain, has these tokens before its own ones. */
static void expect_recalled(struct bench *bench, uint64_t domain, uint32_t program,
                            const uint32_t *tokens, uint32_t count)
{
    uint32_t call = bench_take(bench, program, PROMPT, 80, program);
    bench_at(bench, call)->domain = domain;
    bench_send(bench, call);
    bench_intake(bench);
    assert_true(bench_launch(bench));
    assert_true(row_of(bench)->drafts > 0);
    assert_int_equal(row_of(bench)->past_count, count + PROMPT);
    assert_memory_equal(step_past(&bench->step, 0), tokens, count * sizeof *tokens);
    assert_memory_equal(step_past(&bench->step, 0) + count, bench_at(bench, call)->tokens,
                        PROMPT * sizeof *tokens);
    bench_cancel(bench, call);
    bench_compute(bench);
    bench_settle(bench, BENCH_UNIT);
    bench_drain(bench);
}

static void test_a_draft_is_guessed_from_what_the_program_has_said_last(void **state)
{
    (void)state;
    struct bench *bench = fresh(SCHED_SHARING_PROGRAM);
    uint32_t own[200], other[200], count = 0, others = 0;
    const uint32_t lengths[] = {3, 9, 8, 1, 25, 2};
    for (uint32_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        count += say(bench, 1, lengths[i], own + count);
        others += say(bench, 2, 5, other + others);
        uint32_t kept = count < RECALL ? count : RECALL;
        assert_int_equal(bench->sched.programs[0].recalled, kept);
        assert_memory_equal(bench->sched.recalled, own + count - kept, kept * sizeof *own);
    }
    expect_recalled(bench, 0, 2, other + others - RECALL, RECALL);
}

/* The oldest first: what the class has said, then what the program has. */
static void test_a_class_is_recalled_before_the_program(void **state)
{
    (void)state;
    struct bench *bench = fresh(SCHED_SHARING_DOMAIN);
    uint32_t said[200];
    bench_class(bench, 0, 1, "ants");
    bench_class(bench, 0, 2, "ants");
    bench_class(bench, 0, 3, "bees");
    uint32_t own = say(bench, 1, 5, said);
    uint32_t all = own + say(bench, 2, 7, said + own);
    say(bench, 3, 9, said + all);
    memcpy(said + all, said, own * sizeof *said);
    expect_recalled(bench, 0, 1, said, all + own);
    own += STEPS;                       /* of the call that was cancelled there */
    say(bench, 2, RECALL, said);
    uint32_t call = bench_take(bench, 1, PROMPT, 80, 1);
    bench_send(bench, call);
    bench_intake(bench);
    assert_true(bench_launch(bench));
    assert_int_equal(row_of(bench)->past_count, RECALL + own + PROMPT);     /* both are bounded */
    assert_memory_equal(step_past(&bench->step, 0), said, RECALL * sizeof *said);
    bench_drain(bench);
}

/* Only kv.sharing = domain lets programs know of one another. */
static void test_a_class_is_not_recalled_where_programs_share_nothing(void **state)
{
    (void)state;
    struct bench *bench = fresh(SCHED_SHARING_PROGRAM);
    uint32_t said[200];
    bench_class(bench, 0, 1, "ants");
    bench_class(bench, 0, 2, "ants");
    say(bench, 1, 5, said);
    expect_recalled(bench, 0, 2, said, 0);
}

/* Nor is one of the same name in another domain, or one that takes a forgotten one's place. */
static void test_a_class_is_told_nothing_of_others(void **state)
{
    (void)state;
    struct bench *bench = fresh(SCHED_SHARING_DOMAIN);
    static const char *const names[] = {"bees", "cats", "dogs", "elks"};
    uint32_t said[200];
    bench_class(bench, 0, 1, "ants");
    say(bench, 1, 5, said);
    bench_class(bench, 7, 1, "ants");
    expect_recalled(bench, 7, 1, said, 0);
    for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++) {     /* the table has four */
        bench_class(bench, 0, 2, names[i]);
        assert_status(STATUS_OK, bench_program(bench, COMMAND_PROGRAM_END, 2).status);
    }
    assert_true(bench->stats.classes_forgotten > 0);
    bench_class(bench, 0, 2, "ants");
    expect_recalled(bench, 0, 2, said, 0);
}

/* A name in another domain is another program, and a place in the table has no memory. */
static void test_a_program_is_not_told_what_others_have_said(void **state)
{
    (void)state;
    struct bench *bench = fresh(SCHED_SHARING_PROGRAM);
    uint32_t said[200], count = say(bench, 1, 12, said);
    expect_recalled(bench, 7, 1, said, 0);
    assert_status(STATUS_OK, bench_program(bench, COMMAND_PROGRAM_END, 1).status);
    assert_true(count == 12 && !bench->sched.programs[0].in_use);
    expect_recalled(bench, 0, 3, said, 0);
    assert_true(bench->sched.programs[0].in_use);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_draft_is_guessed_from_what_the_program_has_said_last),
        cmocka_unit_test(test_a_class_is_recalled_before_the_program),
        cmocka_unit_test(test_a_class_is_not_recalled_where_programs_share_nothing),
        cmocka_unit_test(test_a_class_is_told_nothing_of_others),
        cmocka_unit_test(test_a_program_is_not_told_what_others_have_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
