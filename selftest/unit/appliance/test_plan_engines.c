/* SPDX-License-Identifier: MIT */
/*
 * Goal: of several engines, the plan counts what each has as often as there are engines, and what
 * all share once; each bound holds for what it bounds: the machine, a process, a device.
 * Method: plans of one engine and of several, compared.
 */
#define TEST_ARENA_BYTES 64u
#include "selftest/unit/appliance/plan_rig.h"

static void test_plan_of_workers_counts_each_and_the_weights_once(void **state)
{
    (void)state;
    start(&usual[0], MEMORY_UNBOUNDED);
    set("engine.threads=1");
    assert_status(STATUS_OK, make());
    uint64_t engine = memory_plan_bytes(&boot.plan, MEMORY_ENGINE);
    uint64_t weights = memory_plan_bytes(&boot.plan, MEMORY_WEIGHTS);
    uint64_t process = plan_process_bytes(&boot), kv = plan_kv_bytes(&boot);
    uint64_t shared = memory_plan_bytes(&boot.plan, MEMORY_SHARED);
    uint64_t core = memory_plan_bytes(&boot.plan, MEMORY_CORE);
    assert_int_equal(boot.limits.engines, 1);
    set("engine.workers=8");
    assert_status(STATUS_OK, make());
    assert_int_equal(boot.limits.engines, 8);
    assert_int_equal(memory_plan_bytes(&boot.plan, MEMORY_ENGINE), engine);
    assert_int_equal(plan_kind_bytes(&boot, MEMORY_ENGINE), 8 * engine);
    assert_int_equal(plan_kind_bytes(&boot, MEMORY_WEIGHTS), weights);
    assert_int_equal(plan_kv_bytes(&boot), 8 * kv);
    assert_true(plan_total_bytes(&boot) >= weights + 8 * engine);
    assert_true(memory_plan_bytes(&boot.plan, MEMORY_SHARED) > 7 * shared);
    assert_true(memory_plan_bytes(&boot.plan, MEMORY_CORE) < 8 * core);
    /* A process has one engine's. */
    assert_true(plan_process_bytes(&boot) - process < engine);
}

static void test_plan_of_workers_divides_what_memory_has(void **state)
{
    (void)state;
    start(&usual[2], 8 * GIB);
    set("engine.threads=1");
    assert_status(STATUS_OK, make());
    uint32_t alone = boot.limits.kv_blocks;
    set("engine.workers=2");
    assert_status(STATUS_OK, make());
    assert_true(plan_fits(&boot));
    assert_true(boot.limits.kv_blocks < alone && boot.limits.kv_blocks > alone / 4);
    uint64_t budget = config_budget(8 * GIB).busy_bytes;
    uint64_t block = plan_kv_bytes(&boot) / boot.limits.kv_blocks;      /* of both */
    assert_true(plan_total_bytes(&boot) <= budget);
    assert_true(plan_total_bytes(&boot) + 2 * block > budget);
}

/* Each device has the whole model; the machine has the host tiers of all. */
static void test_plan_of_devices_obeys_each_and_the_machine(void **state)
{
    (void)state;
    start(&usual[5], 64 * GIB);
    boot.serves_by_gpu = true;
    boot.gpu.free_bytes = 16 * GIB;
    assert_status(STATUS_OK, make());
    uint32_t alone = boot.limits.kv_blocks;
    uint64_t device = plan_kind_bytes(&boot, MEMORY_DEVICE);
    uint64_t engine = plan_kind_bytes(&boot, MEMORY_ENGINE);
    set("engine.devices=0, 1, 2, 3");
    set("engine.workers=8");                        /* of the CPU */
    assert_status(STATUS_OK, make());
    assert_true(plan_fits(&boot));
    assert_int_equal(boot.limits.engines, 4);
    assert_int_equal(boot.limits.kv_blocks, alone);
    assert_int_equal(plan_kind_bytes(&boot, MEMORY_DEVICE), device);
    assert_int_equal(plan_kind_bytes(&boot, MEMORY_ENGINE), 4 * engine);
    boot.bounds.machine = 8 * GIB;
    assert_status(STATUS_OK, make());
    assert_true(plan_fits(&boot));
    assert_true(boot.limits.kv_blocks < alone);
}

static void test_advice_takes_workers_away_where_nothing_else_helps(void **state)
{
    (void)state;
    const char *command;
    start(&usual[5], MEMORY_UNBOUNDED);
    set("limits.context_tokens=512");
    set("kv.device_blocks=32");
    assert_status(STATUS_OK, make());
    boot.bounds.machine = plan_total_bytes(&boot);
    set("engine.workers=8");
    assert_status(STATUS_OK, make());
    assert_false(plan_fits(&boot));
    assert_true(check_advice(&command));
    const char *at = strstr(command, "engine.workers=");
    unsigned long left = at == NULL ? 1 : strtoul(at + strlen("engine.workers="), NULL, 10);
    assert_true(left < 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan_of_workers_counts_each_and_the_weights_once),
        cmocka_unit_test(test_plan_of_workers_divides_what_memory_has),
        cmocka_unit_test(test_plan_of_devices_obeys_each_and_the_machine),
        cmocka_unit_test(test_advice_takes_workers_away_where_nothing_else_helps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
