/* SPDX-License-Identifier: MIT */
/*
 * Goal: the process table finds, starts, ends, evicts and forgets programs, and never loses one.
 * Method: a table of 8 entries driven through commands and calls; sched_check() after each.
 */
#include "selftest/unit/sched/bench.h"

#include "sched/program.h"

enum { TABLE = 8 };

static struct bench *fresh(void)
{
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    return bench_start(&settings, 256);
}

static bool knows(const struct bench *bench, uint32_t program)
{
    uint8_t id[CALL_PROGRAM_ID_BYTES];
    bench_program_id(program, id);
    for (uint32_t i = 0; i < bench->sched.settings.programs; i++) {
        const struct program *entry = &bench->sched.programs[i];
        if (entry->in_use && memcmp(entry->id, id, sizeof id) == 0) {
            return true;
        }
    }
    return false;
}

static void test_start_twice_is_one_program(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    struct answer first = bench_program(bench, COMMAND_PROGRAM_START, 1);
    struct answer second = bench_program(bench, COMMAND_PROGRAM_START, 1);
    assert_status(STATUS_OK, first.status);
    assert_status(STATUS_OK, second.status);
    assert_int_equal(second.connection, 3);
    assert_int_equal(second.connection_generation, 9);
    assert_int_equal(second.kind, COMMAND_PROGRAM_START);
    assert_int_equal(bench->sched.programs_count, 1);
    assert_int_equal(bench->stats.programs_started, 1);
}

static void test_call_starts_its_program(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    bench_call(bench, 5, 3, 3);
    assert_true(knows(bench, 5));
}

static void test_end_answers_totals_and_forgets(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    uint32_t call = bench_call(bench, 1, 1, 2);
    bench->now_us += 3 * BENCH_UNIT;
    while (bench_step(bench)) {
    }
    bench_free(bench, call);
    struct answer answer = bench_program(bench, COMMAND_PROGRAM_END, 1);
    assert_status(STATUS_OK, answer.status);
    assert_int_equal(answer.calls, 1);
    assert_int_equal(answer.service_us, 2 * BENCH_UNIT);
    assert_int_equal(answer.wait_us, 3 * BENCH_UNIT);
    assert_false(knows(bench, 1));
    assert_status(STATUS_BAD_PROGRAM_UNKNOWN, bench_program(bench, COMMAND_PROGRAM_END, 1).status);
}

static void test_end_with_open_calls_is_refused(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    bench_call(bench, 1, 1, 2);
    assert_status(STATUS_BAD_PROGRAM_ACTIVE, bench_program(bench, COMMAND_PROGRAM_END, 1).status);
    assert_true(knows(bench, 1));
}

/* Another domain's program of the same id is another one: neither its totals nor its end show. */
static void test_same_id_in_two_domains_is_two_programs(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    uint32_t call = bench_call(bench, 1, 1, 2);
    while (bench_step(bench)) {
    }
    bench_free(bench, call);
    struct answer foreign = bench_program_in(bench, COMMAND_PROGRAM_END, 7, 1);
    assert_status(STATUS_BAD_PROGRAM_UNKNOWN, foreign.status);
    foreign = bench_program_in(bench, COMMAND_PROGRAM_START, 7, 1);
    assert_status(STATUS_OK, foreign.status);
    assert_int_equal(foreign.calls, 0);
    assert_int_equal(foreign.service_us, 0);
    assert_int_equal(bench->sched.programs_count, 2);
    assert_status(STATUS_OK, bench_program_in(bench, COMMAND_PROGRAM_END, 7, 1).status);
    struct answer own = bench_program(bench, COMMAND_PROGRAM_END, 1);
    assert_status(STATUS_OK, own.status);
    assert_int_equal(own.calls, 1);
    assert_true(own.service_us > 0);
}

/* Programs that meet in a chain: eight domains in eight chains. */
static void test_same_id_in_as_many_domains_as_there_are_chains(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    for (uint64_t domain = 0; domain < TABLE; domain++) {
        assert_status(STATUS_OK,
                      bench_program_in(bench, COMMAND_PROGRAM_START, domain, 1).status);
        assert_int_equal(bench->sched.programs_count, domain + 1);
    }
}

static void test_calls_of_a_program_are_limited(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    settings.calls_per_program = 2;
    struct bench *bench = bench_start(&settings, 256);
    bench_call(bench, 1, 1, 2);
    bench_call(bench, 1, 1, 2);
    uint32_t third = bench_call(bench, 1, 1, 2), other = bench_call(bench, 2, 1, 2);
    assert_int_equal(bench_at(bench, third)->finish, CALL_FINISH_REFUSED);
    assert_status(STATUS_BUSY_CALLS_OF_PROG, bench_at(bench, third)->status);
    assert_int_equal(bench_at(bench, other)->state, CALL_QUEUED);
    while (bench_step(bench)) {
    }
    uint32_t later = bench_call(bench, 1, 1, 2);
    assert_int_equal(bench_at(bench, later)->state, CALL_QUEUED);
}

static void test_full_table_evicts_the_longest_idle(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    for (uint32_t p = 0; p < TABLE; p++) {
        bench->now_us++;
        assert_status(STATUS_OK, bench_program(bench, COMMAND_PROGRAM_START, p).status);
    }
    bench_call(bench, 0, 1, 1);             /* the oldest is busy now */
    bench->now_us++;
    bench_program(bench, COMMAND_PROGRAM_START, 1);     /* and the next one young again */
    bench_program(bench, COMMAND_PROGRAM_START, 100);
    assert_true(knows(bench, 0));
    assert_true(knows(bench, 1));
    assert_false(knows(bench, 2));
    assert_true(knows(bench, 100));
    assert_int_equal(bench->stats.programs_expired, 1);
}

static void test_table_full_of_busy_programs_refuses(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    for (uint32_t p = 0; p < TABLE; p++) {
        bench_call(bench, p, 1, 1);
    }
    uint32_t call = bench_call(bench, 100, 1, 1);
    assert_int_equal(bench_at(bench, call)->finish, CALL_FINISH_REFUSED);
    assert_status(STATUS_BUSY_PROGRAMS, bench_at(bench, call)->status);
    assert_status(STATUS_BUSY_PROGRAMS,
                  bench_program(bench, COMMAND_PROGRAM_START, 101).status);
    assert_int_equal(bench->stats.calls_refused, 1);
}

static void test_stale_programs_are_forgotten(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    uint64_t idle_us = bench->sched.settings.program_idle_us;
    bench_program(bench, COMMAND_PROGRAM_START, 1);
    bench->now_us += 10;
    bench_program(bench, COMMAND_PROGRAM_START, 2);
    bench_call(bench, 3, 1, 1);
    assert_int_equal(sched_next_us(&bench->sched, bench->now_us), 1 + idle_us);
    bench->now_us = 1 + idle_us;
    bench_intake(bench);
    assert_false(knows(bench, 1));
    assert_true(knows(bench, 2));
    bench->now_us += idle_us;
    bench_intake(bench);
    assert_false(knows(bench, 2));
    assert_true(knows(bench, 3));           /* an open call keeps it, however long it waits */
    assert_int_equal(sched_next_us(&bench->sched, bench->now_us), UINT64_MAX);
}

static void test_entry_knows_its_threads_and_when_they_came_and_went(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    bench->now_us = 100;
    uint32_t first = bench_call(bench, 1, 1, 1);
    bench->now_us = 250;
    uint32_t second = bench_call(bench, 1, 1, 5);
    const struct program *entry = &bench->sched.programs[bench_at(bench, first)->program];
    assert_int_equal(entry->engine, 0);
    assert_int_equal(entry->last_arrival_us, 250);
    assert_int_equal(entry->last_completion_us, 0);
    assert_int_equal(entry->active_calls, 2);
    assert_int_equal(bench_member(bench, first)->first_call, second);
    assert_int_equal(bench_at(bench, second)->program_next, first);
    assert_int_equal(bench_at(bench, first)->program_next, CALL_NONE);
    assert_true(bench_step(bench));
    assert_int_equal(entry->active_calls, 1);
    assert_int_equal(entry->last_completion_us, 250 + BENCH_UNIT);
    assert_int_equal(entry->last_arrival_us, 250);
}

/* Four units of service, a half-life of ten: halved for each whole one, when it is asked for. */
static void test_service_halves_for_each_whole_half_life(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    bench->sched.settings.half_life_us = 10 * BENCH_UNIT;
    bench_call(bench, 1, 1, 4);
    uint64_t started_us = bench->now_us;
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(bench_step(bench));
    }
    struct program *entry = &bench->sched.programs[0];
    bench->now_us = started_us + 10 * BENCH_UNIT - 1;
    assert_int_equal(bench_program(bench, COMMAND_PROGRAM_START, 1).service_us, 4 * BENCH_UNIT);
    bench->now_us = started_us + 27 * BENCH_UNIT;
    uint32_t call = bench_call(bench, 1, 1, 2);
    assert_int_equal(bench_at(bench, call)->priority_us, BENCH_UNIT);
    bench->now_us = started_us + 30 * BENCH_UNIT;   /* the seven left over count */
    bench_cancel(bench, call);
    bench_intake(bench);
    assert_int_equal(entry->service_us, BENCH_UNIT / 2);
    assert_int_equal(bench_at(bench, call)->priority_us, BENCH_UNIT);   /* a snapshot */
    bench->now_us += 1000 * 10 * BENCH_UNIT;
    assert_int_equal(bench_program(bench, COMMAND_PROGRAM_START, 1).service_us, 0);
}

static void test_random_programs_match_a_list(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    uint32_t idle[TABLE];                   /* oldest first */
    uint32_t count = 0;
    uint64_t random = 7;
    for (uint32_t round = 0; round < 5000; round++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        uint32_t program = (uint32_t)(random >> 33) % (2 * TABLE);
        uint32_t at = 0;
        bool ends = random >> 62 == 0;
        while (at < count && idle[at] != program) {
            at++;
        }
        enum status expected = ends && at == count ? STATUS_BAD_PROGRAM_UNKNOWN : STATUS_OK;
        bench->now_us++;
        assert_status(expected, bench_program(bench, ends ? COMMAND_PROGRAM_END
                                                          : COMMAND_PROGRAM_START, program).status);
        if (at < count || (!ends && count == TABLE)) {
            at = at < count ? at : 0;
            memmove(idle + at, idle + at + 1, (--count - at) * sizeof idle[0]);
        }
        if (!ends) {
            idle[count++] = program;
        }
        for (uint32_t p = 0; p < 2 * TABLE; p++) {
            bool wanted = false;
            for (uint32_t i = 0; i < count; i++) {
                wanted = wanted || idle[i] == p;
            }
            assert_int_equal(knows(bench, p), wanted);
        }
    }
}

/* However often it comes and goes, a program is one that levels are learnt from. */
static void test_program_counts_once_for_the_levels(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    settings.quantum_us = 0;
    struct bench *bench = bench_start(&settings, 256);
    for (uint32_t i = 0; i < 5; i++) {
        uint32_t call = bench_call(bench, 1, 1, 4);
        while (bench_step(bench)) {
        }
        bench_free(bench, call);
        assert_int_equal(bench->sched.services.count, 1);
    }
    bench_call(bench, 1, 1, 4);
    assert_int_equal(bench->sched.services.count, 0);
    bench_cancel(bench, bench_call(bench, 2, 1, 4));    /* never served: it tells nothing */
    bench_intake(bench);
    assert_int_equal(bench->sched.services.count, 0);
}

/* ---- accounts -------------------------------------------------------------------------------- */

#define RED  DOMAIN_OF_KEY
#define BLUE (DOMAIN_OF_KEY + 1)

static enum status start_of(struct bench *bench, uint64_t domain, uint32_t number)
{
    uint8_t id[CALL_PROGRAM_ID_BYTES];
    uint32_t program;
    bench_program_id(number, id);
    bench->now_us++;
    enum status status = sched_program_start(&bench->sched, domain, id, bench->now_us, &program);
    sched_check(&bench->sched);
    return status;
}

static bool knows_of(const struct bench *bench, uint64_t domain, uint32_t number)
{
    uint8_t id[CALL_PROGRAM_ID_BYTES];
    bench_program_id(number, id);
    return sched_program_find(&bench->sched, domain, id) != SCHED_PROGRAM_NONE;
}

static struct bench *divided(uint32_t red_min, uint32_t blue_min)
{
    struct bench *bench = fresh();
    struct quotas quotas = {.totals = {[QUOTA_PROGRAMS] = TABLE}};
    for (uint32_t i = 0; i < QUOTA_ACCOUNTS_MAX; i++) {
        quotas.of[QUOTA_PROGRAMS][i] = (struct quota_bounds){
            .min = i == 1 ? red_min : i == 2 ? blue_min : 0, .max = UINT32_MAX};
    }
    quota_bind(&bench->sched.quota, &quotas, QUOTA_PROGRAMS);
    return bench;
}

static void test_fresh_programs_push_out_their_own_domains(void **state)
{
    (void)state;
    struct bench *bench = divided(2, 2);
    for (uint32_t i = 0; i < 3; i++) {
        assert_status(STATUS_OK, start_of(bench, BLUE, i));
    }
    for (uint32_t i = 0; i < 1000; i++) {
        assert_status(STATUS_OK, start_of(bench, RED, i));
    }
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(knows_of(bench, BLUE, i));
    }
    assert_int_equal(bench->sched.quota.used_by[1], TABLE - 3);
    for (uint32_t i = 10; i < 20; i++) {
        assert_status(STATUS_OK, start_of(bench, BLUE, i));
    }
    assert_int_equal(bench->sched.quota.used_by[1], TABLE / 2);
    assert_true(knows_of(bench, RED, 999) && knows_of(bench, BLUE, 19));
}

/* Programs with open calls cannot be given up: they never take another's minimum. */
static void test_active_programs_leave_the_minimums_of_others(void **state)
{
    (void)state;
    struct bench *bench = divided(1, 3);
    for (uint32_t i = 0; i < TABLE - 3; i++) {
        uint32_t call = bench_take(bench, i, 1, 1, i);
        bench_at(bench, call)->domain = RED;
        bench_send(bench, call);
        bench_intake(bench);
    }
    assert_status(STATUS_BUSY_PROGRAMS, start_of(bench, RED, 50));
    for (uint32_t i = 0; i < 3; i++) {
        assert_status(STATUS_OK, start_of(bench, BLUE, i));
    }
    assert_status(STATUS_OK, start_of(bench, BLUE, 7));
    assert_false(knows_of(bench, BLUE, 0));
}

static void test_without_minimums_the_longest_idle_of_any_domain_goes(void **state)
{
    (void)state;
    struct bench *bench = divided(0, 0);
    assert_status(STATUS_OK, start_of(bench, BLUE, 0));
    for (uint32_t i = 0; i < TABLE; i++) {
        assert_status(STATUS_OK, start_of(bench, RED, i));
    }
    assert_false(knows_of(bench, BLUE, 0));
    assert_status(STATUS_OK, start_of(bench, BLUE, 1));
    assert_false(knows_of(bench, RED, 0));
    assert_true(knows_of(bench, RED, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_start_twice_is_one_program),
        cmocka_unit_test(test_call_starts_its_program),
        cmocka_unit_test(test_end_answers_totals_and_forgets),
        cmocka_unit_test(test_end_with_open_calls_is_refused),
        cmocka_unit_test(test_same_id_in_two_domains_is_two_programs),
        cmocka_unit_test(test_same_id_in_as_many_domains_as_there_are_chains),
        cmocka_unit_test(test_calls_of_a_program_are_limited),
        cmocka_unit_test(test_full_table_evicts_the_longest_idle),
        cmocka_unit_test(test_table_full_of_busy_programs_refuses),
        cmocka_unit_test(test_stale_programs_are_forgotten),
        cmocka_unit_test(test_entry_knows_its_threads_and_when_they_came_and_went),
        cmocka_unit_test(test_service_halves_for_each_whole_half_life),
        cmocka_unit_test(test_program_counts_once_for_the_levels),
        cmocka_unit_test(test_random_programs_match_a_list),
        cmocka_unit_test(test_fresh_programs_push_out_their_own_domains),
        cmocka_unit_test(test_active_programs_leave_the_minimums_of_others),
        cmocka_unit_test(test_without_minimums_the_longest_idle_of_any_domain_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
