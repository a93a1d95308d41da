/* SPDX-License-Identifier: MIT */
/*
 * Goal: each figure of NVML arrives under its own name, a figure that NVML does not give is
 * unknown, and a library that is missing or is no NVML is refused with a message. Method: the soft
 * GPU's NVML, with a different value for each figure.
 */
#include "selftest/unit/test.h"

#include "kernels/cuda/driver/nvml.h"

#define BUS "00000000:05:00.0"

static struct nvml nvml;
static struct config_error error;

static int teardown(void **state)
{
    nvml_close(&nvml);
    unsetenv("SOFTGPU_NVML");
    return 0;
}

static struct nvml_reading read_with(const char *figures)
{
    struct nvml_reading reading;
    setenv("SOFTGPU_NVML", figures, 1);
    assert_status(STATUS_OK, nvml_open(&nvml, SOFTGPU, BUS, &error));
    nvml_read(&nvml, &reading);
    return reading;
}

static void test_read_each_figure_is_its_own(void **state)
{
    struct nvml_reading r = read_with("temperature:51,slowdown:92,sm:1410,memory:1593,power:345678,"
                                      "held:64,pending:1,failed:0,pages:1");
    assert_int_equal(r.temperature_c, 51);
    assert_int_equal(r.slowdown_c, 92);
    assert_int_equal(r.sm_mhz, 1410);
    assert_int_equal(r.memory_mhz, 1593);
    assert_int_equal(r.power_mw, 345678);
    assert_int_equal(r.held_by, NVML_HARDWARE_THERMAL);
    assert_int_equal(r.remaps_pending, 1);
    assert_int_equal(r.remap_failed, 0);
    assert_int_equal(r.pages_pending, 1);
}

static void test_read_errors_of_both_kinds_are_kept_apart(void **state)
{
    struct nvml_reading before = read_with("uncorrected:1"), after;
    nvml_read(&nvml, &after);
    assert_true(after.uncorrected > before.uncorrected);
    assert_true(after.uncorrected_ever > before.uncorrected_ever);
    assert_int_equal(after.corrected, 0);
    assert_int_equal(after.corrected_ever, 0);
}

static void test_read_what_is_not_told_is_unknown(void **state)
{
    struct nvml_reading r = read_with("temperature:-1,held:-1,pending:-1,uncorrected:-1");
    assert_true(r.temperature_c == NVML_UNKNOWN && r.held_by == NVML_UNKNOWN);
    assert_true(r.remaps_pending == NVML_UNKNOWN && r.remap_failed == NVML_UNKNOWN);
    assert_true(r.uncorrected == NVML_UNKNOWN && r.uncorrected_ever == NVML_UNKNOWN);
    assert_true(r.pages_pending == NVML_UNKNOWN);
    assert_int_equal(r.sm_mhz, 1500);
}

static void test_open_a_library_that_is_missing_or_another_is_refused(void **state)
{
    struct nvml_reading reading;
    assert_status(STATUS_CONFIG_GPU_DRIVER, nvml_open(&nvml, "libnvml-none.so.1", BUS, &error));
    assert_string_equal(error.text, "no libnvml-none.so.1");
    nvml_read(&nvml, &reading);
    assert_true(reading.temperature_c == NVML_UNKNOWN && reading.corrected == NVML_UNKNOWN);
    assert_status(STATUS_CONFIG_GPU_ENTRY, nvml_open(&nvml, "libc.so.6", BUS, &error));
    assert_string_equal(error.text, "libc.so.6: is no NVML");
    assert_status(STATUS_CONFIG_GPU_DRIVER, nvml_open(&nvml, SOFTGPU, "0:1:2.3", &error));
    assert_string_equal(error.text, "NVML error 6 for 0:1:2.3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_read_each_figure_is_its_own, teardown),
        cmocka_unit_test_teardown(test_read_errors_of_both_kinds_are_kept_apart, teardown),
        cmocka_unit_test_teardown(test_read_what_is_not_told_is_unknown, teardown),
        cmocka_unit_test_teardown(test_open_a_library_that_is_missing_or_another_is_refused,
                                  teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
