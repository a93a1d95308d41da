/* SPDX-License-Identifier: MIT */
/*
 * Goal: a whole run of the lab: Figure 2 of paper 000 through the appliance's own loop, response
 * times along the critical path, and the same settings giving the same run.
 * Method: small traces; with the preset `unit` every decoding round is a second, so every figure
 * can be counted by hand. selftest/unit/sched/test_figure2.c has the same figure without a loop.
 */
#include "selftest/unit/lab/traces.h"

#include <math.h>

/* A {4,3,1,1}   B {3,3,4}   C {1,2}   D {4}: all arrive at 0, a batch of two. */
static const char figure_2[] =
    "agentix-trace 1\n"
    "program a 0 long\n"
    "call 0 after=- gap=0 in=u:1 out=4\ncall 1 after=0 gap=0 in=u:1 out=3\n"
    "call 2 after=1 gap=0 in=u:1 out=1\ncall 3 after=2 gap=0 in=u:1 out=1\n"
    "program b 0 long\n"
    "call 0 after=- gap=0 in=u:1 out=3\ncall 1 after=0 gap=0 in=u:1 out=3\n"
    "call 2 after=1 gap=0 in=u:1 out=4\n"
    "program c 0 short\n"
    "call 0 after=- gap=0 in=u:1 out=1\ncall 1 after=0 gap=0 in=u:1 out=2\n"
    "program d 0 short\n"
    "call 0 after=- gap=0 in=u:1 out=4\n";

static void test_figure_2_fcfs_waits_18_units(void **state)
{
    (void)state;
    struct lab_settings settings = traces_settings("fcfs", "unit");
    struct lab_result result = traces_play(&settings, figure_2);
    assert_true(result.wait_s_total == 18);
    assert_true(result.makespan_s == 14);
    assert_int_equal(result.calls, 10);
}

/* K = 2 and a first quantum as long as the longest call. */
static void test_figure_2_mlfq_waits_18_units(void **state)
{
    (void)state;
    struct lab_settings settings = traces_settings("mlfq", "unit");
    traces_set(&settings, "sched.queues=2");
    traces_set(&settings, "sched.quantum=4s");
    assert_true(traces_play(&settings, figure_2).wait_s_total == 18);
}

/* K = 16, quanta and ranges of a unit, and a running call wins a tie. */
static void test_figure_2_plas_waits_12_units(void **state)
{
    (void)state;
    struct lab_settings settings = traces_settings("plas", "unit");
    traces_set(&settings, "sched.queues=16");
    traces_set(&settings, "sched.quantum_growth=1");
    settings.demoted_to_head = true;
    struct lab_result result = traces_play(&settings, figure_2);
    assert_true(result.wait_s_total == 12);
    assert_true(result.makespan_s == 14);
    settings.demoted_to_head = false;
    assert_true(traces_play(&settings, figure_2).wait_s_total < 18);
}

/* Shortest programs first: C and D never wait, then A 3 s and B 4 s for a place. */
static void test_figure_2_srpt_waits_7_units(void **state)
{
    (void)state;
    struct lab_settings settings = traces_settings("srpt", "unit");
    struct lab_result result = traces_play(&settings, figure_2);
    assert_true(result.wait_s_total == 7);
    assert_true(result.makespan_s == 14);
    assert_string_equal(result.policy, "srpt");
    traces_set(&settings, "sched.policy=fcfs");     /* later words win */
    result = traces_play(&settings, figure_2);
    assert_true(result.wait_s_total == 18);
    assert_string_equal(result.policy, "fcfs");
}

/* Two threads of 3 and 1 s after a call of 2 s, a gap of 10 s, then one of 1 s. The path is
 * 2 + 3 + 1 = 6 s for 7 tokens; with the gap 16 s. */
static void test_response_time_is_the_critical_path_without_gaps(void **state)
{
    (void)state;
    struct lab_settings settings = traces_settings("plas", "unit");
    struct lab_result result = traces_play(&settings,
        "agentix-trace 1\nprogram p 0 x\n"
        "call 0 after=- gap=0 in=s:doc:20 out=2\n"
        "call 1 after=0 gap=0 in=p:0+o:0+u:3 out=3\n"
        "call 2 after=0 gap=0 in=p:0+o:0+u:3 out=1\n"
        "call 3 after=1,2 gap=10000000 in=p:1+o:1+o:2 out=1\n");
    assert_true(result.all.token.mean == 6.0 / 7);
    assert_true(result.all.token_with_gaps.mean == 16.0 / 7);
    assert_true(result.all.jct.mean == 16);
    /* A round is 1 s, and so is every distance between tokens. */
    assert_true(result.serving.job_s.mean == 16);
    assert_true(result.serving.first_ms.p50 == 1000 && result.serving.first_ms.p99 == 1000);
    assert_true(result.serving.token_ms.mean == 1000 && result.serving.speed.mean == 1);
    assert_true(result.serving.latency_ms.p99 == 3000);
}

/* Twice the trace: the second time with other programs. */
static void test_programs_beyond_the_trace_are_new_ones(void **state)
{
    (void)state;
    struct lab_settings settings = traces_settings("fcfs", "unit");
    settings.programs = 8;
    settings.offline = true;
    struct lab_result result = traces_play(&settings, figure_2);
    assert_int_equal(result.calls, 20);
    assert_int_equal(result.tokens_generated, 2 * 26);
}

/* The second program finds the document of the first one only in its own trust domain. */
static void test_tenants_share_no_prefix(void **state)
{
    (void)state;
    static const char text[] =
        "agentix-trace 1\n"
        "program a 0 ann\ncall 0 after=- gap=0 in=s:doc:64+u:8 out=4\n"
        "program b 60000000 bob\ncall 0 after=- gap=0 in=s:doc:64+u:8 out=4\n"
        "program c 120000000 ann\ncall 0 after=- gap=0 in=s:doc:64+u:8 out=4\n";
    struct lab_settings settings = traces_settings("plas", "a100-llama-3.1-8b");
    traces_set(&settings, "kv.retain_drop=1h");
    assert_int_equal(traces_play(&settings, text).cached_tokens, 128);
    settings.tenants = true;
    assert_int_equal(traces_play(&settings, text).cached_tokens, 64);
}

static void test_too_many_tenants_are_refused(void **state)
{
    (void)state;
    static char text[LAB_TENANTS_MAX * 64 + 128];
    struct lab_settings settings = traces_settings("plas", "unit");
    struct lab_result result;
    struct trace trace;
    int length = snprintf(text, sizeof text, "agentix-trace 1\n");
    for (uint32_t i = 0; i <= LAB_TENANTS_MAX; i++) {
        length += snprintf(text + length, sizeof text - (size_t)length,
                           "program p 0 t%u\ncall 0 after=- gap=0 in=u:1 out=1\n", i);
    }
    settings.tenants = true;
    trace_text_load(&trace, text);
    assert_int_equal(trace.classes_count, LAB_TENANTS_MAX + 1);
    assert_int_equal(lab_run(&settings, &trace, &result), LAB_EXIT_USAGE);
    trace_free(&trace);
}

static void test_same_settings_give_the_same_run(void **state)
{
    (void)state;
    struct lab_settings settings = traces_settings("atlas", "a100-llama-3.1-8b");
    settings.programs = 50;
    settings.rate = 20;
    settings.seed = 7;
    struct lab_result first = traces_play(&settings, figure_2);
    struct lab_result second = traces_play(&settings, figure_2);
    first.wall_s = second.wall_s = first.scheduler_ns = second.scheduler_ns = 0;
    assert_memory_equal(&first.all, &second.all, sizeof first.all);
    assert_memory_equal(&first.steady, &second.steady, sizeof first.steady);
    assert_true(first.makespan_s == second.makespan_s && first.steps == second.steps);
    assert_true(first.wait_s_total == second.wait_s_total);
    settings.seed = 8;
    assert_true(traces_play(&settings, figure_2).wait_s_total != first.wait_s_total);
}

/* Blocks for one and a half calls, and a host tier of so many times that: the later one is
 * preempted, and all still end. */
static struct lab_result play_in_a_small_pool(const char *host_ratio)
{
    struct lab_settings settings = traces_settings("plas", "cpu");
    traces_set(&settings, "limits.context_tokens=128");
    traces_set(&settings, "kv.device_blocks=12");
    traces_set(&settings, host_ratio);
    traces_set(&settings, "sched.quantum=30ms");
    traces_set(&settings, "sched.active_set=off");
    struct lab_result result = traces_play(&settings,
        "agentix-trace 1\n"
        "program p 0 x\ncall 0 after=- gap=0 in=u:60 out=60\n"
        "program q 1000 x\ncall 0 after=- gap=0 in=u:60 out=60\n"
        "program r 300000 x\ncall 0 after=- gap=0 in=u:60 out=60\n");
    assert_true(result.preemptions > 0);
    return result;
}

static void test_calls_that_lose_their_blocks_are_recomputed(void **state)
{
    (void)state;
    struct lab_result result = play_in_a_small_pool("kv.host_ratio=0");
    assert_true(result.recomputed_tokens > 0);
    assert_int_equal(result.tokens_generated, 180);
    assert_true(result.device_blocks_peak <= 12);
}

/* With room on the host nothing is fed twice, and blocks go out and come back. */
static void test_calls_that_lose_their_blocks_are_swapped(void **state)
{
    (void)state;
    struct lab_result result = play_in_a_small_pool("kv.host_ratio=4");
    assert_int_equal(result.recomputed_tokens, 0);
    assert_true(result.swap_in_blocks > 0 && result.swap_out_blocks > 0);
    assert_true(result.swap_transfers > 0 && result.host_blocks_peak > 0);
    assert_int_equal(result.swap_in_calls, result.preemptions);
    assert_int_equal(result.swap_back_calls, result.preemptions);
}

/* A history that comes back from the host belongs to no preempted call. q needs the whole device
 * while p's tool works. A block alone costs more than its part of a bulk transfer. */
static void test_history_that_is_swapped_in_is_no_preempted_call(void **state)
{
    (void)state;
    static const char text[] =
        "agentix-trace 1\n"
        "program p 0 x\ncall 0 after=- gap=0 in=u:100 out=20\n"
        "call 1 after=0 gap=20000000 in=p:0+o:0 out=4\n"
        "program q 5000000 x\ncall 0 after=- gap=0 in=u:100 out=20\n";
    struct lab_settings settings = traces_settings("plas", "a100-llama-3.1-8b");
    traces_set(&settings, "limits.context_tokens=128");
    traces_set(&settings, "kv.device_blocks=8");
    traces_set(&settings, "kv.host_ratio=4");
    struct lab_result bulk = traces_play(&settings, text);
    assert_int_equal(bulk.preemptions, 0);
    assert_int_equal(bulk.swap_in_calls, 1);
    assert_int_equal(bulk.swap_back_calls, 0);
    settings.block_copies = true;
    struct lab_result alone = traces_play(&settings, text);
    assert_int_equal(alone.swap_in_blocks, bulk.swap_in_blocks);
    /* transfers * 1 ms less, blocks * 64 * 2.3 us more */
    double more_s = (double)(bulk.swap_in_blocks + bulk.swap_out_blocks) * 64 * 2.3e-6;
    double less_s = (double)bulk.swap_transfers * 1e-3;
    double longer_s = alone.copy_out_s + alone.copy_in_s - bulk.copy_out_s - bulk.copy_in_s;
    assert_true(fabs(longer_s - (more_s - less_s)) < 1e-5);
}

/* q needs the blocks of p's history, so its round waits for them to leave, in every kind; the
 * history comes back before its round. What takes how long is the same in all of them. */
static void test_steps_wait_for_copies_as_the_engine_does(void **state)
{
    (void)state;
    static const char text[] =
        "agentix-trace 1\n"
        "program p 0 x\ncall 0 after=- gap=0 in=u:100 out=20\n"
        "call 1 after=0 gap=20000000 in=p:0+o:0 out=4\n"
        "program q 5000000 x\ncall 0 after=- gap=0 in=u:100 out=20\n"
        "call 1 after=0 gap=15000000 in=p:0+o:0 out=4\n";
    struct lab_settings settings = traces_settings("plas", "a100-llama-3.1-8b");
    struct cost_model machine = *settings.cost;
    struct lab_result of_kind[COST_COPIES_NEEDED + 1];
    traces_set(&settings, "limits.context_tokens=128");
    traces_set(&settings, "kv.device_blocks=12");
    traces_set(&settings, "kv.host_ratio=4");
    settings.cost = &machine;
    for (uint32_t kind = COST_COPIES_SERIAL; kind <= COST_COPIES_NEEDED; kind++) {
        machine.copies = (enum cost_copies)kind;
        of_kind[kind] = traces_play(&settings, text);
        assert_true(of_kind[kind].copy_out_s == of_kind[0].copy_out_s);
        assert_true(of_kind[kind].copy_in_s == of_kind[0].copy_in_s);
    }
    double serial_s = of_kind[COST_COPIES_SERIAL].copy_s;
    assert_true(fabs(serial_s - of_kind[0].copy_out_s - of_kind[0].copy_in_s) < 1e-5);
    assert_true(of_kind[COST_COPIES_STREAMS].copy_s <= serial_s);
    assert_true(of_kind[COST_COPIES_NEEDED].copy_s < serial_s);
    assert_true(of_kind[COST_COPIES_NEEDED].copy_s >= of_kind[0].copy_in_s - 1e-5);
}

/* The same prompt of 160 tokens twice: its 10 blocks are read once a round, or twice. */
static void test_shared_prefix_is_read_once_or_for_each_row(void **state)
{
    (void)state;
    static const char text[] =
        "agentix-trace 1\n"
        "program p 0 x\ncall 0 after=- gap=0 in=s:doc:160+u:8 out=1\n"
        "program q 5000000 x\ncall 0 after=- gap=0 in=s:doc:160+u:8 out=4\n"
        "program r 5000000 x\ncall 0 after=- gap=0 in=s:doc:160+u:8 out=4\n";
    struct lab_settings settings = traces_settings("plas", "a100-llama-3.1-8b");
    struct cost_model machine = *settings.cost;
    settings.cost = &machine;
    machine.prefix_reads = COST_READS_ONCE;
    struct lab_result once = traces_play(&settings, text);
    machine.prefix_reads = COST_READS_EACH;
    struct lab_result each = traces_play(&settings, text);
    assert_true(each.kv_positions_read - once.kv_positions_read == 4 * 160);
    assert_true(each.read_s > once.read_s && each.compute_s == once.compute_s);
}

/* 10 tokens, a step each: the host works 10 times. agentix's own host is the machine's. */
static void test_host_of_a_system_works_between_its_steps(void **state)
{
    (void)state;
    struct lab_settings settings = traces_settings(NULL, "a100-llama-3.1-8b");
    settings.system = "vllm";
    static const char text[] =
        "agentix-trace 1\nprogram p 0 x\ncall 0 after=- gap=0 in=u:8 out=10\n";
    struct lab_result published = traces_play(&settings, text);
    settings.equal_host = true;
    struct lab_result equal = traces_play(&settings, text);
    assert_true(published.host_s == 4e-3 && equal.host_s == 0.1e-3);
    assert_int_equal(published.steps, 10);
    assert_true(fabs(published.makespan_s - equal.makespan_s - 10 * 3.9e-3) < 1e-5);
    settings.system = "agentix";
    settings.equal_host = false;
    assert_true(traces_play(&settings, text).host_s == 0.1e-3);
    settings.system = "vllm";
    settings.cost = cost_find("unit");
    assert_true(traces_play(&settings, text).host_s == 0);
}

/* A history of 43 positions, 11 of them in a partial block: one branch takes it over, the other
 * copies it, and each computes the 21 tokens that are left. */
static void test_second_branch_pays_for_a_copy_on_the_device(void **state)
{
    (void)state;
    struct lab_settings settings = traces_settings("plas", "a100-llama-3.1-8b");
    struct lab_result result = traces_play(&settings,
        "agentix-trace 1\n"
        "program p 0 x\ncall 0 after=- gap=0 in=u:40 out=4\n"
        "call 1 after=0 gap=0 in=p:0+o:0+u:20 out=1\n"
        "call 2 after=0 gap=0 in=p:0+o:0+u:20 out=1\n");
    assert_int_equal(result.tokens_computed, 43 + 21 + 21);
    assert_int_equal(result.copied_blocks, 1);
    assert_int_equal(result.swap_transfers, 0);
    double copy_s = cost_copies_s(cost_find("a100-llama-3.1-8b"), 16);
    assert_true(result.copy_s > copy_s - 1e-6 && result.copy_s < copy_s + 1e-6);
}

/* N = 8, a batch of two. Step 1: p and q have 8 tokens. Step 2: r runs, p ends after 2 rounds, and
 * q, resident, takes its place for 6. Without standbys q ends at 32 s, with them at 26. */
static void test_standby_takes_the_place_of_a_row_that_ended(void **state)
{
    (void)state;
    static const char text[] =
        "agentix-trace 1\n"
        "program p 0 x\ncall 0 after=- gap=0 in=u:1 out=10\n"
        "program q 0 x\ncall 0 after=- gap=0 in=u:1 out=24\n"
        "program r 0 x\ncall 0 after=- gap=0 in=u:1 out=8\n";
    struct lab_settings settings = traces_settings("rr", "unit");
    traces_set(&settings, "sched.steps_per_plan=8");
    traces_set(&settings, "sched.quantum=8s");
    traces_set(&settings, "sched.cut_steps=no");
    traces_set(&settings, "sched.standby=0");
    struct lab_result without = traces_play(&settings, text);
    settings.sets[settings.sets_count - 1] = "sched.standby=2";
    struct lab_result with = traces_play(&settings, text);
    assert_int_equal(with.tokens_generated, without.tokens_generated);
    assert_true(without.makespan_s == 32 && with.makespan_s == 26);
}

/* N = 8, a batch of two. Whole steps: p alone until 8 s, p and q until 16, r until 17. Cut ones: p
 * alone until 4 s, for q came in the fourth round; p and q until 8, when the row of q ends; p and r
 * until 9; p until 16. */
static void test_step_ends_for_who_comes_and_for_who_goes(void **state)
{
    (void)state;
    static const char text[] =
        "agentix-trace 1\n"
        "program p 0 x\ncall 0 after=- gap=0 in=u:1 out=16\n"
        "program q 3500000 x\ncall 0 after=- gap=0 in=u:1 out=4\n"
        "program r 3600000 x\ncall 0 after=- gap=0 in=u:1 out=1\n";
    struct lab_settings settings = traces_settings("fcfs", "unit");
    traces_set(&settings, "sched.steps_per_plan=8");
    traces_set(&settings, "sched.standby=0");
    traces_set(&settings, "sched.cut_steps=no");
    struct lab_result whole = traces_play(&settings, text);
    settings.sets[settings.sets_count - 1] = "sched.cut_steps=yes";
    struct lab_result cut = traces_play(&settings, text);
    assert_true(fabs(whole.all.jct.mean - (16 + (16 - 3.5) + (17 - 3.6)) / 3) < 1e-9);
    assert_true(fabs(cut.all.jct.mean - (16 + (8 - 3.5) + (9 - 3.6)) / 3) < 1e-9);
}

/* The second call of the program finds the first one's blocks. */
static void test_calls_of_a_program_share_what_they_have_in_common(void **state)
{
    (void)state;
    static const char text[] =
        "agentix-trace 1\nprogram p 0 x\n"
        "call 0 after=- gap=0 in=s:doc:160 out=16\n"
        "call 1 after=0 gap=0 in=p:0+o:0+u:10 out=2\n";
    struct lab_settings settings = traces_settings("plas", "unit");
    struct lab_result result = traces_play(&settings, text);
    assert_true(result.cached_tokens >= 160 && result.cached_tokens < 186);
    settings.no_sharing = true;
    assert_int_equal(traces_play(&settings, text).cached_tokens, 0);
}

static void test_prompt_beyond_the_context_is_cut(void **state)
{
    (void)state;
    struct lab_settings settings = traces_settings("plas", "unit");
    traces_set(&settings, "limits.context_tokens=64");
    struct lab_result result = traces_play(&settings,
        "agentix-trace 1\nprogram p 0 x\n"
        "call 0 after=- gap=0 in=s:doc:50 out=10\n"
        "call 1 after=0 gap=0 in=p:0+o:0+u:30 out=10\n");
    assert_int_equal(result.cut_prompts, 1);
    assert_int_equal(result.prompt_tokens, 50 + 54);
}

/* One slot for two calls at once: the second one is refused, and its program counts as failed. */
static void test_refused_call_is_an_exit_status_of_its_own(void **state)
{
    (void)state;
    struct lab_settings settings = traces_settings("fcfs", "unit");
    struct lab_result result;
    struct trace trace;
    traces_set(&settings, "limits.calls=1");
    traces_set(&settings, "limits.calls_per_connection=1");
    trace_text_load(&trace, "agentix-trace 1\nprogram p 0 x\ncall 0 after=- gap=0 in=u:1 out=2\n"
                        "program q 0 x\ncall 0 after=- gap=0 in=u:1 out=2\n");
    assert_int_equal(lab_run(&settings, &trace, &result), LAB_EXIT_REFUSED);
    assert_int_equal(result.refused_calls, 1);
    assert_int_equal(result.all.completed, 1);
    trace_free(&trace);
}

static void test_setting_that_cannot_be_is_a_usage_error(void **state)
{
    (void)state;
    struct lab_settings settings = traces_settings("plas", "unit");
    struct lab_result result;
    struct trace trace;
    trace_text_load(&trace, figure_2);
    traces_set(&settings, "sched.colour=blue");
    assert_int_equal(lab_run(&settings, &trace, &result), LAB_EXIT_USAGE);
    trace_free(&trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_figure_2_fcfs_waits_18_units),
        cmocka_unit_test(test_figure_2_mlfq_waits_18_units),
        cmocka_unit_test(test_figure_2_plas_waits_12_units),
        cmocka_unit_test(test_figure_2_srpt_waits_7_units),
        cmocka_unit_test(test_response_time_is_the_critical_path_without_gaps),
        cmocka_unit_test(test_programs_beyond_the_trace_are_new_ones),
        cmocka_unit_test(test_tenants_share_no_prefix),
        cmocka_unit_test(test_too_many_tenants_are_refused),
        cmocka_unit_test(test_same_settings_give_the_same_run),
        cmocka_unit_test(test_calls_that_lose_their_blocks_are_recomputed),
        cmocka_unit_test(test_calls_that_lose_their_blocks_are_swapped),
        cmocka_unit_test(test_history_that_is_swapped_in_is_no_preempted_call),
        cmocka_unit_test(test_steps_wait_for_copies_as_the_engine_does),
        cmocka_unit_test(test_shared_prefix_is_read_once_or_for_each_row),
        cmocka_unit_test(test_host_of_a_system_works_between_its_steps),
        cmocka_unit_test(test_second_branch_pays_for_a_copy_on_the_device),
        cmocka_unit_test(test_standby_takes_the_place_of_a_row_that_ended),
        cmocka_unit_test(test_step_ends_for_who_comes_and_for_who_goes),
        cmocka_unit_test(test_calls_of_a_program_share_what_they_have_in_common),
        cmocka_unit_test(test_prompt_beyond_the_context_is_cut),
        cmocka_unit_test(test_refused_call_is_an_exit_status_of_its_own),
        cmocka_unit_test(test_setting_that_cannot_be_is_a_usage_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
