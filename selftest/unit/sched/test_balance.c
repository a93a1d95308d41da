/* SPDX-License-Identifier: MIT */
/* What: which engine a call goes to, and that its tokens do not depend on it. */
#include "selftest/unit/sched/box.h"

#include "sched/policy.h"

/* ---- the rules ------------------------------------------------------------------------------- */

static void test_rr_takes_turns(void **state)
{
    (void)state;
    struct box *box = box_start_by(SCHED_BALANCE_RR, 3);
    for (uint32_t i = 0; i < 9; i++) {
        assert_int_equal(box_engine_of(box, bench_call(box->bench, i % 2, 4, 4)), i % 3);
    }
}

static void test_least_goes_where_few_calls_are_open_and_ties_take_turns(void **state)
{
    (void)state;
    struct box *box = box_start_by(SCHED_BALANCE_LEAST, 3);
    uint32_t calls[4];
    for (uint32_t i = 0; i < 4; i++) {
        calls[i] = bench_call(box->bench, 1, 4, 4);
        assert_int_equal(box_engine_of(box, calls[i]), i % 3);
    }
    bench_cancel(box->bench, calls[2]);
    bench_intake(box->bench);
    assert_int_equal(box_engine_of(box, bench_call(box->bench, 1, 4, 4)), 2);
    assert_int_equal(box_engine_of(box, bench_call(box->bench, 1, 4, 4)), 1);
}

/* The second call sees the first, though none has had a step. */
static void test_calls_of_one_pass_see_each_other(void **state)
{
    (void)state;
    struct box *box = box_start_by(SCHED_BALANCE_LEAST, 2);
    uint32_t calls[6], on_first = 0;
    for (uint32_t i = 0; i < 6; i++) {
        calls[i] = bench_take(box->bench, i, 4, 4, i);
        bench_send(box->bench, calls[i]);
    }
    bench_intake(box->bench);
    for (uint32_t i = 0; i < 6; i++) {
        on_first += box_engine_of(box, calls[i]) == 0;
    }
    assert_int_equal(on_first, 3);
}

static void test_idle_engines_take_turns(void **state)
{
    (void)state;
    struct box *box = box_start_by(SCHED_BALANCE_LEAST, 2);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(box_engine_of(box, bench_call(box->bench, i, 4, 1)), i % 2);
        box_run_all(box);
    }
}

static void test_local_sends_long_prompts_to_the_engine_of_their_program(void **state)
{
    (void)state;
    struct box *box = box_start_by(SCHED_BALANCE_LOCAL, 3);
    uint32_t first = bench_call(box->bench, 1, 4, 4);
    assert_int_equal(box_program_of(box, first)->engine, SCHED_ENGINE_NONE);
    uint32_t home = box_engine_of(box, bench_call(box->bench, 1, 17, 4));
    assert_int_equal(home, 1);
    assert_int_equal(box_program_of(box, first)->engine, home);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(box_engine_of(box, bench_call(box->bench, 1, 17 + i, 4)), home);
    }
    /* A short one, of 16 tokens, goes elsewhere, and the assignment is untouched. */
    assert_int_equal(box_engine_of(box, bench_call(box->bench, 1, 16, 4)), 2);
    assert_int_equal(box_program_of(box, first)->engine, home);
    assert_int_not_equal(box_engine_of(box, bench_call(box->bench, 2, 17, 4)), home);
}

static void test_local_of_no_tokens_assigns_every_call(void **state)
{
    (void)state;
    struct sched_settings settings = box_settings(SCHED_BALANCE_LOCAL, 3);
    settings.balance_tokens = 0;
    struct box *box = box_start(&settings, 64);
    for (uint32_t i = 0; i < 9; i++) {
        assert_int_equal(box_engine_of(box, bench_call(box->bench, i % 3, 1, 2)), i % 3);
    }
}

/* The other engine is idle when the third call comes. From then on both are used: the program
 * stays, beyond the two rows of its engine, until that is used more than twice as much. */
static void test_auto_moves_a_program_to_an_idle_engine_and_spreads_it(void **state)
{
    (void)state;
    struct box *box = box_start_by(SCHED_BALANCE_AUTO, 2);
    static const uint32_t expected[] = {0, 0, 1, 1, 1, 1, 1, 0, 1};
    for (uint32_t i = 0; i < 9; i++) {
        assert_int_equal(box_engine_of(box, bench_call(box->bench, 1, 4 + i, 4)), expected[i]);
    }
    assert_int_equal(box->bench->sched.programs[0].engine, 1);
    box_run_all(box);
    assert_int_equal(box_engine_of(box, bench_call(box->bench, 1, 4, 4)), 1);
}

static void test_auto_keeps_programs_at_their_engines(void **state)
{
    (void)state;
    struct box *box = box_start_by(SCHED_BALANCE_AUTO, 2);
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(box_engine_of(box, bench_call(box->bench, i % 2, 4 + i, 4)), i % 2);
        box_run_all(box);
    }
}

static uint32_t call_that_begins(struct box *box, uint32_t program, uint32_t with)
{
    uint32_t call = bench_take(box->bench, program, 20, 4, 0);
    bench_at(box->bench, call)->tokens[0] = with;
    bench_send(box->bench, call);
    bench_intake(box->bench);
    return call;
}

/* Programs 0 and 2 are at engine 0, and engine 1 has no call. The second call of program 0 in a row
 * that finds nothing goes there. */
static void test_a_program_whose_calls_find_nothing_moves(void **state)
{
    struct box *box = box_start_by(*(enum sched_balance *)*state, 2);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(box_engine_of(box, call_that_begins(box, i, 0)), i % 2);
        box_run_all(box);
    }
    static const uint32_t begins[] = {0, 1, 0, 1, 2, 3};
    for (uint32_t i = 0; i < 6; i++) {
        (void)call_that_begins(box, 2, 0);
        assert_int_equal(box_engine_of(box, call_that_begins(box, 0, begins[i])), i == 5);
        box_run_all(box);
    }
    assert_int_equal(box->bench->sched.programs[0].engine, 1);
}

static void test_program_keeps_its_engine(void **state)
{
    (void)state;
    struct box *box = box_start_by(SCHED_BALANCE_PROGRAM, 2);
    for (uint32_t i = 0; i < 12; i++) {
        assert_int_equal(box_engine_of(box, bench_call(box->bench, i % 4, 2, 2)), i % 4 % 2);
        box_run_all(box);
    }
}

/* More than half of the prompt has to be there; half is not enough. */
static void test_preble_goes_where_most_of_the_prompt_is(void **state)
{
    (void)state;
    struct box *box = box_start_by(SCHED_BALANCE_PREBLE, 3);
    bench_call(box->bench, 1, 4, 2);
    assert_int_equal(box_engine_of(box, bench_call(box->bench, 2, 20, 2)), 1);
    box_run_all(box);
    uint32_t again = bench_call(box->bench, 2, 36, 2);      /* 20 of 36 are there */
    assert_int_equal(box_engine_of(box, again), 1);
    box_run_all(box);
    bench_cancel(box->bench, bench_call(box->bench, 3, 4, 2));
    uint32_t longer = bench_call(box->bench, 2, 80, 2);     /* 36 of 80 */
    assert_int_not_equal(box_engine_of(box, longer), 1);
}

static void test_one_engine_gets_all(void **state)
{
    (void)state;
    for (uint32_t balance = 0; balance <= SCHED_BALANCE_PREBLE; balance++) {
        struct box *box = box_start_by((enum sched_balance)balance, 1);
        for (uint32_t i = 0; i < 4; i++) {
            assert_int_equal(box_engine_of(box, bench_call(box->bench, i, 20, 2)), 0);
        }
        box_run_all(box);
    }
}

/* ---- one program on several engines ---------------------------------------------------------- */

/* The levels end at 2, 6 and 14 units: what one engine serves counts on the other, too. */
static void test_a_program_sinks_on_all_engines(void **state)
{
    (void)state;
    struct box *box = box_start_by(SCHED_BALANCE_RR, 2);
    uint32_t here = bench_call(box->bench, 1, 4, 20), there = bench_call(box->bench, 1, 4, 20);
    assert_int_equal(box_engine_of(box, there), 1);
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(box_launch(box, 0));
        box->bench->now_us += BENCH_UNIT;
        box_settle(box, 0);
    }
    assert_int_equal(bench_job(box->bench, here)->queue, 1);
    assert_int_equal(bench_job(box->bench, there)->queue, 1);
    box_run_all(box);
}

/* Engine 1 has nothing of the tenant: its plans do not say that the tenant has all it wants. */
static void test_a_tenant_wants_more_when_any_engine_refuses_it(void **state)
{
    (void)state;
    struct sched_settings settings = box_settings(SCHED_BALANCE_PROGRAM, 2);
    settings.tenants = 3;
    settings.batch_calls = 1;
    struct box *box = box_start(&settings, 64);
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t call = bench_take(box->bench, 1, 4, 4, 1);
        bench_at(box->bench, call)->domain = 7;
        bench_send(box->bench, call);
    }
    bench_intake(box->bench);
    const struct program *program = &box->bench->sched.programs[0];
    assert_true(box_launch(box, 0));
    assert_true(box->bench->sched.tenants.of[program->tenant].wants);
    assert_false(box_launch(box, 1));
    assert_true(box->bench->sched.tenants.of[program->tenant].wants);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static uint64_t random_state;

static uint32_t draw(uint32_t below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % below;
}

/* A call that two kills have hit when it was alone has failed, and what it had was right. */
static void check_tokens(struct box *box, uint32_t call)
{
    const struct call *ended = bench_at(box->bench, call);
    uint32_t tokens[BENCH_CONTEXT];
    memcpy(tokens, ended->tokens, ended->prompt_tokens * sizeof *tokens);
    uint32_t count = fake_engine_oracle(&box->seats[0].engine, tokens, ended->prompt_tokens,
                                        ended->max_tokens, &ended->sampling);
    if (ended->status != STATUS_DEVICE_POISON) {
        assert_int_equal(ended->finish, CALL_FINISH_LENGTH);
        assert_int_equal(count, ended->generated_tokens);
    }
    assert_memory_equal(tokens + ended->prompt_tokens, ended->tokens + ended->prompt_tokens,
                        ended->generated_tokens * sizeof *tokens);
}

static bool is_open(struct box *box, uint32_t call)
{
    return bench_at(box->bench, call)->state != CALL_FINISHED;
}

/* Ends calls that are done. */
static void reap(struct box *box, uint32_t *calls, uint32_t *count)
{
    for (uint32_t i = *count; i-- > 0;) {
        if (!is_open(box, calls[i])) {
            check_tokens(box, calls[i]);
            bench_free(box->bench, calls[i]);
            calls[i] = calls[--*count];
        }
    }
}

static void kill_one(struct box *box)
{
    uint32_t victim = draw(box->engines);
    if (box_engine(box, victim)->serves) {
        if (draw(2) == 0 && !box->seats[victim].busy) {
            box_launch(box, victim);
        }
        box_lose(box, victim);
    } else {
        box_serve(box, victim, true);
    }
}

static void run_randomly(uint64_t seed)
{
    random_state = seed;
    struct sched_settings settings =
        box_settings((enum sched_balance)draw(SCHED_BALANCE_PREBLE + 1), 1 + draw(BOX_ENGINES_MAX));
    settings.policy = draw(2) == 0 ? SCHED_PLAS : (enum sched_policy)draw(SCHED_POLICIES);
    settings.active_programs = draw(2) == 0 ? 0 : SCHED_ACTIVE_ALL;
    settings.service = draw(2) == 0 ? SCHED_SERVICE_LIVE : SCHED_SERVICE_SNAPSHOT;
    settings.tenants = 1 + draw(3);
    settings.steps_per_plan = 1 + draw(3);
    settings.standby_calls = draw(3);
    settings.wait_max_us = draw(2) * 20 * BENCH_UNIT;
    settings.exchange_permille = 30;
    struct box *box = box_start(&settings, 24 + draw(40));
    uint32_t calls[BENCH_CALLS], count = 0;
    for (uint32_t i = 0; i < 400; i++) {
        while (count < BENCH_CALLS / 2 && draw(3) > 0) {
            uint32_t program = draw(7);
            calls[count] = bench_take(box->bench, program, 1 + draw(40), 1 + draw(20), draw(4));
            bench_at(box->bench, calls[count])->domain = program % 3;
            bench_send(box->bench, calls[count++]);
        }
        bench_intake(box->bench);
        if (draw(12) == 0) {
            kill_one(box);
        }
        for (uint32_t e = 0; e < box->engines; e++) {
            bool steps = box_engine(box, e)->serves && draw(3) > 0;
            if (steps && (box->seats[e].busy || box_launch(box, e)) && draw(2) > 0) {
                box->bench->now_us += draw(3) * BENCH_UNIT;
                box_settle(box, e);
            }
        }
        reap(box, calls, &count);
    }
    for (uint32_t e = 0; e < box->engines; e++) {
        box_serve(box, e, true);
    }
    box_run_all(box);
    reap(box, calls, &count);
    assert_int_equal(count, 0);
}

static void test_tokens_are_the_same_whatever_engines_do(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        run_randomly(seed);
    }
}

#define FOR(balance, test) cmocka_unit_test_prestate(test, &(enum sched_balance){balance})

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rr_takes_turns),
        cmocka_unit_test(test_least_goes_where_few_calls_are_open_and_ties_take_turns),
        cmocka_unit_test(test_calls_of_one_pass_see_each_other),
        cmocka_unit_test(test_idle_engines_take_turns),
        cmocka_unit_test(test_local_sends_long_prompts_to_the_engine_of_their_program),
        cmocka_unit_test(test_local_of_no_tokens_assigns_every_call),
        cmocka_unit_test(test_auto_moves_a_program_to_an_idle_engine_and_spreads_it),
        cmocka_unit_test(test_auto_keeps_programs_at_their_engines),
        FOR(SCHED_BALANCE_AUTO, test_a_program_whose_calls_find_nothing_moves),
        FOR(SCHED_BALANCE_LOCAL, test_a_program_whose_calls_find_nothing_moves),
        cmocka_unit_test(test_program_keeps_its_engine),
        cmocka_unit_test(test_preble_goes_where_most_of_the_prompt_is),
        cmocka_unit_test(test_one_engine_gets_all),
        cmocka_unit_test(test_a_program_sinks_on_all_engines),
        cmocka_unit_test(test_a_tenant_wants_more_when_any_engine_refuses_it),
        cmocka_unit_test(test_tokens_are_the_same_whatever_engines_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
