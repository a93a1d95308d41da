/* SPDX-License-Identifier: MIT */
/*
 * Goal: a message of another keeper counts when it is whole and makes sense, and is refused with a
 * sentence else, whatever was changed in it, and with the right digest, too; handles that come with
 * one that is refused are closed.
 * Method: messages on a pair of sockets of records, changed by hand.
 */
#include "selftest/unit/test.h"

#include <fcntl.h>

#include "appliance/keeper/upgrade/message.c"

static int pair[2];

static int begin(void **state)
{
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair);
}

static int end(void **state)
{
    close(pair[0]);
    close(pair[1]);
    return 0;
}

static struct upgrade_message offer(void)
{
    struct upgrade_message message;
    upgrade_message_init(&message, UPGRADE_OFFER);
    message.likeness = (struct upgrade_likeness){.layout = 1, .pockets = 300};
    message.domains_count = 2;
    memcpy(message.domains[0], "alice", 6);
    memcpy(message.domains[1], "bob", 4);
    memcpy(message.text, "1.2.3", 6);
    message.check = check_of(&message);
    return message;
}

/* What is received of these bytes. */
static enum upgrade_receipt receive(const void *bytes, size_t count, const char **why)
{
    struct upgrade_message got;
    assert_int_equal(send(pair[0], bytes, count, 0), (ssize_t)count);
    return upgrade_receive(pair[1], &got, NULL, why);
}

static void test_receive_a_whole_one_is_as_it_was_sent(void **state)
{
    struct upgrade_message sent = offer(), got;
    struct upgrade_handles handles = {.count = 2, .of = {0, 1}}, with;
    const char *why = NULL;
    assert_int_equal(upgrade_receive(pair[1], &got, NULL, &why), UPGRADE_NOTHING);
    assert_true(upgrade_send(pair[0], &sent, &handles));
    assert_int_equal(upgrade_receive(pair[1], &got, &with, &why), UPGRADE_MESSAGE);
    assert_memory_equal(&got, &sent, sizeof sent);
    assert_int_equal(with.count, 2);
    for (uint32_t i = 0; i < with.count; i++) {
        assert_int_equal(fcntl(with.of[i], F_GETFD), FD_CLOEXEC);
        close(with.of[i]);
    }
    close(pair[0]);
    assert_int_equal(upgrade_receive(pair[1], &got, NULL, &why), UPGRADE_GONE);
}

static void test_receive_every_prefix_is_refused(void **state)
{
    const struct upgrade_message whole = offer();
    struct {
        struct upgrade_message message;
        uint8_t more[8];
    } longer = {.message = whole};
    const char *why = NULL;
    for (size_t count = 1; count < sizeof whole; count++) {
        assert_int_equal(receive(&whole, count, &why), UPGRADE_BAD);
        assert_non_null(why);
    }
    assert_int_equal(receive(&longer, sizeof whole + 1, &why), UPGRADE_BAD);
    assert_int_equal(receive(&longer, sizeof longer, &why), UPGRADE_BAD);
    assert_int_equal(receive(&whole, sizeof whole, &why), UPGRADE_MESSAGE);
}

static void test_receive_every_changed_byte_is_refused(void **state)
{
    const char *why = NULL;
    for (size_t at = 0; at < sizeof(struct upgrade_message); at++) {
        struct upgrade_message message = offer();
        ((uint8_t *)&message)[at] ^= 0x40;
        assert_int_equal(receive(&message, sizeof message, &why), UPGRADE_BAD);
    }
}

/* The digest is right, what it is of is not. */
static void expect_refused(struct upgrade_message message)
{
    const char *why = NULL;
    message.check = check_of(&message);
    assert_int_equal(receive(&message, sizeof message, &why), UPGRADE_BAD);
    assert_string_equal(why, "a message makes no sense");
}

static void test_receive_what_makes_no_sense_is_refused(void **state)
{
    struct upgrade_message message = offer();
    message.kind = 0;
    expect_refused(message);
    message.kind = UPGRADE_KINDS;
    expect_refused(message);
    message.kind = UINT32_MAX;
    expect_refused(message);
    message = offer();
    message.likeness.pockets = POCKETS_MAX + 1;
    expect_refused(message);
    message = offer();
    message.first = 301;
    expect_refused(message);
    message = offer();
    message.first = 250;
    message.count = 51;
    expect_refused(message);
    message.first = UINT32_MAX;
    message.count = 2;
    expect_refused(message);
    message = offer();
    message.count = UPGRADE_HANDLES_MAX / 2 + 1;
    expect_refused(message);
    message = offer();
    memset(message.text, 'x', sizeof message.text);
    expect_refused(message);
    message = offer();
    memset(message.manager, 'x', sizeof message.manager);
    expect_refused(message);
}

static void test_receive_domains_that_are_none_are_refused(void **state)
{
    struct upgrade_message message = offer();
    message.domains_count = 3;                  /* the last has no name */
    expect_refused(message);
    message.domains_count = CONFIG_KEYS_MAX + 1;
    expect_refused(message);
    message.domains_count = UINT32_MAX;
    expect_refused(message);
    message = offer();
    memcpy(message.domains[1], "alice", 6);     /* two numbers for one domain */
    expect_refused(message);
    message = offer();
    memset(message.domains[0], 'x', sizeof message.domains[0]);
    expect_refused(message);
}

static void test_receive_another_form_is_told_apart(void **state)
{
    struct upgrade_message message = offer();
    const char *why = NULL;
    message.form++;
    assert_int_equal(receive(&message, 16, &why), UPGRADE_BAD);     /* it may be shorter */
    assert_string_equal(why, "its version hands over in another way");
}

/* The kernel reports the unread one first. */
static void test_receive_what_was_sent_before_a_close_with_something_unread(void **state)
{
    struct upgrade_message sent = offer(), got;
    const char *why = NULL;
    assert_true(upgrade_send(pair[1], &sent, NULL));
    assert_true(upgrade_send(pair[0], &sent, NULL));
    close(pair[0]);
    assert_int_equal(upgrade_receive(pair[1], &got, NULL, &why), UPGRADE_MESSAGE);
    assert_int_equal(upgrade_receive(pair[1], &got, NULL, &why), UPGRADE_GONE);
}

/* True when what was written into the pipe's end comes to its end: no handle of it is left. */
static bool is_closed(const int pipe_ends[2])
{
    uint8_t byte;
    close(pipe_ends[1]);
    return read(pipe_ends[0], &byte, 1) == 0;
}

static void test_receive_handles_of_what_is_refused_are_closed(void **state)
{
    struct upgrade_handles handles = {.count = 1}, with;
    struct upgrade_message message, got;
    const char *why = NULL;
    int pipe_ends[2];
    for (uint32_t asks = 0; asks < 2; asks++) {
        message = offer();
        message.domains_count = UINT32_MAX;
        assert_int_equal(pipe(pipe_ends), 0);
        handles.of[0] = pipe_ends[1];
        assert_true(upgrade_send(pair[0], &message, &handles));
        assert_int_equal(upgrade_receive(pair[1], &got, asks == 0 ? &with : NULL, &why),
                         UPGRADE_BAD);
        assert_true(is_closed(pipe_ends));
        close(pipe_ends[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_receive_a_whole_one_is_as_it_was_sent, begin, end),
        cmocka_unit_test_setup_teardown(test_receive_every_prefix_is_refused, begin, end),
        cmocka_unit_test_setup_teardown(test_receive_every_changed_byte_is_refused, begin, end),
        cmocka_unit_test_setup_teardown(test_receive_what_makes_no_sense_is_refused, begin, end),
        cmocka_unit_test_setup_teardown(test_receive_domains_that_are_none_are_refused, begin,
                                        end),
        cmocka_unit_test_setup_teardown(test_receive_another_form_is_told_apart, begin, end),
        cmocka_unit_test_setup_teardown(
            test_receive_what_was_sent_before_a_close_with_something_unread, begin, end),
        cmocka_unit_test_setup_teardown(test_receive_handles_of_what_is_refused_are_closed, begin,
                                        end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
