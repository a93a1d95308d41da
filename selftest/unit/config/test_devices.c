/* SPDX-License-Identifier: MIT */
/*
 * Goal: engine.devices means the devices that it lists, in that order, or is refused by name; any
 * bytes do one of the two.
 * Method: lists by hand, then drawn from the bytes that lists are made of.
 */
#include "selftest/unit/test.h"

#include <stdio.h>

#include "config/devices.h"

static struct options options;
static struct config_devices devices;
static struct config_error error;

static enum status fill(const char *list)
{
    char assignment[256];
    config_defaults(&options);
    snprintf(assignment, sizeof assignment, "engine.devices=%s", list);
    assert_status(STATUS_OK, config_set(&options, assignment, &error));
    enum status status = config_devices_fill(&devices, &options, &error);
    struct config_error other;
    assert_status(status, config_check(&options, &other));
    return status;
}

static void test_the_default_is_the_first_device(void **state)
{
    (void)state;
    config_defaults(&options);
    assert_status(STATUS_OK, config_devices_fill(&devices, &options, &error));
    assert_int_equal(devices.count, 1);
    assert_int_equal(devices.numbers[0], 0);
}

static void test_lists_keep_their_order(void **state)
{
    (void)state;
    assert_status(STATUS_OK, fill("3,0,  63"));
    assert_int_equal(devices.count, 3);
    assert_int_equal(devices.numbers[0], 3);
    assert_int_equal(devices.numbers[1], 0);
    assert_int_equal(devices.numbers[2], 63);
    assert_status(STATUS_OK, fill("7,6,5,4,3,2,1,0"));
    assert_int_equal(devices.count, BOUND_ENGINES);
}

static void test_bad_lists_are_refused_with_what_is_allowed(void **state)
{
    (void)state;
    static const struct {
        const char *list, *problem;
    } bad[] = {
        {"x", "not a list of devices"},      {"0,", "not a list of devices"},
        {",0", "not a list of devices"},     {"0,,1", "not a list of devices"},
        {"0 1", "not a list of devices"},    {"0 ,1", "not a list of devices"},
        {"-1", "not a list of devices"},     {"64", "not a list of devices"},
        {"0-3", "not a list of devices"},    {"99999999999999999999", "not a list of devices"},
        {"all", "not a list of devices"},    {"0, ,1", "not a list of devices"},
        {"1,2,1", "a device is named twice"}, {"0,00", "a device is named twice"},
        {"0,1,2,3,4,5,6,7,8", "more than 8 devices"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char message[200];
        snprintf(message, sizeof message, "--set: engine.devices = %s: %s, allowed up to 8 "
                 "different numbers, 0 .. 63, like 0, 1", bad[i].list, bad[i].problem);
        assert_status(STATUS_CONFIG_OPTION, fill(bad[i].list));
        assert_string_equal(error.text, message);
    }
}

static void test_any_list_is_one_of_devices_or_refused(void **state)
{
    (void)state;
    static const char bytes[] = "0123456789,, ";     /* blanks alone would be no value */
    uint64_t random = 1;
    uint32_t right = 0;
    for (uint32_t i = 0; i < 20000; i++) {
        char list[40] = "";
        uint32_t length = 1 + (uint32_t)(random >> 33) % 12;
        for (uint32_t at = 0; at < length; at++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            list[at] = bytes[(random >> 40) % (sizeof bytes - 1)];
        }
        list[0] = list[0] == ' ' ? ',' : list[0];
        if (fill(list) == STATUS_OK) {
            right++;
            assert_in_range(devices.count, 1, BOUND_ENGINES);
            for (uint32_t k = 0; k < devices.count; k++) {
                assert_in_range(devices.numbers[k], 0, BOUND_DEVICES - 1);
            }
        }
    }
    assert_true(right > 100 && right < 19000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_default_is_the_first_device),
        cmocka_unit_test(test_lists_keep_their_order),
        cmocka_unit_test(test_bad_lists_are_refused_with_what_is_allowed),
        cmocka_unit_test(test_any_list_is_one_of_devices_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
