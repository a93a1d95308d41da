/* SPDX-License-Identifier: MIT */
/*
 * Goal: a plan takes of the memory what it should, whichever bound is the least; a plan that does
 * not fit names a command that does; no configuration breaks either.
 * Method: models by their shapes, machines by their bounds. Configurations are drawn: each option
 * from inside its range, from its edges, from beyond, and in words that it does not know.
 *
 *     test_plan [CONFIGURATIONS [SEED]]
 */
#define TEST_ARENA_BYTES 64u
#include "config/base/splitmix.h"
#include "selftest/unit/appliance/plan_rig.h"

static const struct model tiny = {"tiny", 0, 2, 64, 4, 2, 16, 172, 1024, 512, false, GGUF_F32};
static const struct model huge = {"huge", 1, 126, 16384, 128, 8, 128, 53248, 131072, 152064, false,
                                  GGUF_F32};
static uint64_t random_state = 1;
static uint32_t configurations = 4000;

/* ---- what a plan takes ---- */

static void test_plan_of_usual_models_fits_23_gib_and_leaves_the_reserve(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < USUAL; i++) {
        start(&usual[i], 23 * GIB);
        assert_status(STATUS_OK, make());
        assert_true(plan_fits(&boot));
        assert_true(plan_total_bytes(&boot) <= config_budget(23 * GIB).busy_bytes);
        assert_true(boot.limits.kv_blocks >= boot.limits.kv_blocks_busy);
        assert_int_equal(boot.limits.kv_host_blocks, 0);
    }
}

static void test_plan_on_8_gib_takes_what_is_left(void **state)
{
    (void)state;
    start(&usual[2], 8 * GIB);
    assert_status(STATUS_OK, make());
    assert_true(plan_fits(&boot));
    uint32_t blocks = boot.limits.kv_blocks;
    assert_true(blocks > boot.limits.kv_blocks_least && blocks < boot.limits.kv_blocks_busy);
    uint64_t budget = config_budget(8 * GIB).busy_bytes, block = plan_kv_bytes(&boot) / blocks;
    assert_true(plan_total_bytes(&boot) <= budget);
    assert_true(plan_total_bytes(&boot) + 2 * block > budget);      /* not one block less */
}

static void test_plan_of_a_tiny_model_stays_small(void **state)
{
    (void)state;
    start(&tiny, 23 * GIB);
    assert_status(STATUS_OK, make());
    assert_int_equal(boot.limits.kv_blocks, boot.limits.kv_blocks_most);
    assert_true(plan_total_bytes(&boot) < 192 * MIB);
}

static void test_plan_has_the_memory_of_the_core_that_waits(void **state)
{
    (void)state;
    start(&tiny, 23 * GIB);
    assert_status(STATUS_OK, make());
    uint64_t with = plan_total_bytes(&boot), core = plan_kind_bytes(&boot, MEMORY_CORE);
    assert_true(core > 0 && plan_kind_bytes(&boot, MEMORY_NEXT) == core);
    boot.options.appliance_core_failures.number = 1;        /* it would never take over */
    assert_status(STATUS_OK, make());
    assert_int_equal(plan_kind_bytes(&boot, MEMORY_NEXT), 0);
    assert_int_equal(plan_total_bytes(&boot), with - core);
}

static void test_plan_obeys_the_least_bound(void **state)
{
    (void)state;
    start(&usual[0], 23 * GIB);
    boot.bounds.group = 3 * GIB;
    assert_status(STATUS_OK, make());
    assert_true(plan_fits(&boot) && plan_available_bytes(&boot) == 3 * GIB);
    assert_true(plan_total_bytes(&boot) <= config_budget(3 * GIB).busy_bytes);
    boot.bounds.locked = 2 * GIB;
    assert_status(STATUS_OK, make());
    assert_true(plan_fits(&boot));
    assert_true(plan_process_bytes(&boot) <= config_budget(2 * GIB).busy_bytes);
    boot.bounds.locked = 512 * MIB;
    assert_status(STATUS_OK, make());
    assert_false(plan_fits(&boot));
}

static void test_plan_of_unknown_memory_takes_all_that_calls_can_use(void **state)
{
    (void)state;
    start(&usual[5], MEMORY_UNBOUNDED);
    assert_status(STATUS_OK, make());
    assert_true(plan_fits(&boot));
    assert_int_equal(boot.limits.kv_blocks, boot.limits.kv_blocks_most);
}

static void test_plan_written_blocks_stand_whatever_memory_is(void **state)
{
    (void)state;
    start(&usual[0], GIB);
    set("kv.device_blocks=1000000");
    assert_status(STATUS_OK, make());
    assert_int_equal(boot.limits.kv_blocks, 1000000);
    assert_false(plan_fits(&boot));
}

/* The KV of a device is in its own memory, with a host tier beside it. */
static void test_plan_of_a_gpu_obeys_its_memory(void **state)
{
    (void)state;
    start(&usual[5], 64 * GIB);
    boot.serves_by_gpu = true;
    boot.gpu.free_bytes = 8 * GIB;
    assert_status(STATUS_OK, make());
    assert_true(plan_fits(&boot));
    assert_true(boot.limits.kv_blocks < boot.limits.kv_blocks_most);
    assert_int_equal(boot.limits.kv_host_blocks, boot.limits.kv_blocks);
    boot.gpu.free_bytes = GIB;
    assert_status(STATUS_OK, make());
    assert_false(plan_fits(&boot));
}

/* ---- advice ---- */

static void assert_advice(const char *expected)
{
    const char *command;
    assert_status(STATUS_OK, make());
    assert_false(plan_fits(&boot));
    assert_true(check_advice(&command));
    assert_string_equal(command, expected);
}

static void test_advice_lowers_what_is_missed_least(void **state)
{
    (void)state;
    start(&usual[0], 23 * GIB);
    set("kv.type=f32");
    set("kv.host_ratio=1");
    set("kv.device_blocks=4096");
    assert_advice("agentix --set kv.type=f32 --set kv.device_blocks=4096 "
                  "--set kv.host_ratio=0.000");
    start(&usual[0], 8 * GIB);
    set("kv.device_blocks=4096");
    set("kv.type=f32");
    assert_advice("agentix --set kv.type=f32");         /* blocks as memory has room for */
}

static void test_advice_names_the_longest_context_that_fits(void **state)
{
    (void)state;
    start(&usual[0], 23 * GIB);
    set("model.path=/models/a b.gguf");
    set("limits.context_tokens=40960");
    set("sched.batch=8");
    boot.bounds.machine = 3 * GIB;
    assert_advice("agentix --set 'model.path=/models/a b.gguf' --set sched.batch=8 "
                  "--set limits.context_tokens=16384");
}

static void test_advice_takes_two_changes_where_one_is_too_few(void **state)
{
    (void)state;
    const char *command;
    start(&tiny, 80 * MIB);
    set("limits.connections=65536");
    set("limits.events=16777216");
    set("limits.ended=0");
    assert_status(STATUS_OK, make());
    assert_true(check_advice(&command));
    assert_non_null(strstr(command, "limits.events="));
    assert_non_null(strstr(command, "limits.connections="));
    assert_int_equal(take_command(command, &boot.options), 3);      /* limits.ended, as it was */
}

static void test_advice_still_fits_when_a_little_less_is_left(void **state)
{
    (void)state;
    for (uint64_t left = 48 * MIB; left < 64 * MIB; left += MIB / 16) {
        const char *command;
        start(&tiny, left);
        set("limits.connections=65536");
        set("limits.events=16777216");
        set("limits.ended=0");
        assert_status(STATUS_OK, make());
        assert_true(check_advice(&command));
        (void)take_command(command, &boot.options);
        boot.bounds.machine = left - left / 200;
        assert_status(STATUS_OK, make());
        assert_true(plan_fits(&boot));
    }
}

static void test_advice_for_weights_that_are_too_large_is_none(void **state)
{
    (void)state;
    const char *command;
    start(&usual[5], 4 * GIB);
    assert_status(STATUS_OK, make());
    assert_false(check_advice(&command));
}

static void test_advice_for_a_gpu_fits_it(void **state)
{
    (void)state;
    const char *command;
    start(&usual[5], 64 * GIB);
    boot.serves_by_gpu = true;
    boot.gpu.free_bytes = 6 * GIB;
    set("kv.device_blocks=4096");
    assert_status(STATUS_OK, make());
    assert_false(plan_fits(&boot));
    assert_true(check_advice(&command));
}

/* ---- drawn configurations ---- */

static uint64_t draw(uint64_t below)
{
    return splitmix_next(&random_state) % below;
}

/* An edge of the range, something inside, mostly small, or something beyond. */
static uint64_t draw_number(const struct option_row *row)
{
    uint64_t width = row->max - row->min;
    switch (draw(8)) {
    case 0:
        return row->min;
    case 1:
        return row->max;
    case 2:
        return row->max + 1 + draw(3);
    case 3:
        return row->min + (width > 0 ? draw(width) : 0);
    case 4:
        return row->default_number;
    default:
        return row->min + (width > 0 ? draw(width) >> draw(40) : 0);
    }
}

static void draw_text(const struct option_row *row, char *text, uint32_t max)
{
    static const char *const texts[] = {"", "127.0.0.1:0", "[::1]:7411", "/dev/null", "none", "'",
                                        "0.0.0.0:1", "1000, 1001", "0, 1", "/nonexistent/file"};
    struct option_value value = {.number = 0};
    if (row->type == OPTION_TEXT) {
        snprintf(text, max, "%s", texts[draw(sizeof texts / sizeof texts[0])]);
    } else if (row->type == OPTION_CHOICE) {
        uint32_t word = (uint32_t)draw(row->words_count + 1);
        snprintf(text, max, "%s", word < row->words_count ? row->words[word].word : "other");
    } else {
        value.number = draw_number(row);
        text[config_format(row, &value, text, max - 1)] = '\0';
    }
}

static void draw_option(void)
{
    const struct option_row *row = &config_option_rows[draw(config_option_rows_count)];
    char text[CONFIG_TEXT_BYTES], assignment[2 * CONFIG_TEXT_BYTES];
    if (strcmp(row->section, "prefix") == 0) {
        return;                     /* they are read when the plan is made */
    }
    draw_text(row, text, sizeof text);
    snprintf(assignment, sizeof assignment, "%s.%s=%s", row->section, row->key, text);
    if (config_set(&boot.options, assignment, &error) != STATUS_OK) {
        message_check(&error);
    }
}

static void draw_machine(void)
{
    const struct model *models[USUAL + 2] = {&tiny, &huge};
    for (uint32_t i = 0; i < USUAL; i++) {
        models[2 + i] = &usual[i];
    }
    start(models[draw(USUAL + 2)], draw(3) == 0 ? MEMORY_UNBOUNDED : draw(GIB) << draw(12));
    boot.bounds.group = draw(4) == 0 ? draw(64 * GIB) : MEMORY_UNBOUNDED;
    boot.bounds.locked = draw(8) == 0 ? draw(64 * GIB) : MEMORY_UNBOUNDED;
    boot.machine.cpus = (uint32_t)draw(200);
    boot.serves_by_gpu = draw(8) == 0;
    boot.gpu.free_bytes = draw(GIB) << draw(9);
}

static void test_random_configurations_are_planned_refused_or_advised(void **state)
{
    uint32_t refused = 0, fit = 0, advised = 0, hopeless = 0;
    const char *command;
    (void)state;
    for (uint32_t i = 0; i < configurations; i++) {
        draw_machine();
        for (uint64_t options = draw(draw(2) == 0 ? 4 : 40); options > 0; options--) {
            draw_option();
        }
        if (make() != STATUS_OK) {
            message_check(&error);
            refused++;
        } else if (plan_fits(&boot)) {
            fit++;
        } else if (check_advice(&command)) {
            advised++;
        } else {
            hopeless++;
        }
    }
    print_message("%u refused, %u fit, %u advised, %u hopeless\n", refused, fit, advised, hopeless);
    assert_true(refused > 0 && fit > 0 && advised > 0 && hopeless > 0);
}

int main(int argc, char **argv)
{
    configurations = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : configurations;
    random_state = argc > 2 ? strtoull(argv[2], NULL, 10) : random_state;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan_of_usual_models_fits_23_gib_and_leaves_the_reserve),
        cmocka_unit_test(test_plan_on_8_gib_takes_what_is_left),
        cmocka_unit_test(test_plan_of_a_tiny_model_stays_small),
        cmocka_unit_test(test_plan_has_the_memory_of_the_core_that_waits),
        cmocka_unit_test(test_plan_obeys_the_least_bound),
        cmocka_unit_test(test_plan_of_unknown_memory_takes_all_that_calls_can_use),
        cmocka_unit_test(test_plan_written_blocks_stand_whatever_memory_is),
        cmocka_unit_test(test_plan_of_a_gpu_obeys_its_memory),
        cmocka_unit_test(test_advice_lowers_what_is_missed_least),
        cmocka_unit_test(test_advice_names_the_longest_context_that_fits),
        cmocka_unit_test(test_advice_takes_two_changes_where_one_is_too_few),
        cmocka_unit_test(test_advice_still_fits_when_a_little_less_is_left),
        cmocka_unit_test(test_advice_for_weights_that_are_too_large_is_none),
        cmocka_unit_test(test_advice_for_a_gpu_fits_it),
        cmocka_unit_test(test_random_configurations_are_planned_refused_or_advised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
