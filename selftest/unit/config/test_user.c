/* SPDX-License-Identifier: MIT */
/*
 * Goal: appliance.user means what it says, or is refused by name; root is no answer.
 */
#include "selftest/unit/test.h"

#include <pwd.h>
#include <stdio.h>

#include "config/access.h"

static struct options options;
static struct config_user user;
static struct config_error error;

static enum status fill(const char *text)
{
    char assignment[256];
    config_defaults(&options);
    snprintf(assignment, sizeof assignment, "appliance.user=%s", text);
    assert_status(STATUS_OK, config_set(&options, assignment, &error));
    return config_user_fill(&user, &options, &error);
}

static void test_nothing_names_no_user(void **state)
{
    assert_status(STATUS_OK, fill(""));
    assert_false(user.is_named);
}

static void test_numbers_are_taken_as_they_are(void **state)
{
    assert_status(STATUS_OK, fill("1234:4294967294"));
    assert_true(user.is_named);
    assert_int_equal(user.uid, 1234);
    assert_int_equal(user.gid, 4294967294u);
}

static void test_users_that_are_none_are_refused_by_name(void **state)
{
    static const struct { const char *text, *said; } bad[] = {
        {"1234", "has no group, expected USER:GROUP"},
        {"1234:", "expected USER or USER:GROUP"}, {":1234", "expected USER or USER:GROUP"},
        {"an-user-of-more-than-thirty-two-bytes", "expected USER or USER:GROUP"},
        {"1234:a-group-of-more-than-thirty-two-bytes", "expected USER or USER:GROUP"},
        {"4294967295:1", "'4294967295' is no number of 32 bits"},
        {"1:4294967296", "'4294967296' is no number of 32 bits"}, {"1:2:3", "'2:3' is no number"},
        {"12x:1", "'12x' is no number"}, {"no-such-user", "/etc/passwd has no 'no-such-user'"},
        {"1:no-such-group", "/etc/group has no 'no-such-group'"},
        {"root", "is root or its group"}, {"0:1", "is root or its group"},
        {"1:0", "is root or its group"}, {"1:root", "is root or its group"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char message[160];
        assert_status(STATUS_CONFIG_OPTION, fill(bad[i].text));
        snprintf(message, sizeof message, "--set: appliance.user = %s: ", bad[i].text);
        assert_memory_equal(error.text, message, strlen(message));
        assert_non_null(strstr(error.text, bad[i].said));
    }
}

/* Every user of this machine's file, but for those that are root or in its group. */
static void test_names_are_those_of_the_file(void **state)
{
    const struct passwd *entry;
    FILE *file = fopen("/etc/passwd", "r");
    while (file != NULL && (entry = fgetpwent(file)) != NULL) {
        if (entry->pw_uid == 0 || entry->pw_gid == 0) {
            continue;
        }
        assert_status(STATUS_OK, fill(entry->pw_name));
        assert_int_equal(user.uid, entry->pw_uid);
        assert_int_equal(user.gid, entry->pw_gid);
        char with_group[80];
        snprintf(with_group, sizeof with_group, "%s:77", entry->pw_name);
        assert_status(STATUS_OK, fill(with_group));
        assert_int_equal(user.gid, 77);
    }
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_names_no_user),
        cmocka_unit_test(test_numbers_are_taken_as_they_are),
        cmocka_unit_test(test_users_that_are_none_are_refused_by_name),
        cmocka_unit_test(test_names_are_those_of_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
