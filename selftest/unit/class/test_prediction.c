/* SPDX-License-Identifier: MIT */
/*
 * Goal: what a program will cost is predicted once, when its first call comes, by the best source
 * that knows; a class learns what its programs cost when they end, however they end; and what one
 * trust domain teaches changes nothing for another.
 * Method: whole programs on the bench, whose cost follows from prompt and output; the running means
 * beside means in floats; a file that knows what the test says.
 */
#include <math.h>

#include "selftest/unit/sched/bench.h"

#include "sched/cost.h"
#include "sched/class/log2.h"
#include "sched/class/prediction.h"
#include "sched/class/predictor.h"

enum { ALICE = 1, BOB = 2, PROMPT = 8 };

static struct bench *fresh(void)
{
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    return bench_start(&settings, 256);
}

static const struct program *arrive(struct bench *bench, uint64_t domain, uint32_t program,
                                    uint32_t output_tokens)
{
    uint32_t call = bench_take(bench, program, PROMPT, output_tokens, program);
    bench_at(bench, call)->domain = domain;
    bench_send(bench, call);
    bench_intake(bench);
    return &bench->sched.programs[bench_at(bench, call)->program];
}

static void finish(struct bench *bench)
{
    while (bench_step(bench)) {
    }
    bench_drain(bench);
    for (uint32_t i = 0; i < BENCH_CALLS; i++) {
        if (bench_at(bench, i)->state == CALL_FINISHED) {
            call_release(&bench->calls, i);
        }
    }
}

/* A program of one call; returns what was predicted for it. */
static struct sched_prediction run(struct bench *bench, uint64_t domain, const char *class,
                                   uint32_t output_tokens)
{
    bench_class(bench, domain, 1, class);
    struct sched_prediction predicted = arrive(bench, domain, 1, output_tokens)->predicted;
    finish(bench);
    assert_status(STATUS_OK, bench_program_in(bench, COMMAND_PROGRAM_END, domain, 1).status);
    return predicted;
}

static const struct sched_learnt *learnt_of(const struct bench *bench, const char *name)
{
    for (uint32_t i = 0; i < bench->sched.settings.classes; i++) {
        if (strcmp(bench->sched.classes.each[i].name, name) == 0) {
            return &bench->sched.classes.each[i].learnt;
        }
    }
    fail();
    return NULL;
}

static void test_nothing_is_known_of_the_first_program(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    struct sched_prediction predicted = run(bench, ALICE, "web", 4);
    assert_int_equal(predicted.source, SCHED_SOURCE_NONE);
    assert_int_equal(predicted.rounds + predicted.tokens + predicted.output_tokens, 0);
}

static void test_second_program_is_predicted_by_the_first(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    run(bench, ALICE, "web", 4);
    struct sched_prediction predicted = run(bench, ALICE, "web", 5);
    assert_int_equal(predicted.source, SCHED_SOURCE_CLASS);
    assert_int_equal(predicted.rounds, PROMPT * 4 + 4 * 5 / 2);
    assert_int_equal(predicted.tokens, PROMPT + 2 * 4);
    assert_int_equal(predicted.output_tokens, 4);
}

/* All calls count, and the prediction of the first one stays. */
static void test_program_of_several_calls_is_their_sum(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    run(bench, ALICE, "web", 1);
    bench_class(bench, ALICE, 2, "web");
    const struct program *program = arrive(bench, ALICE, 2, 3);
    arrive(bench, ALICE, 2, 5);
    const uint64_t predicted = program->predicted.rounds;
    finish(bench);
    run(bench, ALICE, "web", 20);           /* the class learns meanwhile */
    arrive(bench, ALICE, 2, 1);
    finish(bench);
    assert_int_equal(program->predicted.rounds, predicted);
    assert_int_equal(program->spent.rounds,
                     sched_cost_rounds(PROMPT, 3) + sched_cost_rounds(PROMPT, 5) +
                     sched_cost_rounds(PROMPT, 1));
    assert_int_equal(program->spent.tokens, 3 * PROMPT + 2 * (3 + 5 + 1));
    assert_int_equal(program->spent.output_tokens, 3 + 5 + 1);
}

/* Each of the first ten counts for 1 / n, each later one for a tenth. */
static void test_means_follow_the_last_ten_programs(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    double rounds = 0, tokens = 0, output = 0;
    uint64_t random = 3, least = UINT64_MAX, most = 0;
    for (uint32_t n = 1; n <= 200; n++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        uint32_t out = 1 + (uint32_t)(random >> 33) % (n < 100 ? 20 : 60);
        uint64_t cost = sched_cost_rounds(PROMPT, out);
        double weight = n < 10 ? 1.0 / n : 0.1;
        run(bench, ALICE, "web", out);
        const struct sched_learnt *learnt = learnt_of(bench, "web");
        rounds += weight * ((double)cost - rounds);
        tokens += weight * ((double)sched_cost_tokens(PROMPT, out) - tokens);
        output += weight * (out - output);
        least = cost < least ? cost : least;
        most = cost > most ? cost : most;
        assert_int_equal(learnt->programs, n);
        assert_true(fabs((double)learnt->rounds - rounds) <= 5);
        assert_true(fabs((double)learnt->tokens - tokens) <= 5);
        assert_true(fabs((double)learnt->output_tokens / SCHED_CLASS_ONE - output) <= 0.1);
        assert_int_equal(learnt->rounds_least, least);
        assert_int_equal(learnt->rounds_most, most);
    }
    assert_true(learnt_of(bench, "web")->promises.ended.count > 0);
}

static void test_unknown_class_counts_as_the_domain_s_most_expensive(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    run(bench, ALICE, "short", 2);
    run(bench, ALICE, "long", 40);
    run(bench, ALICE, "middle", 10);
    struct sched_prediction predicted = run(bench, ALICE, "new", 3);
    assert_int_equal(predicted.source, SCHED_SOURCE_LARGEST);
    assert_int_equal(predicted.rounds, sched_cost_rounds(PROMPT, 40));
    assert_int_equal(predicted.output_tokens, 40);
    for (uint32_t i = 0; i < 30; i++) {
        run(bench, ALICE, "long", 1);       /* not any more */
    }
    predicted = run(bench, ALICE, "newer", 3);
    assert_int_equal(predicted.rounds, learnt_of(bench, "middle")->rounds);
}

/* All that mallory calls short is long: his own class learns it, and bob's world is as it was. */
static void test_names_that_lie_teach_their_own_domain_only(void **state)
{
    (void)state;
    struct bench *alone = fresh();
    run(alone, BOB, "short", 2);
    struct sched_prediction known = run(alone, BOB, "short", 2), unknown = run(alone, BOB, "x", 2);
    struct bench *bench = fresh();
    run(bench, BOB, "short", 2);
    for (uint32_t i = 0; i < 20; i++) {
        struct sched_prediction lie = run(bench, ALICE, "short", 60);
        assert_int_equal(lie.rounds, i == 0 ? 0 : sched_cost_rounds(PROMPT, 60));
    }
    struct sched_prediction same = run(bench, BOB, "short", 2);
    assert_memory_equal(&same, &known, sizeof same);
    same = run(bench, BOB, "x", 2);
    assert_memory_equal(&same, &unknown, sizeof same);
}

static void test_what_the_lab_foretells_comes_first(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    run(bench, ALICE, "web", 4);
    bench_class(bench, ALICE, 1, "web");
    uint32_t call = bench_take(bench, 1, PROMPT, 4, 1);
    bench_at(bench, call)->domain = ALICE;
    bench_at(bench, call)->foretold = (struct call_foretold){
        .program_cost = 12345, .program_tokens = 777, .output_tokens = 17};
    bench_send(bench, call);
    bench_intake(bench);
    struct program *program = &bench->sched.programs[bench_at(bench, call)->program];
    assert_int_equal(program->predicted.source, SCHED_SOURCE_FORETOLD);
    assert_int_equal(program->predicted.rounds, 12345);
    assert_int_equal(program->predicted.tokens, 777);
    assert_int_equal(program->predicted.output_tokens, 17);
    finish(bench);
    assert_status(STATUS_OK, bench_program_in(bench, COMMAND_PROGRAM_END, ALICE, 1).status);
    assert_int_equal(learnt_of(bench, "web")->predicted, 0);    /* no error of the class's */
}

/* ---- how programs end ------------------------------------------------------------------------ */

static void test_class_learns_from_programs_that_are_forgotten(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    bench_class(bench, ALICE, 1, "web");
    arrive(bench, ALICE, 1, 4);
    finish(bench);
    bench->now_us += bench->sched.settings.program_idle_us;
    bench_intake(bench);
    assert_int_equal(learnt_of(bench, "web")->programs, 1);     /* stale */
    bench_class(bench, ALICE, 1, "web");
    arrive(bench, ALICE, 1, 4);
    finish(bench);
    for (uint32_t i = 0; i < bench->sched.settings.programs; i++) {
        bench->now_us++;
        (void)bench_program(bench, COMMAND_PROGRAM_START, 100 + i);
    }
    assert_int_equal(learnt_of(bench, "web")->programs, 2);     /* it was the idlest */
}

static void test_program_without_a_token_teaches_nothing(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    bench_class(bench, ALICE, 1, "web");
    assert_status(STATUS_OK, bench_program_in(bench, COMMAND_PROGRAM_END, ALICE, 1).status);
    bench_class(bench, ALICE, 1, "web");
    uint32_t call = bench_take(bench, 1, PROMPT, 4, 1);
    bench_at(bench, call)->domain = ALICE;
    bench_send(bench, call);
    bench_intake(bench);
    bench_cancel(bench, call);
    bench_intake(bench);
    assert_status(STATUS_OK, bench_program_in(bench, COMMAND_PROGRAM_END, ALICE, 1).status);
    assert_int_equal(learnt_of(bench, "web")->programs, 0);
    assert_int_equal(run(bench, ALICE, "web", 3).source, SCHED_SOURCE_NONE);
}

/* ---- a file ---------------------------------------------------------------------------------- */

static struct predictor_class trained;

/* The class `web` costs so much, whatever the prompt. */
static void say_rounds(double rounds)
{
    trained.low = trained.high = trained.weights[PREDICTOR_WEIGHTS - 1] = (float)log(rounds);
}

static struct bench *fresh_with_file(void)
{
    static const struct predictor predictor = {.count = 1, .classes = &trained};
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    trained = (struct predictor_class){.name = "web", .name_bytes = 3};
    settings.predictor = &predictor;
    return bench_start(&settings, 256);
}

static void test_file_is_asked_for_programs_of_its_classes(void **state)
{
    (void)state;
    struct bench *bench = fresh_with_file();
    say_rounds(300);
    struct sched_prediction predicted = run(bench, ALICE, "web", 4);
    assert_int_equal(predicted.source, SCHED_SOURCE_TRAINED);
    assert_int_equal(predicted.rounds, 300);
    assert_int_equal(predicted.tokens, 0);
    arrive(bench, ALICE, 2, 4);             /* no name */
    finish(bench);
    run(bench, ALICE, "code", 9);
    predicted = run(bench, ALICE, "code", 9);
    assert_int_equal(predicted.source, SCHED_SOURCE_CLASS);
    assert_int_equal(predicted.rounds, sched_cost_rounds(PROMPT, 9));
}

/* It says four times as much as is right: its class learns that, and halves it twice. */
static void test_file_is_corrected_by_its_mean_error(void **state)
{
    (void)state;
    const uint64_t low = sched_cost_rounds(PROMPT, 4), high = sched_cost_rounds(PROMPT, 40);
    struct bench *bench = fresh_with_file();
    struct sched_prediction predicted = {0};
    for (uint32_t i = 0; i < 40; i++) {
        uint32_t output = i % 2 == 0 ? 4 : 40;
        uint64_t said = 4 * (i % 2 == 0 ? low : high);
        say_rounds((double)said);
        predicted = run(bench, ALICE, "web", output);
        assert_int_equal(predicted.rounds_raw, said);
        assert_true(i < 10 || (predicted.rounds >= low && predicted.rounds <= high));
    }
    assert_true(abs(learnt_of(bench, "web")->error + 2 * 256) <= 16);
    assert_true(predicted.rounds >= high * 9 / 10 && predicted.rounds <= high);
    say_rounds(4 * 150);
    predicted = run(bench, ALICE, "web", 4);
    assert_true(predicted.rounds >= 140 && predicted.rounds <= 160);
    say_rounds(4e18);                       /* nothing of the class has cost that */
    assert_int_equal(run(bench, ALICE, "web", 4).rounds, high);
    say_rounds(1);
    assert_int_equal(run(bench, ALICE, "web", 4).rounds, low);
}

/* One program says little: neither its cost nor its error takes the place of what a file says. */
static void test_file_counts_more_than_the_first_program(void **state)
{
    (void)state;
    struct bench *bench = fresh_with_file();
    say_rounds(300);
    run(bench, ALICE, "web", 40);
    uint64_t next = run(bench, ALICE, "web", 4).rounds;
    assert_true(next >= 300 && next < 300 * 5 / 4);
}

/* Of a class's means the error is known, too; it corrects nothing. */
static void test_error_of_means_is_learnt(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    run(bench, ALICE, "web", 4);
    run(bench, ALICE, "web", 40);
    int32_t error = log2_fixed(sched_cost_rounds(PROMPT, 40)) -
                    log2_fixed(sched_cost_rounds(PROMPT, 4));
    assert_int_equal(learnt_of(bench, "web")->predicted, 1);
    assert_int_equal(learnt_of(bench, "web")->error, (error + 5) / 10);
    uint64_t mean = learnt_of(bench, "web")->rounds;
    assert_int_equal(run(bench, ALICE, "web", 4).rounds, mean);
}

static void test_class_is_taught_what_another_boot_has_served(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    const struct program ended = {.domain = ALICE, .calls_ended = 2, .spent = {
        .rounds = 5000, .tokens = 70, .output_tokens = 24}};
    sched_class_teach(&bench->sched, &ended, "web");
    struct sched_prediction predicted = run(bench, ALICE, "web", 4);
    assert_int_equal(predicted.source, SCHED_SOURCE_CLASS);
    assert_int_equal(predicted.rounds, 5000);
    assert_int_equal(predicted.tokens, 70);
    assert_int_equal(predicted.output_tokens, 12);
    assert_int_equal(learnt_of(bench, "web")->programs, 2);
    assert_int_equal(learnt_of(bench, "web")->promises.ended.count, 1);    /* of this one alone */
    sched_check(&bench->sched);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_known_of_the_first_program),
        cmocka_unit_test(test_second_program_is_predicted_by_the_first),
        cmocka_unit_test(test_program_of_several_calls_is_their_sum),
        cmocka_unit_test(test_means_follow_the_last_ten_programs),
        cmocka_unit_test(test_unknown_class_counts_as_the_domain_s_most_expensive),
        cmocka_unit_test(test_names_that_lie_teach_their_own_domain_only),
        cmocka_unit_test(test_what_the_lab_foretells_comes_first),
        cmocka_unit_test(test_class_learns_from_programs_that_are_forgotten),
        cmocka_unit_test(test_program_without_a_token_teaches_nothing),
        cmocka_unit_test(test_file_is_asked_for_programs_of_its_classes),
        cmocka_unit_test(test_file_is_corrected_by_its_mean_error),
        cmocka_unit_test(test_file_counts_more_than_the_first_program),
        cmocka_unit_test(test_error_of_means_is_learnt),
        cmocka_unit_test(test_class_is_taught_what_another_boot_has_served),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
