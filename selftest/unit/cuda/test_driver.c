/* SPDX-License-Identifier: MIT */
/*
 * Goal: the driver's table is found, or refused with a helpful message. Method: the soft GPU as a
 * driver that is too old or lacks an entry point, and files that are no driver.
 */
#include "selftest/unit/test.h"

#include "kernels/cuda/driver/driver.h"

static struct driver driver;
static struct config_error error;

static int forget_environment(void **state)
{
    unsetenv("SOFTGPU_VERSION");
    unsetenv("SOFTGPU_LACKS");
    driver_close(&driver);
    return 0;
}

static void assert_says(const char *word)
{
    if (strstr(error.text, word) == NULL) {
        print_error("\"%s\" says nothing of \"%s\"\n", error.text, word);
        fail();
    }
}

static void test_open_finds_every_entry(void **state)
{
    assert_status(STATUS_OK, driver_open(&driver, SOFTGPU, DRIVER_VERSION_MIN, &error));
    assert_int_equal(driver.version, 13000);
#define ENTRY(name, version, parameters) assert_non_null(driver.name);
#include "kernels/cuda/driver/driver.def"
#undef ENTRY
}

static void test_open_of_a_missing_library_names_it(void **state)
{
    assert_status(STATUS_CONFIG_GPU_DRIVER,
                  driver_open(&driver, "libnone.so.1", DRIVER_VERSION_MIN, &error));
    assert_says("libnone.so.1");
    assert_says("expected the library of an NVIDIA driver");
    assert_null(driver.library);
}

static void test_open_of_another_library_names_what_it_lacks(void **state)
{
    assert_status(STATUS_CONFIG_GPU_ENTRY,
                  driver_open(&driver, "libc.so.6", DRIVER_VERSION_MIN, &error));
    assert_says("libc.so.6: lacks cuDriverGetVersion");
    assert_null(driver.library);
}

static void test_open_of_an_old_driver_says_both_versions(void **state)
{
    setenv("SOFTGPU_VERSION", "11080", 1);
    assert_status(STATUS_CONFIG_GPU_VERSION,
                  driver_open(&driver, SOFTGPU, DRIVER_VERSION_MIN, &error));
    assert_says("CUDA 11.8");
    assert_says("expected 12.0");
    setenv("SOFTGPU_VERSION", "12000", 1);
    assert_status(STATUS_OK, driver_open(&driver, SOFTGPU, DRIVER_VERSION_MIN, &error));
    driver_close(&driver);
    assert_status(STATUS_CONFIG_GPU_VERSION, driver_open(&driver, SOFTGPU, 13000, &error));
    assert_says("expected 13.0");
}

/* One after the other: no entry point is used that was not found. */
static void test_open_without_an_entry_names_it(void **state)
{
#define ENTRY(name, version, parameters)                                                  \
    setenv("SOFTGPU_LACKS", #name, 1);                                                    \
    assert_status(STATUS_CONFIG_GPU_ENTRY,                                                \
                  driver_open(&driver, SOFTGPU, DRIVER_VERSION_MIN, &error));             \
    assert_says("lacks " #name ";");                                                      \
    assert_null(driver.library);
#include "kernels/cuda/driver/driver.def"
#undef ENTRY
}

static void test_results_become_statuses(void **state)
{
    assert_status(STATUS_OK, driver_status(DRIVER_SUCCESS));
    assert_status(STATUS_DEVICE_MEMORY, driver_status(2));
    assert_status(STATUS_DEVICE_FAULT, driver_status(700));
    assert_status(STATUS_DEVICE_FAULT, driver_status(719));
    assert_status(STATUS_DEVICE_LAUNCH, driver_status(701));
    assert_status(STATUS_GONE_AGAIN, driver_status(600));
    assert_status(STATUS_DEVICE_LOST, driver_status(46));
    assert_status(STATUS_DEVICE_FAILED, driver_status(12345));
}

static void test_results_have_names(void **state)
{
    assert_status(STATUS_OK, driver_open(&driver, SOFTGPU, DRIVER_VERSION_MIN, &error));
    assert_string_equal(driver_result_name(&driver, 2), "CUDA_ERROR_OUT_OF_MEMORY");
    assert_string_equal(driver_result_name(&driver, 12345), "an unknown CUDA error");
}

#define TEST(name) cmocka_unit_test_teardown(name, forget_environment)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_open_finds_every_entry),
        TEST(test_open_of_a_missing_library_names_it),
        TEST(test_open_of_another_library_names_what_it_lacks),
        TEST(test_open_of_an_old_driver_says_both_versions),
        TEST(test_open_without_an_entry_names_it),
        TEST(test_results_become_statuses),
        TEST(test_results_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
