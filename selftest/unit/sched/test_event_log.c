/* SPDX-License-Identifier: MIT */
/*
 * Goal: the scheduler's events tell the whole story of a call and agree with its account: what it
 * was charged is in its `ran` events, in order, and each decision is noted once.
 * Method: a scheduler on the bench with a event_log that keeps everything; events are compared with
 * the call's own figures and with the statistics.
 */
#include "selftest/unit/sched/bench.h"

static struct event_log event_log;

static struct bench *start(struct sched_settings settings, const struct kvmem_settings *kv)
{
    struct bench *bench = bench_start_kv(&settings, kv);
    static _Alignas(ARENA_ALIGN_BYTES) uint8_t memory[4096 * sizeof(struct event)];
    struct arena arena;
    arena_init(&arena, memory, sizeof memory);
    event_log_init(&event_log, 4096, 0, &arena);
    bench->sched.settings.event_log = &event_log;
    return bench;
}

static uint32_t count_of(enum event_kind kind)
{
    uint32_t count = 0;
    assert_int_equal(event_log_first(&event_log), 0);       /* nothing was forgotten */
    for (uint64_t n = 0; n < event_log.next; n++) {
        count += event_log_at(&event_log, n)->what.kind == kind;
    }
    return count;
}

/* The last of this kind. */
static const struct event *last_of(enum event_kind kind)
{
    for (uint64_t n = event_log.next; n-- > 0;) {
        if (event_log_at(&event_log, n)->what.kind == kind) {
            return event_log_at(&event_log, n);
        }
    }
    fail_msg("no event of kind %u", kind);
    return NULL;
}

static void assert_kinds(const enum event_kind *kinds, uint32_t count)
{
    assert_int_equal(event_log.next, count);
    for (uint32_t n = 0; n < count; n++) {
        assert_string_equal(event_rows[event_log_at(&event_log, n)->what.kind].name,
                            event_rows[kinds[n]].name);
    }
}

static void test_story_of_one_call(void **state)
{
    static const enum event_kind kinds[] = {
        EVENT_PROGRAM_STARTED, EVENT_QUEUED,
        EVENT_STEP_BEGUN, EVENT_RAN, EVENT_FIRST_TOKEN, EVENT_STEP_ENDED,
        EVENT_STEP_BEGUN, EVENT_RAN, EVENT_FINISHED, EVENT_STEP_ENDED, EVENT_PROGRAM_ENDED};
    struct kvmem_settings kv = bench_kv(64);
    (void)state;
    struct bench *bench = start(bench_settings(SCHED_PLAS), &kv);
    uint32_t slot = bench_call(bench, 1, 5, 2);
    bench->now_us += 7;
    while (bench_step(bench)) {
    }
    assert_int_equal(bench_program(bench, COMMAND_PROGRAM_END, 1).status, STATUS_OK);
    assert_kinds(kinds, sizeof kinds / sizeof kinds[0]);
    const struct event *queued = event_log_at(&event_log, 1), *ran = event_log_at(&event_log, 3);
    assert_int_equal(queued->call, slot);
    assert_int_equal(queued->client_call_id, 1);
    assert_int_equal(queued->what.values[1], 5);
    assert_int_equal(queued->what.values[2], 2);
    assert_int_equal(ran->time_us, queued->time_us + 7 + BENCH_UNIT);
    assert_int_equal(ran->what.values[1], BENCH_UNIT);
    assert_int_equal(ran->what.values[2], 5);
    assert_int_equal(ran->what.values[3], 1);
    assert_int_equal(last_of(EVENT_FINISHED)->what.values[0], CALL_FINISH_LENGTH);
    assert_int_equal(last_of(EVENT_FINISHED)->what.values[2], 2);
    assert_int_equal(last_of(EVENT_STEP_ENDED)->what.values[0], BENCH_UNIT);
}

static void test_refused_call_and_forgotten_program(void **state)
{
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    struct kvmem_settings kv = bench_kv(64);
    (void)state;
    settings.programs = 1;
    struct bench *bench = start(settings, &kv);
    (void)bench_call(bench, 1, 5, BENCH_CONTEXT);
    assert_int_equal(last_of(EVENT_REFUSED)->what.values[0],
                     status_wire(STATUS_BAD_PROMPT_LENGTH));
    assert_int_equal(count_of(EVENT_PROGRAM_STARTED), 0);
    (void)bench_program(bench, COMMAND_PROGRAM_START, 1);
    (void)bench_program(bench, COMMAND_PROGRAM_START, 2);
    assert_int_equal(count_of(EVENT_PROGRAM_STARTED), 2);
    assert_int_equal(count_of(EVENT_PROGRAM_FORGOTTEN), 1);
    bench->now_us += settings.program_idle_us;
    bench_intake(bench);
    assert_int_equal(count_of(EVENT_PROGRAM_FORGOTTEN), 2);
}

/* Many calls in a pool that is too small for them, so that everything happens. */
static struct bench *crowd(void)
{
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    struct kvmem_settings kv = bench_kv(BENCH_BLOCKS_PER_CALL);
    kv.host_blocks = 64;
    settings.batch_calls = 3;
    settings.standby_calls = 2;
    settings.steps_per_plan = 2;
    settings.beta_milli = 2000;
    settings.wait_max_us = 3 * BENCH_UNIT;
    settings.sharing = SCHED_SHARING_PROGRAM;
    struct bench *bench = start(settings, &kv);
    for (uint32_t i = 0; i < 24; i++) {
        (void)bench_call(bench, i % 6, 10 + i % 7, 5 + i);
        bench->now_us += 17;
        (void)bench_step(bench);
    }
    while (bench_step(bench)) {
        bench->now_us += 3;
    }
    return bench;
}

static void test_events_agree_with_the_accounts_and_the_statistics(void **state)
{
    (void)state;
    struct bench *bench = crowd();
    const struct stats *stats = &bench->stats;
    uint64_t swapped_in = 0, swapped_out = 0, service_us[BENCH_CALLS] = {0}, before_us = 0;
    uint32_t preempted[BENCH_CALLS] = {0};
    for (uint64_t n = 0; n < event_log.next; n++) {
        const struct event *event = event_log_at(&event_log, n);
        const uint32_t *values = event->what.values;
        assert_true(event->time_us >= before_us);
        before_us = event->time_us;
        swapped_in += event->what.kind == EVENT_SWAPPED_IN ? values[0] : 0;
        swapped_out += event->what.kind == EVENT_SWAPPED_OUT ? values[0] : 0;
        if (event->what.kind == EVENT_RAN) {
            service_us[event->call] += values[1];
        } else if (event->what.kind == EVENT_PREEMPTED) {
            assert_true(values[0] > 0);
            preempted[event->call]++;
        }
    }
    assert_true(stats->preemptions > 0);
    assert_true(stats->promotions > 0);
    assert_true(stats->demotions > 0);
    assert_true(stats->standbys_entered > 0);
    assert_true(swapped_out > 0 && swapped_in > 0);
    assert_int_equal(count_of(EVENT_PREEMPTED), stats->preemptions);
    assert_int_equal(count_of(EVENT_DEMOTED), stats->demotions);
    assert_int_equal(count_of(EVENT_PROMOTED), stats->promotions);
    assert_int_equal(count_of(EVENT_FINISHED), stats->calls_completed);
    assert_int_equal(count_of(EVENT_QUEUED), stats->calls_accepted);
    assert_int_equal(count_of(EVENT_FIRST_TOKEN), stats->calls_completed);
    assert_int_equal(count_of(EVENT_STEP_BEGUN), stats->steps);
    assert_int_equal(count_of(EVENT_STEP_ENDED), stats->steps);
    assert_int_equal(swapped_in, bench->kv.counters.in_blocks);
    assert_int_equal(swapped_out, bench->kv.counters.out_blocks);
    for (uint32_t i = 0; i < 24; i++) {
        assert_int_equal(service_us[i], bench_at(bench, i)->service_us);
        assert_int_equal(preempted[i], bench_at(bench, i)->preemptions);
    }
}

static void test_lost_engine(void **state)
{
    struct kvmem_settings kv = bench_kv(64);
    (void)state;
    struct bench *bench = start(bench_settings(SCHED_PLAS), &kv);
    uint32_t slot = bench_call(bench, 1, 5, 2);
    assert_true(bench_launch(bench));
    bench->now_us += 99;
    bench_lose(bench);
    assert_int_equal(last_of(EVENT_ENGINE_LOST)->time_us, bench->now_us);
    assert_int_equal(count_of(EVENT_RAN), 0);
    while (bench_step(bench)) {
    }
    assert_int_equal(last_of(EVENT_FINISHED)->call, slot);
    assert_int_equal(last_of(EVENT_FINISHED)->what.values[3], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_story_of_one_call),
        cmocka_unit_test(test_refused_call_and_forgotten_program),
        cmocka_unit_test(test_events_agree_with_the_accounts_and_the_statistics),
        cmocka_unit_test(test_lost_engine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
