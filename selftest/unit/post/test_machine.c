/* SPDX-License-Identifier: MIT */
/*
 * Goal: a clock that goes back, and a file that others may write, are found.
 * Method: made-up readings; files in a temporary folder.
 */
#include "selftest/unit/folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include "selftest/post/machine.h"

static void test_clock_that_goes_back_is_found(void **state)
{
    (void)state;
    struct post_faults faults = {.count = 0};
    post_clock_compare(5, 5, 0, &faults);
    post_clock_compare(5, 6, 0, &faults);
    assert_int_equal(faults.count, 0);
    post_clock_compare(6, 5, 3, &faults);
    assert_int_equal(faults.count, 1);
    assert_string_equal(faults.kept[0].where, "went back by 1 us on CPU 3");
}

static void test_file_that_others_may_write_is_found(void **state)
{
    (void)state;
    struct post_faults faults = {.count = 0};
    char path[64];
    snprintf(path, sizeof path, "%s/file", test_folder());
    int handle = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(handle >= 0);
    assert_int_equal(fchmod(handle, 0664), 0);
    post_file_compare(path, 0002, &faults);
    assert_int_equal(faults.count, 0);
    post_file_compare(path, 0077, &faults);
    assert_int_equal(faults.count, 1);
    assert_non_null(strstr(faults.kept[0].where, "mode 0664, need 0700 or less"));
    assert_int_equal(fchmod(handle, 0666), 0);
    post_file_compare(path, 0002, &faults);
    assert_int_equal(faults.count, 2);
    close(handle);
    unlink(path);
    post_file_compare(path, 0002, &faults);
    assert_int_equal(faults.count, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clock_that_goes_back_is_found),
        cmocka_unit_test(test_file_that_others_may_write_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
