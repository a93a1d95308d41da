/* SPDX-License-Identifier: MIT */
/*
 * Goal: lists of users and groups mean what they say, or are refused by name.
 */
#include "selftest/unit/test.h"

#include <grp.h>
#include <pwd.h>
#include <stdio.h>

#include "config/access.h"

static struct options options;
static struct config_access access_;
static struct config_error error;

static enum status fill(const char *uids, const char *gids)
{
    char assignment[256];
    config_defaults(&options);
    snprintf(assignment, sizeof assignment, "auth.uids=%s", uids);
    assert_status(STATUS_OK, config_set(&options, assignment, &error));
    snprintf(assignment, sizeof assignment, "auth.gids=%s", gids);
    assert_status(STATUS_OK, config_set(&options, assignment, &error));
    return config_access_fill(&access_, &options, 500, &error);
}

static bool allows(uint32_t uid, uint32_t gid)
{
    const uint32_t gids[] = {77, gid};
    return config_access_allows(&access_, uid, gids, 2);
}

static enum status fill_peers(const char *assignment)
{
    config_defaults(&options);
    assert_status(STATUS_OK, config_set(&options, assignment, &error));
    return config_access_fill(&access_, &options, 500, &error);
}

static void test_lists_of_peers_are_filled_or_refused_by_name(void **state)
{
    assert_status(STATUS_OK, fill_peers("text.peers=10.0.0.5, 10.1.0.0/16"));
    assert_int_equal(access_.askers.count, 2);
    assert_status(STATUS_CONFIG_OPTION, fill_peers("text.peers=10.0.0.0/33"));
    assert_non_null(strstr(error.text, "--set: text.peers = 10.0.0.0/33: not a list of addresses"));
}

static void test_defaults_allow_root_and_ourselves(void **state)
{
    assert_status(STATUS_OK, fill("", ""));
    assert_true(allows(0, 9));
    assert_true(allows(500, 9));
    assert_false(allows(9, 0));     /* a group of root's is not root */
    assert_false(allows(501, 500));
    assert_false(access_.tcp_needs_key);
}

static void test_lists_allow_who_is_in_them(void **state)
{
    assert_status(STATUS_OK, fill("1000, 1001,4294967294", "27"));
    assert_int_equal(access_.uids_count, 3);
    assert_true(allows(1000, 9));
    assert_true(allows(1001, 9));
    assert_true(allows(4294967294u, 9));
    assert_true(allows(9, 27));
    assert_false(allows(27, 1000));
    assert_false(allows(100, 9));
    assert_false(config_access_allows(&access_, 9, NULL, 0));
}

static void test_lists_take_sixteen_numbers(void **state)
{
    assert_status(STATUS_OK, fill("1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", ""));
    assert_int_equal(access_.uids_count, 16);
    assert_true(allows(16, 0));
    assert_status(STATUS_CONFIG_OPTION, fill("1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", ""));
}

static void test_bad_lists_are_refused_by_name(void **state)
{
    static const struct { const char *list, *said; } bad[] = {
        {"1000 1001", "not a list of numbers and names, allowed up to 16 like 1000, agentix"},
        {"1000,", "not a list"}, {",1000", "not a list"}, {"1000,,1001", "not a list"},
        {"a-name-of-more-than-thirty-two-bytes", "not a list"},
        {"4294967295", "'4294967295' is no number of 32 bits"}, {"4294967296", "is no number"},
        {"99999999999999999999999", "is no number"}, {"1000;1001", "is no number"},
        {"0x10", "is no number"}, {"-1", "/etc/group has no '-1'"},
        {"root, no-such-group", "/etc/group has no 'no-such-group'"},
        {"roo", "/etc/group has no 'roo'"}, {"root:x", "/etc/group has no 'root:x'"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char message[160];
        assert_status(STATUS_CONFIG_OPTION, fill("", bad[i].list));
        snprintf(message, sizeof message, "--set: auth.gids = %s: ", bad[i].list);
        assert_memory_equal(error.text, message, strlen(message));
        assert_non_null(strstr(error.text, bad[i].said));
        assert_status(STATUS_CONFIG_OPTION, fill(bad[i].list, ""));
    }
}

/* Every name that this machine's files have. */
static void test_names_are_those_of_the_files(void **state)
{
    (void)state;
    const struct group *group;
    const struct passwd *user;
    assert_status(STATUS_OK, fill("root", "root, 27"));
    assert_int_equal(access_.gids[0], 0);
    assert_int_equal(access_.gids[1], 27);
    FILE *file = fopen("/etc/group", "r");
    while (file != NULL && (group = fgetgrent(file)) != NULL) {
        assert_status(STATUS_OK, fill("", group->gr_name));
        assert_int_equal(access_.gids[0], group->gr_gid);
    }
    fclose(file);
    file = fopen("/etc/passwd", "r");
    while (file != NULL && (user = fgetpwent(file)) != NULL) {
        assert_status(STATUS_OK, fill(user->pw_name, ""));
        assert_int_equal(access_.uids[0], user->pw_uid);
    }
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_of_peers_are_filled_or_refused_by_name),
        cmocka_unit_test(test_defaults_allow_root_and_ourselves),
        cmocka_unit_test(test_lists_allow_who_is_in_them),
        cmocka_unit_test(test_lists_take_sixteen_numbers),
        cmocka_unit_test(test_names_are_those_of_the_files),
        cmocka_unit_test(test_bad_lists_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
