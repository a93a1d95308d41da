/* SPDX-License-Identifier: MIT */
/*
 * Goal: the class that PROGRAM_START names reaches the scheduler as it was sent, and what is no
 * name costs its frame alone. Method: that of net/intake.
 */
#include "selftest/unit/net/net_client.h"

static void test_class_of_a_program_reaches_the_scheduler(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    char longest[CALL_CLASS_BYTES + 1] = {0};
    memset(longest, '~', CALL_CLASS_BYTES);
    fixture_send_class(f, peer, "p", longest, CALL_CLASS_BYTES);
    fixture_pass(f);
    assert_string_equal(f->last_command.class_name, longest);
    assert_memory_equal(f->last_command.program_id, fixture_program_id("p"), 16);
    fixture_send_class(f, peer, "p", "web", 3);
    fixture_pass(f);
    assert_string_equal(f->last_command.class_name, "web");
    fixture_send_program(f, peer, WIRE_PROGRAM_START, "p");
    fixture_pass(f);
    assert_string_equal(f->last_command.class_name, "");
    assert_int_equal(f->commands[COMMAND_PROGRAM_START], 3);
}

/* Each costs its frame alone: the connection goes on. */
static void test_class_with_a_hostile_name_is_refused(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    const struct {
        const char *name;
        uint32_t bytes;
        uint64_t found, min, max;
    } rows[] = {
        {"two words", 9, ' ', 33, 126}, {"web\n", 4, '\n', 33, 126}, {"\0", 1, 0, 33, 126},
        {"web\0", 4, 0, 33, 126},      {"\x1b[2J", 4, 0x1b, 33, 126}, {"\x7f", 1, 0x7f, 33, 126},
        {"caf\xc3\xa9", 5, 0xc3, 33, 126},
        {"33-bytes-are-one-more-than-allowed", CALL_CLASS_BYTES + 1, 33, 0, 32}};
    for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fixture_send_class(f, peer, "p", rows[i].name, rows[i].bytes);
        fixture_pass(f);
        expect_error(f, peer, STATUS_BAD_FIELD, WIRE_FIELD_CLASS, false);
        assert_int_equal(got.error.fault.found, rows[i].found);
        assert_int_equal(got.error.fault.min, rows[i].min);
        assert_int_equal(got.error.fault.max, rows[i].max);
    }
    assert_int_equal(f->commands[COMMAND_PROGRAM_START], 0);
    expect_alive(f, peer);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, setup)
    const struct CMUnitTest tests[] = {
        T(test_class_of_a_program_reaches_the_scheduler),
        T(test_class_with_a_hostile_name_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
