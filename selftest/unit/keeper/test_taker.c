/* SPDX-License-Identifier: MIT */
/*
 * Goal: the new keeper says each word once and in turn, ends by a refusal, or by what makes no
 * sense, exactly until the command has been told that it serves, and goes on by itself when the
 * other keeper is gone, whenever that is. It waits for no one without an end.
 * Method: the test is the other keeper, and the clock. What is asked at boot is answered by a
 * child.
 */
#include "selftest/unit/test.h"

#include <stdio.h>
#include <sys/wait.h>

#undef fail                         /* of CMocka: taker.c has its own */
#include "appliance/keeper/upgrade/taker.c"
#include "appliance/keeper/upgrade/giver.h"

static struct taker_facts facts;
static int other;                   /* the test's end */

static void begin_at(enum taker_state state, bool is_apart)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    memset(&taker, 0, sizeof taker);
    taker.socket = pair[0];
    taker.state = state;
    taker.since_us = 1000;
    taker.is_apart = is_apart;
    other = pair[1];
    facts = (struct taker_facts){.has_launcher = true, .weights = 7, .now_us = 1000};
}

static void end_other(void)
{
    if (other >= 0) {
        close(other);
        other = -1;
    }
}

static void end_both(void)
{
    end_other();
    taker_close();
    taker.socket = -1;
}

static enum taker_order tick(void)
{
    return taker_tick(&facts);
}

static void say(enum upgrade_kind kind)
{
    struct upgrade_message message;
    upgrade_message_init(&message, kind);
    message.domains_count = 1;
    memcpy(message.domains[0], "alice", 6);
    assert_true(upgrade_send(other, &message, NULL));
}

static void expect(enum upgrade_kind kind)
{
    struct upgrade_message message;
    const char *why = NULL;
    assert_int_equal(upgrade_receive(other, &message, NULL, &why), UPGRADE_MESSAGE);
    assert_int_equal(message.kind, kind);
    assert_int_equal(message.likeness.weights, 7);
}

static void expect_nothing(void)
{
    struct upgrade_message message;
    const char *why = NULL;
    assert_int_equal(upgrade_receive(other, &message, NULL, &why), UPGRADE_NOTHING);
}

static void test_an_upgrade_says_each_word_in_turn(void **state)
{
    struct config_keys domains;
    begin_at(BOOTS, false);
    assert_int_equal(tick(), TAKER_NOTHING);
    expect_nothing();
    facts.is_ready = true;
    assert_int_equal(tick(), TAKER_NOTHING);
    expect(UPGRADE_TAKE);
    say(UPGRADE_GIVEN);
    assert_int_equal(tick(), TAKER_BEGIN_CORE);
    taker_domains(&domains);
    assert_string_equal(domains.domains[0], "alice");
    assert_int_equal(tick(), TAKER_NOTHING);
    expect_nothing();
    facts.core_waits = true;
    assert_int_equal(tick(), TAKER_NOTHING);
    expect(UPGRADE_WAITS);
    facts.core_serves = true;
    assert_int_equal(tick(), TAKER_NOTHING);
    expect(UPGRADE_HOLDS);
    assert_int_equal(tick(), TAKER_NOTHING);    /* the command learns nothing before */
    assert_false(taker_has_told());
    say(UPGRADE_AGREED);
    assert_int_equal(tick(), TAKER_TELL_LAUNCHER);
    assert_true(taker_has_told());
    assert_int_equal(tick(), TAKER_NOTHING);
    expect_nothing();
    facts.has_launcher = false;
    assert_int_equal(tick(), TAKER_DONE);
    expect(UPGRADE_SERVES);
    assert_int_equal(tick(), TAKER_NOTHING);
    end_both();
}

static void test_one_that_is_not_alike_asks_for_nothing(void **state)
{
    begin_at(BOOTS, true);
    facts.is_ready = facts.core_waits = facts.core_serves = true;
    assert_int_equal(tick(), TAKER_BEGIN_CORE);
    assert_int_equal(tick(), TAKER_NOTHING);
    assert_int_equal(tick(), TAKER_NOTHING);
    expect(UPGRADE_BESIDE);
    assert_int_equal(tick(), TAKER_NOTHING);
    say(UPGRADE_AGREED);
    assert_int_equal(tick(), TAKER_TELL_LAUNCHER);
    facts.has_launcher = false;
    assert_int_equal(tick(), TAKER_DONE);
    expect(UPGRADE_RELIEVES);
    end_both();
}

static enum taker_order due(enum taker_state at, bool is_apart, enum upgrade_kind kind)
{
    if (at == DETACHES || (kind == UPGRADE_DOMAINS && (at <= ASKED || is_apart))) {
        return TAKER_NOTHING;
    }
    if (kind == UPGRADE_GIVEN && at == ASKED) {
        return TAKER_BEGIN_CORE;
    }
    return kind == UPGRADE_AGREED && at == HOLDS ? TAKER_TELL_LAUNCHER : TAKER_END;
}

/* One that is not alike does not ask. */
static bool has_state(enum taker_state at, bool is_apart)
{
    return !is_apart || at != ASKED;
}

static void test_each_message_in_each_state(void **state)
{
    for (uint32_t is_apart = 0; is_apart < 2; is_apart++) {
        for (enum taker_state at = BOOTS; at <= DETACHES; at++) {
            for (enum upgrade_kind kind = UPGRADE_ASK;
                 kind < UPGRADE_KINDS && has_state(at, is_apart); kind++) {
                enum taker_order order = due(at, is_apart, kind);
                begin_at(at, is_apart);
                say(kind);
                assert_int_equal(tick(), order);
                assert_int_equal(order == TAKER_NOTHING && taker.state != at, 0);
                bool has_all = at == DETACHES || (at == HOLDS && kind == UPGRADE_AGREED);
                assert_int_equal(taker_has_all(), has_all);
                end_both();
            }
        }
    }
}

static void test_what_makes_no_sense_ends_it_until_the_command_is_told(void **state)
{
    for (enum taker_state at = BOOTS; at <= DETACHES; at++) {
        begin_at(at, false);
        assert_int_equal(send(other, "garbage", 7, 0), 7);
        assert_int_equal(tick(), at == DETACHES ? TAKER_NOTHING : TAKER_END);
        end_both();
    }
}

/* Each order that is left, once; none of them is to end. */
static void expect_goes_on_alone(enum taker_state at, bool is_apart)
{
    uint32_t begun = 0, told = 0, done = 0;
    facts.is_ready = facts.core_waits = facts.core_serves = true;
    facts.has_launcher = false;
    for (uint32_t i = 0; i < 12; i++) {
        enum taker_order order = tick();
        assert_int_not_equal(order, TAKER_END);
        begun += order == TAKER_BEGIN_CORE;
        told += order == TAKER_TELL_LAUNCHER;
        done += order == TAKER_DONE;
    }
    assert_int_equal(begun, at <= ASKED);
    assert_int_equal(told, at < DETACHES);
    assert_int_equal(done, 1);
    assert_true(taker_has_all());
    assert_int_equal(taker.state, DONE);
}

static void test_one_whose_other_dies_goes_on_alone(void **state)
{
    for (uint32_t is_apart = 0; is_apart < 2; is_apart++) {
        for (enum taker_state at = BOOTS; at <= DETACHES; at++) {
            if (has_state(at, is_apart)) {
                begin_at(at, is_apart);
                end_other();
                expect_goes_on_alone(at, is_apart);
                end_both();
            }
        }
    }
}

/* It waits for as long as that takes: kept memory is its core's when the other's is dead. */
static void test_one_that_is_alone_waits_for_its_core(void **state)
{
    begin_at(WAITS, false);
    end_other();
    for (uint32_t i = 0; i < 9; i++) {
        facts.now_us += 100000000;
        assert_int_equal(tick(), TAKER_NOTHING);
    }
    expect_goes_on_alone(WAITS, false);
}

/* After nothing was heard, and before it is said: what cannot be sent is no sign of a death. */
static void test_a_refusal_that_crosses_a_word_ends_it_and_the_command_is_not_told(void **state)
{
    static const enum upgrade_kind refusals[] = {UPGRADE_REFUSED, UPGRADE_TAKEN_BACK};
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t is_apart = 0; is_apart < 2; is_apart++) {
            for (enum taker_state at = BOOTS; at <= HOLDS; at++) {
                begin_at(at, is_apart);
                facts.is_ready = facts.core_waits = facts.core_serves = true;
                say(refusals[i]);
                end_other();
                (void)go_on(&facts);
                assert_false(taker_has_told());
                assert_int_equal(tick(), TAKER_END);
                end_both();
            }
        }
    }
}

/* The other one finds what was said when it goes on, and may have taken back before that. */
static void test_one_whose_other_stands_still_counts_its_word_in_the_end(void **state)
{
    for (uint32_t is_apart = 0; is_apart < 2; is_apart++) {
        begin_at(WAITS, is_apart);
        taker.own.weights = 7;
        facts.core_serves = true;
        facts.now_us += 20000000;
        assert_int_equal(tick(), TAKER_NOTHING);
        facts.now_us += AGREE_MAX_US - 1;
        assert_int_equal(tick(), TAKER_NOTHING);
        facts.now_us += 1;
        assert_int_equal(tick(), TAKER_TELL_LAUNCHER);
        say(is_apart ? UPGRADE_REFUSED : UPGRADE_TAKEN_BACK);
        say(UPGRADE_AGREED);
        assert_int_equal(tick(), TAKER_NOTHING);
        facts.now_us += DETACH_MAX_US;              /* nor does it wait for the command for ever */
        assert_int_equal(tick(), TAKER_DONE);
        expect(is_apart ? UPGRADE_BESIDE : UPGRADE_HOLDS);
        expect(is_apart ? UPGRADE_RELIEVES : UPGRADE_SERVES);
        end_both();
    }
}

static void test_one_whose_other_stands_still_gives_up_before_it_serves(void **state)
{
    static const struct { enum taker_state state; uint64_t max_us; } cases[] = {
        {ASKED, GIVEN_MAX_US}, {WAITS, HOLDS_MAX_US}};
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin_at(cases[i].state, false);
        facts.now_us += cases[i].max_us - 1;
        assert_int_equal(tick(), TAKER_NOTHING);
        facts.now_us += 1;
        assert_int_equal(tick(), TAKER_END);
        end_both();
    }
}

/* ---- boot ------------------------------------------------------------------------------------ */

static struct boot boot;
static struct sockaddr_un there;

/* Where it asks, this listens. */
static int listen_there(void)
{
    int handle = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    memset(&taker, 0, sizeof taker);
    taker.socket = -1;
    boot = (struct boot){.version = "2", .listeners = {-1, -1, -1}};
    snprintf(boot.options.net_unix.text, sizeof boot.options.net_unix.text, "/test-taker-%d",
             (int)getpid());
    uint32_t bytes = upgrade_place(&there, &boot.options, -1);
    assert_int_equal(bind(handle, (struct sockaddr *)&there, bytes), 0);
    assert_int_equal(listen(handle, 1), 0);
    return handle;
}

static int try_in_vain(void)
{
    int handle = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    uint32_t bytes = upgrade_place(&there, &boot.options, -1);
    int result = connect(handle, (struct sockaddr *)&there, bytes);
    close(handle);                  /* it stays in the queue of the one that stands still */
    return result;
}

static void test_ask_one_that_stands_still_is_not_waited_for(void **state)
{
    int listener = listen_there();
    while (try_in_vain() == 0) {
    }
    assert_int_equal(taker_ask(&boot), BOOT_EXIT_UPGRADE);
    close(listener);
    taker_close();
    assert_int_equal(taker_ask(&boot), BOOT_EXIT_UPGRADE);      /* nor one that is not there */
    taker_close();
}

enum answer { REFUSES, CLOSES, TALKS_NONSENSE, IS_OUT_OF_TURN, HAS_NO_HANDLES, OFFERS, ANSWERS };

static void answer_as(enum answer answer, int to)
{
    struct upgrade_message message;
    int kept = arena_share("agentix-kept", 4096);
    int next = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct upgrade_handles handles = {.count = answer == OFFERS ? 4 : 0, .of = {kept, next}};
    assert_true(leash_make(handles.of + 2));
    upgrade_message_init(&message, answer == REFUSES ? UPGRADE_REFUSED
                                   : answer == IS_OUT_OF_TURN ? UPGRADE_GIVEN : UPGRADE_OFFER);
    message.likeness.kept_bytes = 4096;
    if (answer == TALKS_NONSENSE) {
        (void)!send(to, "garbage", 7, 0);
    } else if (answer != CLOSES) {
        (void)upgrade_send(to, &message, &handles);
    }
}

/* In a child, whose answer comes before the end of its handle does. */
static pid_t answer_once(enum answer answer, int listener)
{
    pid_t child = fork();
    if (child == 0) {
        struct upgrade_message ask;
        int to = accept(listener, NULL, NULL);
        if (recv(to, &ask, sizeof ask, 0) == (ssize_t)sizeof ask && ask.kind == UPGRADE_ASK) {
            answer_as(answer, to);
        }
        _exit(0);
    }
    return child;
}

static void test_ask_takes_what_is_offered_and_nothing_else(void **state)
{
    for (enum answer answer = REFUSES; answer < ANSWERS; answer++) {
        int listener = listen_there();
        pid_t child = answer_once(answer, listener);
        assert_int_equal(taker_ask(&boot), answer == OFFERS ? BOOT_EXIT_OK : BOOT_EXIT_UPGRADE);
        assert_int_equal(boot.kept_handle > 0, answer == OFFERS);
        assert_int_equal(waitpid(child, NULL, 0), child);
        close(listener);
        taker_close();
    }
    close(boot.kept_handle);
    giver_forget(&boot);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_upgrade_says_each_word_in_turn),
        cmocka_unit_test(test_one_that_is_not_alike_asks_for_nothing),
        cmocka_unit_test(test_each_message_in_each_state),
        cmocka_unit_test(test_what_makes_no_sense_ends_it_until_the_command_is_told),
        cmocka_unit_test(test_one_whose_other_dies_goes_on_alone),
        cmocka_unit_test(test_one_that_is_alone_waits_for_its_core),
        cmocka_unit_test(test_a_refusal_that_crosses_a_word_ends_it_and_the_command_is_not_told),
        cmocka_unit_test(test_one_whose_other_stands_still_counts_its_word_in_the_end),
        cmocka_unit_test(test_one_whose_other_stands_still_gives_up_before_it_serves),
        cmocka_unit_test(test_ask_one_that_stands_still_is_not_waited_for),
        cmocka_unit_test(test_ask_takes_what_is_offered_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
