/* SPDX-License-Identifier: MIT */
/*
 * Goal: each count of struct limits is the sum that it promises, at the defaults and at the edges,
 * and what can never work is refused with its arithmetic.
 * Method: options by --set, a model shape by hand.
 */
#include "selftest/unit/test.h"

#include "config/base/bounds.h"
#include "config/config.h"
#include "config/model/gguf.h"

static struct options options;
static struct limits limits;
static struct config_error error;
static struct model_shape shape;
static struct config_machine machine;

static enum status derive(const char *const *sets)
{
    config_defaults(&options);
    for (; *sets != NULL; sets++) {
        assert_status(STATUS_OK, config_set(&options, *sets, &error));
    }
    return config_limits(&limits, &options, &shape, &machine, &error);
}

#define DERIVE(...) derive((const char *const[]){__VA_ARGS__, NULL})

static int set_up(void **state)
{
    (void)state;
    shape = (struct model_shape){.vocab_tokens = 32000, .context_tokens = 4096};
    machine = (struct config_machine){.cpus = 4};
    return 0;
}

static void assert_refused_with(const char *expected)
{
    if (strstr(error.text, expected) == NULL) {
        print_error("got: %s\nexpected in it: %s\n", error.text, expected);
        fail();
    }
}

/* What cannot be more than something else is not; keys take room where they are used. */
static void test_limits_of_admission_fit_the_tables(void **state)
{
    (void)state;
    assert_status(STATUS_OK, DERIVE("limits.connections=3", "limits.calls=9", "auth.tcp=psk",
                                    "net.preauth_per_address=2"));
    assert_int_equal(limits.preauth, 3);
    assert_int_equal(limits.preauth_per_address, 2);
    assert_int_equal(limits.calls_per_program, 9);
    assert_int_equal(limits.calls_per_key, 9);
    assert_int_equal(limits.keys, 64);
    assert_status(STATUS_OK, DERIVE("net.preauth=2", "limits.calls_per_program=0",
                                    "net.frames_per_pass=3"));
    assert_int_equal(limits.preauth_per_address, 2);
    assert_int_equal(limits.calls_per_program, 256);
    assert_int_equal(limits.frames_per_pass, 3);
    assert_int_equal(limits.commands, 256 * 3 + 2 * (256 + 8));
}

static void test_limits_defaults(void **state)
{
    (void)state;
    assert_status(STATUS_OK, derive((const char *const[]){NULL}));
    assert_int_equal(limits.context_tokens, 4096);
    assert_int_equal(limits.vocab_tokens, 32000);
    assert_int_equal(limits.batch_calls, 32);
    assert_int_equal(limits.standby_calls, 8);
    assert_int_equal(limits.step_tokens, 256 + 32 + 8);
    assert_int_equal(limits.blocks_per_call, 256);
    assert_int_equal(limits.kv_blocks_least, 256);
    assert_int_equal(limits.kv_blocks_busy, 32 * 64);
    assert_int_equal(limits.kv_blocks_most, 2 * 32 * 64);
    assert_int_equal(limits.kv_blocks, 2 * 32 * 64);
    assert_int_equal(limits.kv_host_blocks, 0);
    assert_int_equal(limits.retain_device_us, 10000000);
    assert_int_equal(limits.retain_host_us, 120000000);
    assert_int_equal(limits.retain_drop_us, 600000000);
    assert_int_equal(limits.frame_bytes, 65536);
    assert_int_equal(limits.send_bytes, 65536);
    assert_int_equal(limits.commands, 256 * 8 + 2 * (256 + 8));
    assert_int_equal(limits.bytes_per_pass, 65536);
    assert_int_equal(limits.preauth, 16);
    assert_int_equal(limits.preauth_per_address, 4);
    assert_int_equal(limits.calls_per_program, 64);
    assert_int_equal(limits.calls_per_key, 256);
    assert_int_equal(limits.keys, 0);
    assert_int_equal(limits.engine_threads, 4);
    assert_int_equal(limits.replies, 1024);
    assert_int_equal(limits.reply_tokens, 262144);
    assert_int_equal(limits.text_slots, 8);
    assert_int_equal(limits.text_page_bytes, 1024 * 224 + 16384);
}

static void test_limits_any_answer_fits_the_replies_unless_there_are_none(void **state)
{
    (void)state;
    assert_status(STATUS_OK, DERIVE("limits.reply_tokens=1"));
    assert_int_equal(limits.reply_tokens, 4096);
    assert_status(STATUS_OK, DERIVE("limits.replies=0"));
    assert_int_equal(limits.reply_tokens, 0);
}

static void test_limits_context_zero_is_the_models_up_to_8192(void **state)
{
    (void)state;
    shape.context_tokens = 131072;
    assert_status(STATUS_OK, derive((const char *const[]){NULL}));
    assert_int_equal(limits.context_tokens, 8192);
    assert_status(STATUS_OK, DERIVE("limits.context_tokens=131072"));
    assert_int_equal(limits.context_tokens, 131072);
    assert_int_equal(limits.frame_bytes, 4 * 131072 + 4096);
}

static void test_limits_context_above_the_model_is_refused(void **state)
{
    (void)state;
    assert_status(STATUS_OK, DERIVE("limits.context_tokens=4096"));
    assert_status(STATUS_CONFIG_OPTION, DERIVE("limits.context_tokens=4097"));
    assert_refused_with("--set: limits.context_tokens = 4097: the model knows 4096 positions, "
                        "allowed 0 .. 4096");
    assert_status(STATUS_CONFIG_OPTION, DERIVE("limits.context_tokens=1"));
}

static void test_limits_call_that_never_fits_is_refused(void **state)
{
    (void)state;
    assert_status(STATUS_OK, DERIVE("kv.device_blocks=256"));
    assert_int_equal(limits.kv_blocks, 256);
    assert_status(STATUS_CONFIG_OPTION, DERIVE("kv.device_blocks=255"));
    assert_refused_with("kv.device_blocks = 255: one call of limits.context_tokens = 4096 needs "
                        "ceil(4096 / kv.block_tokens = 16) = 256 blocks, "
                        "and 255 x 16 = 4080 tokens are fewer");
    assert_status(STATUS_CONFIG_OPTION,
                  DERIVE("kv.device_blocks=2", "limits.context_tokens=17", "kv.block_tokens=8"));
    assert_status(STATUS_OK,
                  DERIVE("kv.device_blocks=3", "limits.context_tokens=17", "kv.block_tokens=8"));
}

static void test_limits_default_blocks_hold_at_least_one_call(void **state)
{
    (void)state;
    assert_status(STATUS_OK, DERIVE("sched.batch=1"));
    assert_int_equal(limits.kv_blocks_busy, limits.blocks_per_call);
    assert_int_equal(limits.kv_blocks, 2 * limits.blocks_per_call);
    assert_status(STATUS_OK, DERIVE("limits.context_tokens=18", "sched.batch=8"));
    assert_int_equal(limits.blocks_per_call, 2);
    assert_int_equal(limits.kv_blocks_busy, 8);
}

static void assert_canary(uint32_t prompt_tokens, uint32_t decode_steps, uint32_t blocks)
{
    assert_int_equal(limits.canary_prompt_tokens, prompt_tokens);
    assert_int_equal(limits.canary_decode_steps, decode_steps);
    assert_int_equal(limits.canary_blocks, blocks);
}

static void test_limits_canary_is_one_step_whatever_a_step_is(void **state)
{
    (void)state;
    assert_status(STATUS_OK, DERIVE("kv.block_tokens=8"));
    assert_canary(16, 8, 3);            /* 16 + 7 positions */
    assert_status(STATUS_OK, DERIVE("sched.prefill_tokens=5", "sched.steps_per_plan=64"));
    assert_canary(5, 64, 5);
    assert_status(STATUS_OK, DERIVE("limits.context_tokens=18"));
    assert_canary(16, 2, 2);
    assert_status(STATUS_OK, DERIVE("limits.context_tokens=2"));
    assert_canary(1, 1, 1);
    assert_int_equal(limits.kv_blocks_busy, 32);    /* its blocks are beyond these */
    assert_status(STATUS_OK, DERIVE("engine.canary=0"));
    assert_canary(0, 0, 0);
}

static void test_limits_defaults_yield_to_fewer_calls(void **state)
{
    (void)state;
    assert_status(STATUS_OK, DERIVE("limits.calls=5"));
    assert_int_equal(limits.batch_calls, 5);
    assert_int_equal(limits.standby_calls, 0);
    assert_int_equal(limits.calls_per_connection, 5);
    assert_int_equal(limits.step_tokens, 256 + 5);
    assert_int_equal(limits.commands, 256 * 8 + 2 * (5 + 8));
    assert_status(STATUS_OK, DERIVE("limits.calls=5", "sched.batch=3"));
    assert_int_equal(limits.standby_calls, 2);
    assert_int_equal(limits.step_tokens, 256 + 3 + 2);
    assert_status(STATUS_OK, DERIVE("sched.standby=0"));
    assert_int_equal(limits.standby_calls, 0);
}

static void test_limits_host_blocks_follow_device_blocks(void **state)
{
    (void)state;
    assert_status(STATUS_OK, DERIVE("kv.host_ratio=0"));
    assert_int_equal(limits.kv_host_blocks, 0);
    assert_status(STATUS_OK, DERIVE("kv.host_ratio=2.5", "kv.device_blocks=1001"));
    assert_int_equal(limits.kv_host_blocks, 2502);
    assert_int_equal(limits.kv_free_blocks, 0);
    assert_status(STATUS_OK, DERIVE("kv.host_ratio=1000", "kv.device_blocks=16777216"));
    assert_int_equal(limits.kv_host_blocks, BOUND_KV_BLOCKS);   /* no memory for that, but a
                                                                   number */
}

/* None with a host tier (above), or where blocks are no streams. */
static void test_limits_a_part_of_the_device_may_be_free(void **state)
{
    (void)state;
    assert_status(STATUS_OK, DERIVE("kv.host_ratio=0", "kv.device_blocks=1001"));
    assert_int_equal(limits.kv_free_blocks, 31);
    machine.has_device = true;
    assert_status(STATUS_OK, DERIVE("kv.host_ratio=0", "kv.device_blocks=1001"));
    assert_int_equal(limits.kv_free_blocks, 0);
}

/* Where a host tier keeps the KV of ended calls, the device need not. */
static void test_limits_device_has_a_host_tier_by_itself_and_the_cpu_has_not(void **state)
{
    (void)state;
    machine.has_device = true;
    assert_status(STATUS_OK, derive((const char *const[]){NULL}));
    assert_int_equal(limits.kv_blocks_most, 32 * 64);
    assert_int_equal(limits.kv_host_blocks, 32 * 64);
    machine.has_device = false;
    assert_status(STATUS_OK, DERIVE("kv.host_ratio=1"));
    assert_int_equal(limits.kv_blocks_most, 32 * 64);
    assert_int_equal(limits.kv_host_blocks, 32 * 64);
}

static void test_limits_chosen_blocks_are_those_of_calls_and_prefixes(void **state)
{
    (void)state;
    assert_status(STATUS_OK, DERIVE("kv.host_ratio=0.5"));
    limits.prefix_blocks = 7;
    config_limits_choose_kv(&limits, 300);
    assert_int_equal(limits.kv_blocks, 307);
    assert_int_equal(limits.kv_host_blocks, 150);
    assert_status(STATUS_OK, DERIVE("kv.device_blocks=300"));
    assert_int_equal(limits.kv_blocks_least, 300);
    assert_int_equal(limits.kv_blocks_most, 300);
}

static void test_budget_leaves_an_eighth_and_of_large_machines_8_gib(void **state)
{
    (void)state;
    const uint64_t gib = UINT64_C(1) << 30;
    assert_int_equal(config_budget(16 * gib).busy_bytes, 14 * gib);
    assert_int_equal(config_budget(16 * gib).spare_bytes, 4 * gib);
    assert_int_equal(config_budget(1024 * gib).busy_bytes, 1016 * gib);
    assert_int_equal(config_budget(0).busy_bytes, 0);
    assert_true(config_budget(UINT64_MAX).spare_bytes > UINT64_MAX / 5);
}

static void assert_retention(uint64_t device_s, uint64_t host_s, uint64_t drop_s)
{
    assert_status(STATUS_OK, config_check(&options, &error));
    assert_int_equal(limits.retain_device_us, device_s * 1000000);
    assert_int_equal(limits.retain_host_us, host_s * 1000000);
    assert_int_equal(limits.retain_drop_us, drop_s * 1000000);
}

static void test_limits_default_deadlines_yield_to_written_ones(void **state)
{
    (void)state;
    assert_status(STATUS_OK, DERIVE("kv.retain_drop=0"));
    assert_retention(0, 0, 0);
    assert_status(STATUS_OK, DERIVE("kv.retain_drop=60s"));
    assert_retention(10, 60, 60);
    assert_status(STATUS_OK, DERIVE("kv.retain_device=15min"));
    assert_retention(900, 900, 900);
    assert_status(STATUS_OK, DERIVE("kv.retain_device=3min", "kv.retain_drop=4min"));
    assert_retention(180, 180, 240);
    assert_status(STATUS_OK, DERIVE("kv.retain_host=5s"));
    assert_retention(5, 5, 600);
    assert_status(STATUS_OK, DERIVE("kv.retain_host=20min"));
    assert_retention(10, 1200, 1200);
    assert_status(STATUS_OK,
                  DERIVE("kv.retain_device=1s", "kv.retain_host=1s", "kv.retain_drop=1s"));
    assert_retention(1, 1, 1);
}

static void test_check_written_deadlines_in_disorder_are_refused(void **state)
{
    (void)state;
    assert_status(STATUS_OK, DERIVE("kv.retain_device=90s", "kv.retain_host=1min"));
    assert_status(STATUS_CONFIG_OPTION, config_check(&options, &error));
    assert_refused_with("--set: kv.retain_host = 1min: less than kv.retain_device = 90s, "
                        "allowed kv.retain_device <= kv.retain_host <= kv.retain_drop");
    assert_status(STATUS_OK, DERIVE("kv.retain_host=2min", "kv.retain_drop=1min"));
    assert_status(STATUS_CONFIG_OPTION, config_check(&options, &error));
    assert_refused_with("kv.retain_drop = 1min: less than kv.retain_host = 2min");
    assert_status(STATUS_OK, DERIVE("kv.retain_device=2min", "kv.retain_drop=1min"));
    assert_status(STATUS_CONFIG_OPTION, config_check(&options, &error));
    assert_refused_with("kv.retain_drop = 1min: less than kv.retain_device = 2min");
}

static void test_limits_largest_of_everything_fits_32_bits(void **state)
{
    (void)state;
    shape.context_tokens = UINT32_MAX;
    assert_status(STATUS_OK,
                  DERIVE("limits.context_tokens=1048576", "limits.calls=1048576",
                         "limits.programs=1048576", "limits.connections=65536", "sched.batch=1024",
                         "sched.prefill_tokens=65536", "kv.block_tokens=8", "engine.threads=64"));
    assert_int_equal(limits.blocks_per_call, 131072);
    assert_int_equal(limits.kv_blocks, 2 * 1024u * 32768u);
    assert_int_equal(limits.frame_bytes, 4u * 1048576u + 4096u);
    assert_int_equal(limits.commands, 65536u * 8u + 2u * (1048576u + 8u));
    assert_int_equal(limits.text_page_bytes, 1048576u * 224u + 16384u);
}

static void test_limits_threads_follow_cpus(void **state)
{
    (void)state;
    config_defaults(&options);
    machine.cpus = 0;
    assert_status(STATUS_OK, config_limits(&limits, &options, &shape, &machine, &error));
    assert_int_equal(limits.engine_threads, 1);
    machine.cpus = 500;
    assert_status(STATUS_OK, config_limits(&limits, &options, &shape, &machine, &error));
    assert_int_equal(limits.engine_threads, 64);
    assert_status(STATUS_OK, DERIVE("engine.threads=2"));
    assert_int_equal(limits.engine_threads, 2);
}

static void test_limits_workers_divide_the_cpus_and_devices_do_not(void **state)
{
    (void)state;
    machine.cpus = 11;
    assert_status(STATUS_OK, DERIVE("engine.devices=3, 1"));
    assert_int_equal(limits.engines, 1);
    assert_int_equal(limits.engine_threads, 11);
    assert_status(STATUS_OK, DERIVE("engine.workers=4"));
    assert_int_equal(limits.engines, 4);
    assert_int_equal(limits.engine_threads, 2);
    assert_status(STATUS_OK, DERIVE("engine.workers=4", "engine.threads=5"));
    assert_int_equal(limits.engine_threads, 5);
    machine.cpus = 3;
    assert_status(STATUS_OK, DERIVE("engine.workers=8"));
    assert_int_equal(limits.engines, 8);
    assert_int_equal(limits.engine_threads, 1);
    machine.has_device = true;
    assert_status(STATUS_OK, DERIVE("engine.workers=8", "engine.devices=3, 1"));
    assert_int_equal(limits.engines, 2);
    assert_int_equal(limits.engine_threads, 3);
    assert_status(STATUS_CONFIG_OPTION, DERIVE("engine.devices=3, 3"));
}

static void assert_drafts(uint32_t speculate, uint32_t recalled)
{
    assert_int_equal(limits.speculate, speculate);
    assert_int_equal(limits.recalled_tokens, recalled);
    assert_int_equal(limits.past_tokens, 4096 + recalled);
}

/* And what they are guessed from has room. */
static void test_limits_drafts_with_a_device_only_if_asked_for(void **state)
{
    (void)state;
    assert_status(STATUS_OK, DERIVE("kv.sharing=program"));
    assert_drafts(7, 512);
    assert_status(STATUS_OK, DERIVE("kv.sharing=domain"));
    assert_drafts(7, 2 * 512);
    assert_status(STATUS_OK, DERIVE("kv.sharing=off"));
    assert_drafts(7, 0);
    machine.has_device = true;
    assert_status(STATUS_OK, DERIVE("kv.sharing=domain"));
    assert_drafts(0, 0);
    assert_status(STATUS_OK, DERIVE("sched.speculate=7", "kv.sharing=program"));
    assert_drafts(7, 512);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_limits_defaults, set_up),
        cmocka_unit_test_setup(test_limits_any_answer_fits_the_replies_unless_there_are_none,
                               set_up),
        cmocka_unit_test_setup(test_limits_of_admission_fit_the_tables, set_up),
        cmocka_unit_test_setup(test_limits_context_zero_is_the_models_up_to_8192, set_up),
        cmocka_unit_test_setup(test_limits_context_above_the_model_is_refused, set_up),
        cmocka_unit_test_setup(test_limits_call_that_never_fits_is_refused, set_up),
        cmocka_unit_test_setup(test_limits_default_blocks_hold_at_least_one_call, set_up),
        cmocka_unit_test_setup(test_limits_canary_is_one_step_whatever_a_step_is, set_up),
        cmocka_unit_test_setup(test_limits_defaults_yield_to_fewer_calls, set_up),
        cmocka_unit_test_setup(test_limits_host_blocks_follow_device_blocks, set_up),
        cmocka_unit_test_setup(test_limits_a_part_of_the_device_may_be_free, set_up),
        cmocka_unit_test_setup(
            test_limits_device_has_a_host_tier_by_itself_and_the_cpu_has_not, set_up),
        cmocka_unit_test_setup(test_limits_chosen_blocks_are_those_of_calls_and_prefixes, set_up),
        cmocka_unit_test_setup(test_budget_leaves_an_eighth_and_of_large_machines_8_gib, set_up),
        cmocka_unit_test_setup(test_limits_default_deadlines_yield_to_written_ones, set_up),
        cmocka_unit_test_setup(test_check_written_deadlines_in_disorder_are_refused, set_up),
        cmocka_unit_test_setup(test_limits_largest_of_everything_fits_32_bits, set_up),
        cmocka_unit_test_setup(test_limits_threads_follow_cpus, set_up),
        cmocka_unit_test_setup(test_limits_workers_divide_the_cpus_and_devices_do_not, set_up),
        cmocka_unit_test_setup(test_limits_drafts_with_a_device_only_if_asked_for, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
