/* SPDX-License-Identifier: MIT */
/*
 * Goal: drafts get the room that a batch has left while they are worth it, and no more; a worker
 * that lies about them is refuted; no token changes.
 * Method: the bench's engine, whose texts repeat themselves; the test reads the record, and bends
 * the outs. What a slot costs is told by the durations of steps.
 */
#include "selftest/unit/sched/bench.h"

enum { DRAFTS = 7, STEPS = 8, BATCH = 8, PROMPT = BENCH_PREFILL_MAX / BATCH };

static struct bench *fresh(uint32_t speculate)
{
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    settings.steps_per_plan = STEPS;
    settings.batch_calls = BATCH;
    settings.speculate = speculate;
    settings.cut_steps = true;
    return bench_start(&settings, 400);
}

/* A call of this program whose prompt repeats. */
static uint32_t send(struct bench *bench, uint32_t program)
{
    uint32_t call = bench_take(bench, program, PROMPT, 80, program);
    for (uint32_t i = 0; i < PROMPT; i++) {
        bench_at(bench, call)->tokens[i] = 10 + i % 3;
    }
    bench_send(bench, call);
    bench_intake(bench);
    return call;
}

static const struct step_row *row(const struct bench *bench, uint32_t index)
{
    return step_row(&bench->step, index);
}

static struct program *program_of(struct bench *bench, uint32_t call)
{
    return &bench->sched.programs[bench_at(bench, call)->program];
}

static void test_a_lone_row_has_its_tokens_and_a_draft(void **state)
{
    (void)state;
    struct bench *bench = fresh(DRAFTS);
    uint32_t call = send(bench, 1);
    assert_true(bench_launch(bench));
    assert_in_range(row(bench, 0)->drafts, 1, DRAFTS);
    assert_int_equal(row(bench, 0)->past_count, PROMPT);
    assert_memory_equal(step_past(&bench->step, 0), bench_at(bench, call)->tokens,
                        PROMPT * sizeof(uint32_t));
    bench_compute(bench);
    bench_settle(bench, BENCH_UNIT);
    assert_int_equal(bench_at(bench, call)->generated_tokens, STEPS);
    assert_int_equal(bench_at(bench, call)->kv_tokens, PROMPT + STEPS - 1);
    assert_true(bench_tokens_are_right(bench_at(bench, call)));
    assert_true(bench->stats.draft_tokens > 0);
    assert_int_equal(bench_at(bench, call)->draft_tokens, bench->stats.draft_tokens);
    assert_int_equal(bench_at(bench, call)->draft_tokens_agreed, bench->stats.draft_tokens_agreed);
}

static void test_off_means_off(void **state)
{
    (void)state;
    struct bench *bench = fresh(0);
    uint32_t call = send(bench, 1);
    assert_true(bench_launch(bench));
    assert_int_equal(row(bench, 0)->drafts, 0);
    assert_int_equal(row(bench, 0)->past_count, 0);
    bench_compute(bench);
    bench_settle(bench, BENCH_UNIT);
    assert_int_equal(bench->stats.draft_tokens, 0);
    assert_int_equal(program_of(bench, call)->draft_share, 0);
}

/* However much drafts are worth, they take no row's place. */
static void test_drafts_fill_the_batch_and_no_more(void **state)
{
    (void)state;
    for (uint32_t rows = 1; rows <= BATCH; rows++) {
        struct bench *bench = fresh(STEP_DRAFTS_MAX);
        uint32_t places = 0, most = 0, least = UINT32_MAX;
        for (uint32_t i = 0; i < rows; i++) {
            program_of(bench, send(bench, i))->draft_share = 65535;
        }
        assert_true(bench_launch(bench));
        for (uint32_t i = 0; i < rows; i++) {
            uint32_t drafts = row(bench, i)->drafts;
            places += 1 + drafts;
            most = drafts > most ? drafts : most;
            least = drafts < least ? drafts : least;
        }
        assert_true(places == BATCH || (rows == 1 && most == STEPS - 1));
        assert_true(most - least <= 1);     /* a token at a time to each */
    }
}

static void test_a_standby_has_no_draft(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    settings.steps_per_plan = STEPS;
    settings.batch_calls = 2;
    settings.standby_calls = 2;
    settings.speculate = DRAFTS;
    struct bench *bench = bench_start(&settings, 400);
    for (uint32_t i = 0; i < 3; i++) {
        send(bench, i);
    }
    for (uint32_t i = 0; i < 12; i++) {
        assert_true(bench_launch(bench));
        for (uint32_t r = 2; r < bench_engine(bench)->planned_count; r++) {
            assert_int_equal(row(bench, r)->drafts, 0);
        }
        bench_compute(bench);
        bench_settle(bench, BENCH_UNIT);
    }
    assert_true(bench->stats.standbys_planned > 0);
}

/* It is to show whether the call kills: with as little else as can be. */
static void test_a_trial_has_no_draft(void **state)
{
    (void)state;
    struct bench *bench = fresh(DRAFTS);
    uint32_t call = send(bench, 1);
    assert_true(bench_launch(bench));
    assert_true(row(bench, 0)->drafts > 0);
    bench_lose(bench);
    assert_true(bench_launch(bench));
    assert_true(bench_engine(bench)->is_trial && bench_at(bench, call)->company_max == 1);
    assert_int_equal(row(bench, 0)->drafts, 0);
}

/* Steps of a program whose drafts never agree, as the worker tells it. */
static void test_refused_drafts_end_and_are_tried_again(void **state)
{
    (void)state;
    struct bench *bench = fresh(DRAFTS);
    uint32_t call = send(bench, 1);
    struct program *program = program_of(bench, call);
    program->draft_share = 3000;
    assert_true(bench_launch(bench));
    assert_int_equal(row(bench, 0)->drafts, 0);
    bench_compute(bench);
    bench_settle(bench, BENCH_UNIT);
    uint32_t tries = 0;
    while (bench_launch(bench) && row(bench, 0)->drafts == 0) {
        bench_compute(bench);
        bench_settle(bench, BENCH_UNIT);
        tries++;
    }
    assert_true(bench->busy && tries > 2);
    uint32_t share = program->draft_share;
    bench_compute(bench);
    struct step_out *out = step_out(&bench->step, 0);
    out->agreed = 0;
    out->drafted = out->refused = 1;
    bench_settle(bench, BENCH_UNIT);
    assert_true(program->draft_share < share);
}

/* What the second row adds to a round is measured; then a third of it, or nearly all of it, is
 * worth it or not. */
static void test_a_dear_slot_makes_drafts_short(void **state)
{
    (void)state;
    uint32_t drafts[2];
    for (uint32_t dear = 0; dear < 2; dear++) {
        struct bench *bench = fresh(DRAFTS);
        struct sched_draft_cost *cost = &bench_engine(bench)->draft_cost;
        *cost = (struct sched_draft_cost){.slots = 256, .round_ns = 1000000};
        for (uint32_t i = 0; i < 200; i++) {        /* a slot: a fiftieth, or a third of a round */
            int64_t more = i % 2 == 0 ? 256 * 6 : -256 * 6;
            cost->covariance += (more * (more / 256) * (dear ? 333333 : 20000) -
                                 cost->covariance) / 32;
            cost->variance += (more * more - cost->variance) / 32;
        }
        program_of(bench, send(bench, 1))->draft_share = 65536 * 6 / 10;
        assert_true(bench_launch(bench));
        drafts[dear] = row(bench, 0)->drafts;
    }
    assert_true(drafts[0] > 4 && drafts[1] >= 1 && drafts[1] <= 2);
}

/* One, two and three calls by turns, until they end. A round takes a millisecond and so much more
 * for each row and for each token of its drafts; other processes hold up one step of sixteen. */
struct took { uint32_t row_us, slot_us, interrupted_us; };

static void run_calls(struct bench *bench, struct took times)
{
    uint32_t steps = 0;
    for (uint32_t turn = 0; turn < 60; turn++) {
        uint32_t calls[3], count = 1 + turn % 3;
        for (uint32_t i = 0; i < count; i++) {
            calls[i] = send(bench, i);
        }
        while (bench_launch(bench)) {
            bench_compute(bench);
            uint32_t rows = 0, drafts = 0;
            for (uint32_t i = 0; i < bench_engine(bench)->planned_count; i++) {
                const struct step_out *out = step_out(&bench->step, i);
                rows += out->produced - out->agreed;
                drafts += out->drafted;
            }
            bench_settle(bench, 1000 * *step_rounds(&bench->step) + times.row_us * rows +
                                    times.slot_us * drafts +
                                    (steps++ % 16 == 0 ? times.interrupted_us : 0));
        }
        for (uint32_t i = 0; i < count; i++) {
            bench_free(bench, calls[i]);
        }
    }
}

/* A row brings its KV, a token of a draft does not. So rows that are dear make no draft dear, and a
 * draft that is dear is known as such where rows are not. */
static void test_what_a_row_costs_is_not_what_a_draft_costs(void **state)
{
    (void)state;
    uint32_t drafts[2];
    for (uint32_t dear = 0; dear < 2; dear++) {
        struct bench *bench = fresh(DRAFTS);
        run_calls(bench, dear ? (struct took){0, 400, 0} : (struct took){2000, 10, 0});
        program_of(bench, send(bench, 1))->draft_share = 65536 * 6 / 10;
        assert_true(bench_launch(bench));
        drafts[dear] = row(bench, 0)->drafts;
    }
    assert_int_equal(drafts[0], DRAFTS);
    assert_in_range(drafts[1], 1, 3);
}

/* A row that has its tokens sooner than the step ends leaves a round without its KV: such a step
 * does not say what its drafts cost. */
static void test_rows_that_end_early_make_no_draft_cheap(void **state)
{
    (void)state;
    struct bench *bench = fresh(DRAFTS);
    bench->sched.settings.cut_steps = false;
    run_calls(bench, (struct took){2000, 1500, 0});
    const struct sched_draft_pair *pair = &bench_engine(bench)->draft_cost.pair;
    assert_in_range(256 * pair->covariance / pair->variance, 1490000, 1510000);
}

/* A step that was held up is a pair with the one before it and with the one after it. */
static void test_steps_that_are_held_up_decide_little(void **state)
{
    (void)state;
    struct bench *bench = fresh(DRAFTS);
    run_calls(bench, (struct took){0, 200, 500000});
    const struct sched_draft_pair *pair = &bench_engine(bench)->draft_cost.pair;
    assert_in_range(256 * pair->covariance / pair->variance, 0, 1000000);
}

static void test_a_lie_about_drafts_is_refuted(void **state)
{
    (void)state;
    for (uint32_t lie = 0; lie < 5; lie++) {
        struct bench *bench = fresh(DRAFTS);
        uint32_t call = send(bench, 1);
        assert_true(bench_launch(bench));
        bench_compute(bench);
        struct step_out *out = step_out(&bench->step, 0);
        *out = (struct step_out){.produced = 8, .drafted = 14, .agreed = 6, .refused = 1};
        switch (lie) {
        case 0: out->agreed = 8; out->drafted = 14; break;      /* a round brings a token */
        case 1: out->drafted = 5; break;                        /* fewer than agreed */
        case 2: out->drafted = 2 * row(bench, 0)->drafts + 1; break;
        case 3: out->refused = 3; break;                        /* more than rounds */
        case 4: out->agreed = out->drafted = UINT32_MAX; break;
        }
        assert_int_equal(bench_hear(bench, BENCH_UNIT), SCHED_REFUTED);
        assert_int_equal(bench_at(bench, call)->faults, 1);
        assert_int_equal(bench_at(bench, call)->generated_tokens, 0);
        bench_lose(bench);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_lone_row_has_its_tokens_and_a_draft),
        cmocka_unit_test(test_off_means_off),
        cmocka_unit_test(test_drafts_fill_the_batch_and_no_more),
        cmocka_unit_test(test_a_standby_has_no_draft),
        cmocka_unit_test(test_a_trial_has_no_draft),
        cmocka_unit_test(test_refused_drafts_end_and_are_tried_again),
        cmocka_unit_test(test_a_dear_slot_makes_drafts_short),
        cmocka_unit_test(test_what_a_row_costs_is_not_what_a_draft_costs),
        cmocka_unit_test(test_rows_that_end_early_make_no_draft_cheap),
        cmocka_unit_test(test_steps_that_are_held_up_decide_little),
        cmocka_unit_test(test_a_lie_about_drafts_is_refuted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
