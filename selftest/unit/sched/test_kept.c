/* SPDX-License-Identifier: MIT */
/*
 * Goal: what programs have had outlives the core: the next one finds each of them as it was, or as
 * it was a change before; what is torn or garbage is no program, and never one with another's
 * service.
 * Method: benches one after the other over the same kept memory. Deaths: each word is that from
 * before some changes or that from after them, by chance, which is more than any death leaves.
 */
#include "selftest/unit/draw.h"
#include "selftest/unit/sched/bench.h"

#include "sched/kept.h"
#include "sched/policy.h"
#include "sched/program.h"

enum { PROGRAMS = 8, ROUNDS = 4000, WORDS = 1 << 10 };

static _Alignas(ARENA_ALIGN_BYTES) uint64_t kept[WORDS];
static uint64_t before[WORDS], after[WORDS], random_state = 1;
static bool with_half_life;

static uint64_t draw(uint64_t bound)
{
    return draw_below(&random_state, bound);
}

static struct bench *begin_core(enum sched_policy policy)
{
    struct arena arena = {.base = (uint8_t *)kept, .size_bytes = sizeof kept};  /* not zeroed */
    struct sched_settings settings = bench_settings(policy);
    settings.half_life_us = with_half_life ? 8 * BENCH_UNIT : 0;
    bench_kept = &arena;
    struct bench *bench = bench_start(&settings, 256);
    bench_kept = NULL;
    bench->now_us = 1000 * BENCH_UNIT;          /* of the same clock */
    sched_take_up(&bench->sched, bench->now_us);
    sched_check(&bench->sched);
    return bench;
}

static struct bench *begin(enum sched_policy policy)
{
    memset(kept, 0, sizeof kept);
    with_half_life = false;
    return begin_core(policy);
}

static struct program *program_of(struct bench *bench, uint32_t number)
{
    uint8_t id[CALL_PROGRAM_ID_BYTES];
    bench_program_id(number, id);
    uint32_t index = sched_program_find(&bench->sched, 0, id);
    return index != SCHED_PROGRAM_NONE ? &bench->sched.programs[index] : NULL;
}

static void serve(struct bench *bench, uint32_t number, uint32_t steps, bool ends)
{
    uint32_t call = bench_call(bench, number, 4, 40);
    bench_intake(bench);
    for (uint32_t i = 0; i < steps; i++) {
        assert_true(bench_step(bench));
    }
    if (ends) {
        bench_cancel(bench, call);
        bench_intake(bench);
        bench_free(bench, call);
    }
}

/* ---- in order -------------------------------------------------------------------------------- */

static void test_programs_are_as_they_were(void **state)
{
    (void)state;
    static const enum sched_policy policies[] = {SCHED_PLAS, SCHED_ATLAS, SCHED_FCFS, SCHED_MLFQ};
    for (uint32_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        struct bench *bench = begin(policies[i]);
        bench_class(bench, 0, 1, "reviewer");
        serve(bench, 1, 3, true);
        serve(bench, 2, 1, true);
        serve(bench, 1, 2, false);              /* under way when the core dies */
        const struct program was = *program_of(bench, 1);
        assert_true(was.attained_us >= 5 * BENCH_UNIT && was.calls_ended == 1);
        for (uint32_t deaths = 0; deaths < 3; deaths++) {
            bench = begin_core(policies[i]);
            const struct program *now = program_of(bench, 1);
            assert_non_null(now);
            assert_int_equal(now->service_us, was.attained_us);
            assert_int_equal(now->wait_us, was.wait_us);
            assert_int_equal(now->calls_ended, 1);
            assert_int_equal(now->started_us, was.started_us);
            assert_memory_equal(&now->spent, &was.spent, sizeof was.spent);
            assert_string_equal(sched_class_of(&bench->sched, now)->name, "reviewer");
            assert_non_null(program_of(bench, 2));
        }
    }
}

/* The next call of a long program is no new program's. */
static void test_next_call_of_a_long_program_comes_after_a_short_ones(void **state)
{
    (void)state;
    struct bench *bench = begin(SCHED_PLAS);
    serve(bench, 1, 20, true);
    bench = begin_core(SCHED_PLAS);
    uint32_t of_long = bench_call(bench, 1, 4, 4), of_short = bench_call(bench, 2, 4, 4);
    bench_intake(bench);
    assert_int_equal(bench_at(bench, of_short)->queue, 0);
    assert_true(bench_at(bench, of_long)->queue > 0);
}

/* What the key of a program is made of, and when the ideal system lets it go. */
static void test_keys_and_the_clock_are_as_they_were(void **state)
{
    (void)state;
    static const enum sched_policy policies[] = {SCHED_JUSTITIA, SCHED_JUSTITIA_C, SCHED_VTC,
                                                 SCHED_SRJF};
    for (uint32_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        struct bench *bench = begin(policies[i]);
        serve(bench, 1, 3, false);
        serve(bench, 2, 2, false);
        const struct program was[] = {*program_of(bench, 1), *program_of(bench, 2)};
        const uint64_t clock = bench->sched.ideal.virtual_time;
        const uint64_t weights = bench->sched.ideal.weights;
        assert_true(was[0].cost > 0 && was[0].served > 0);
        assert_true((clock > 0) == sched_policy_has_tags(policies[i]));
        for (uint32_t deaths = 0; deaths < 3; deaths++) {
            bench = begin_core(policies[i]);
            assert_int_equal(bench->sched.ideal.virtual_time, clock);
            assert_int_equal(bench->sched.ideal.weights, weights);
            for (uint32_t p = 0; p < 2; p++) {
                const struct program *now = program_of(bench, p + 1);
                assert_int_equal(now->cost, was[p].cost);
                assert_int_equal(now->served, was[p].served);
                assert_int_equal(now->key_base, was[p].key_base);
            }
        }
        serve(bench, 3, 1, false);              /* it comes when it comes, not at the beginning */
        assert_true(program_of(bench, 3)->key_base >= clock);
    }
}

/* A key of one policy means nothing to another. */
static void test_keys_are_of_their_policy(void **state)
{
    (void)state;
    struct bench *bench = begin(SCHED_JUSTITIA);
    serve(bench, 1, 3, false);
    uint64_t service_us = program_of(bench, 1)->attained_us;
    bench = begin_core(SCHED_VTC);
    assert_int_equal(program_of(bench, 1)->service_us, service_us);
    assert_int_equal(program_of(bench, 1)->cost, 0);
    assert_int_equal(program_of(bench, 1)->key_base, 0);
}

/* A call that has so many tokens; as net takes it up, if it goes on. */
static void send_open(struct bench *bench, uint32_t number, uint32_t tokens, bool goes_on)
{
    uint32_t call = bench_take(bench, number, 4, 40, number);
    bench_at(bench, call)->generated_tokens = bench_at(bench, call)->published_tokens = tokens;
    bench_at(bench, call)->goes_on = goes_on;
    bench_send(bench, call);
    bench_intake(bench);
}

/* VTC: program 1 has had much, 2 little. A call of 2 that comes anew begins where 1 is; one that
 * was open when the core died has not been away, whichever of the two is taken up first. */
static void test_call_that_goes_on_is_not_lifted(void **state)
{
    (void)state;
    for (uint32_t goes_on = 0; goes_on < 2; goes_on++) {
        struct bench *bench = begin(SCHED_VTC);
        serve(bench, 1, 8, true);
        serve(bench, 2, 1, true);
        bench = begin_core(SCHED_VTC);
        uint64_t had = program_of(bench, 2)->served;
        send_open(bench, 1, 0, true);
        send_open(bench, 2, 0, goes_on);
        const struct program *of_much = program_of(bench, 1), *of_little = program_of(bench, 2);
        assert_true(of_much->served > had);
        assert_int_equal(of_little->key_base + of_little->served,
                         goes_on ? had : of_much->key_base + of_much->served);
    }
}

/* VTC: a prompt counts once, though two cores admit the call. */
static void test_prompt_of_a_call_that_goes_on_has_counted(void **state)
{
    (void)state;
    struct bench *bench = begin(SCHED_VTC);
    serve(bench, 1, 3, false);
    uint64_t had = program_of(bench, 1)->served;
    bench = begin_core(SCHED_VTC);
    send_open(bench, 1, 2, true);
    assert_true(bench_launch(bench));
    assert_int_equal(program_of(bench, 1)->served, had);
}

static void test_program_that_has_ended_stays_ended(void **state)
{
    (void)state;
    struct bench *bench = begin(SCHED_PLAS);
    serve(bench, 1, 2, true);
    serve(bench, 2, 2, true);
    assert_status(STATUS_OK, bench_program(bench, COMMAND_PROGRAM_END, 1).status);
    bench = begin_core(SCHED_PLAS);
    assert_null(program_of(bench, 1));
    assert_non_null(program_of(bench, 2));
    serve(bench, 1, 1, true);                   /* the same id is a new one */
    assert_int_equal(program_of(bench, 1)->calls_ended, 1);
}

static void test_programs_without_room_are_given_up(void **state)
{
    (void)state;
    struct bench *bench = begin(SCHED_PLAS);
    for (uint32_t i = 0; i < PROGRAMS; i++) {
        serve(bench, i, 1, true);
    }
    assert_int_equal(bench->sched.programs_count, PROGRAMS);
    bench = begin_core(SCHED_PLAS);
    serve(bench, 100, 1, true);
    assert_int_equal(bench->sched.programs_count, PROGRAMS);
}

/* ---- deaths ---------------------------------------------------------------------------------- */

/* Program p is served only in steps of its own kind: its service says whose it is. */
static uint64_t unit_of(uint32_t number)
{
    return BENCH_UNIT + number;
}

static void do_something(struct bench *bench)
{
    uint32_t number = (uint32_t)draw(2 * PROGRAMS);
    if (draw(6) == 0) {
        (void)bench_program(bench, COMMAND_PROGRAM_END, number);
        return;
    }
    uint32_t call = bench_call(bench, number, 4, 40);
    bench_intake(bench);
    for (uint64_t i = draw(4); i > 0 && bench_launch(bench); i--) {
        bench_compute(bench);
        bench_settle(bench, unit_of(number));
    }
    bench_cancel(bench, call);
    bench_intake(bench);
    bench_free(bench, call);
}

static uint32_t expect_right(struct bench *bench)
{
    uint32_t found = 0;
    for (uint32_t number = 0; number < 2 * PROGRAMS; number++) {
        const struct program *program = program_of(bench, number);
        if (program != NULL && !with_half_life) {
            assert_int_equal(program->service_us % unit_of(number), 0);
        }
        found += program != NULL;
    }
    assert_int_equal(found, bench->sched.programs_count);
    return found;
}

static void die_at_any_moment(void)
{
    struct bench *bench = begin_core(SCHED_PLAS);
    uint64_t found = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint64_t i = draw(3); i > 0; i--) {
            do_something(bench);
        }
        memcpy(before, kept, sizeof kept);
        do_something(bench);
        for (uint32_t i = 0; i < WORDS; i++) {
            kept[i] = draw(2) != 0 ? kept[i] : before[i];
        }
        bench = begin_core(SCHED_PLAS);
        found += expect_right(bench);
    }
    assert_true(found > ROUNDS);
}

static void test_death_at_any_moment_leaves_programs_that_were(void **state)
{
    (void)state;
    (void)begin(SCHED_PLAS);
    die_at_any_moment();
}

static void test_death_at_any_moment_with_a_half_life(void **state)
{
    (void)state;
    (void)begin(SCHED_PLAS);
    with_half_life = true;
    die_at_any_moment();
}

/* The number is the last store of a change: until then the version before holds. */
static void test_death_within_a_change_leaves_the_version_before(void **state)
{
    (void)state;
    struct bench *bench = begin(SCHED_PLAS);
    serve(bench, 1, 1, false);
    uint64_t service_us = program_of(bench, 1)->attained_us, number = bench->sched.kept[0].number;
    memcpy(before, kept, sizeof kept);
    assert_true(bench_step(bench));
    assert_int_equal(bench->sched.kept[0].number, number + 1);
    memcpy(after, kept, sizeof kept);
    for (uint32_t round = 0; round < 200; round++) {
        for (uint32_t i = 0; i < WORDS; i++) {
            kept[i] = draw(2) != 0 ? after[i] : before[i];
        }
        bench->sched.kept[0].number = number;
        bench = begin_core(SCHED_PLAS);
        assert_int_equal(program_of(bench, 1)->service_us, service_us);
    }
}

static void test_garbage_is_no_program(void **state)
{
    (void)state;
    struct bench *bench = begin(SCHED_PLAS);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        do_something(bench);
        for (uint64_t i = draw(20); i > 0; i--) {
            uint64_t *word = &kept[draw(WORDS)];
            *word = draw(2) != 0 ? *word ^ UINT64_C(1) << draw(64) : draw(64);
        }
        bench = begin_core(SCHED_PLAS);
        expect_right(bench);
    }
}

/* One entry's bytes in another's place are no copy of the program. */
static void test_entry_counts_in_its_own_place_only(void **state)
{
    (void)state;
    struct bench *bench = begin(SCHED_PLAS);
    serve(bench, 1, 2, true);
    bench->sched.kept[1] = bench->sched.kept[0];
    bench->sched.kept[0] = (struct sched_kept_program){.number = 0};
    bench = begin_core(SCHED_PLAS);
    assert_int_equal(bench->sched.programs_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_programs_are_as_they_were),
        cmocka_unit_test(test_next_call_of_a_long_program_comes_after_a_short_ones),
        cmocka_unit_test(test_keys_and_the_clock_are_as_they_were),
        cmocka_unit_test(test_keys_are_of_their_policy),
        cmocka_unit_test(test_call_that_goes_on_is_not_lifted),
        cmocka_unit_test(test_prompt_of_a_call_that_goes_on_has_counted),
        cmocka_unit_test(test_program_that_has_ended_stays_ended),
        cmocka_unit_test(test_programs_without_room_are_given_up),
        cmocka_unit_test(test_death_at_any_moment_leaves_programs_that_were),
        cmocka_unit_test(test_death_at_any_moment_with_a_half_life),
        cmocka_unit_test(test_death_within_a_change_leaves_the_version_before),
        cmocka_unit_test(test_garbage_is_no_program),
        cmocka_unit_test(test_entry_counts_in_its_own_place_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
