/* SPDX-License-Identifier: MIT */
/*
 * Goal: the log says who was refused for a token or its key, in a bounded number of lines, and
 * never with which token.
 * Method: the log goes to a pipe while requests are refused by hand.
 */
#include "selftest/unit/door/door_rig.h"

#define LINES_MAX 8

static const struct config_key alice = {.id = "alice"};
static int out[2], log_before;
static char said[16384];

static void begin(void)
{
    rig_begin();
    rig.door.domains[0].key = &alice;
    assert_int_equal(pipe(out), 0);
    log_before = dup(STDERR_FILENO);
    assert_int_equal(dup2(out[1], STDERR_FILENO), STDERR_FILENO);
}

/* What was said since begin(). */
static void end_log(void)
{
    assert_int_equal(dup2(log_before, STDERR_FILENO), STDERR_FILENO);
    close(log_before);
    close(out[1]);
    ssize_t count = read(out[0], said, sizeof said - 1);
    said[count > 0 ? count : 0] = '\0';
    close(out[0]);
}

static uint32_t count_of(const char *text)
{
    uint32_t count = 0;
    for (const char *at = said; (at = strstr(at, text)) != NULL; at++) {
        count++;
    }
    return count;
}

static void refuse(uint32_t status, bool is_known)
{
    struct request *request = rig_take("/v1/completions");
    request->is_known = is_known;
    (void)request_refuse(request, status, NULL, "why");
    (void)request_refuse(request, status, NULL, "why again");
    request_free(request);
}

static void test_refused_token_is_a_line_with_the_key_if_it_is_known(void **state)
{
    begin();
    refuse(401, false);
    refuse(401, true);
    refuse(400, true);
    refuse(503, true);
    end_log();
    assert_int_equal(count_of("\n"), 2);
    assert_int_equal(count_of(" refused request from=peer path=/v1/completions: why\n"), 1);
    assert_int_equal(count_of(" from=peer path=/v1/completions key=alice: why\n"), 1);
    rig_end();
}

static void test_lines_of_refused_tokens_are_bounded_and_the_others_are_counted(void **state)
{
    begin();
    for (uint32_t i = 0; i < LINES_MAX + 12; i++) {
        refuse(401, false);
    }
    request_tell_refusals(&rig.door);
    request_tell_refusals(&rig.door);
    refuse(401, false);
    request_tell_refusals(&rig.door);
    end_log();
    assert_int_equal(count_of(" refused request from=peer"), LINES_MAX + 1);
    assert_int_equal(count_of(" refused 12 more requests"), 1);
    assert_int_equal(count_of("more requests"), 1);
    rig_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused_token_is_a_line_with_the_key_if_it_is_known),
        cmocka_unit_test(test_lines_of_refused_tokens_are_bounded_and_the_others_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
