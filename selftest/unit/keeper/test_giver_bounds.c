/* SPDX-License-Identifier: MIT */
/*
 * Goal: the running keeper is bound for a time that has an end, whatever the other one does: what
 * it has agreed to stays so, and one that it has taken back from, and that does not end, is killed.
 * Method: as in test_giver.c.
 */
#include "selftest/unit/keeper/giver_rig.h"

/* A core of its own waits, or serves; the other one has been told. */
static void bring_to_recalls(void)
{
    facts.has_core = true;
    bring_to(GIVER_GONE);
    facts.now_us += 16000000;
    assert_int_equal(tick(), GIVER_BEGIN_CORE);
    expect(UPGRADE_TAKEN_BACK);
    facts.has_core = true;
    assert_int_equal(giver.state, GIVER_RECALLS);
    assert_true(giver_is_bound(&giver));
}

/* How often it was, which the rig does not wear. */
static uint32_t pulls(void)
{
    uint8_t byte;
    uint32_t count = 0;
    while (recv(boot.upgrade_leash[0], &byte, 1, MSG_DONTWAIT) == 1) {
        count++;
    }
    return count;
}

static void expect_killed_once(void)
{
    assert_int_equal(tick(), GIVER_NOTHING);
    assert_int_equal(pulls(), 0);
    facts.now_us += 6000000;
    assert_int_equal(tick(), GIVER_NOTHING);
    assert_int_equal(pulls(), 1);
    assert_int_equal(giver.state, GIVER_IDLE);
    assert_false(giver_is_bound(&giver));
    assert_int_equal(tick(), GIVER_NOTHING);
    assert_int_equal(pulls(), 0);
    leave();
    connect_other();
}

/* Whatever it says but that it serves, which it may for a keeper that stood still before it had
 * sent that: its core may have kept memory, and no service is without a bound. */
static void test_one_that_was_taken_back_from_and_does_not_end_is_killed(void **state)
{
    bring_to_recalls();
    expect_killed_once();
    for (enum upgrade_kind kind = UPGRADE_ASK; kind < UPGRADE_KINDS; kind++) {
        bring_to_recalls();
        say(kind);
        if (kind == UPGRADE_SERVES) {
            assert_int_equal(tick(), GIVER_END);
            leave();
            (void)tick();
            connect_other();
            continue;
        }
        expect_killed_once();
    }
    bring_to_recalls();
    assert_int_equal(send(other, "garbage", 7, 0), 7);
    expect_killed_once();
}

static void test_one_that_was_taken_back_from_and_ends_is_left_alone(void **state)
{
    bring_to_recalls();
    leave();
    assert_int_equal(tick(), GIVER_NOTHING);
    assert_int_equal(giver.state, GIVER_IDLE);
    assert_int_equal(pulls(), 0);
    connect_other();
    bring_to(GIVER_OFFERED);            /* and the next one is met */
}

static void agree(void)
{
    say(UPGRADE_HOLDS);
    assert_int_equal(tick(), GIVER_NOTHING);
    expect(UPGRADE_AGREED);
}

static void test_one_whose_core_serves_is_not_taken_back_from(void **state)
{
    bring_to(GIVER_GONE);
    facts.now_us += 14000000;
    agree();
    facts.now_us += 14000000;           /* the command that has started it ends slowly */
    assert_int_equal(tick(), GIVER_NOTHING);
    assert_true(giver_is_bound(&giver));
    facts.now_us += 2000000;            /* it has said so, and is not killed for standing still */
    assert_int_equal(tick(), GIVER_END);
}

static void test_one_whose_core_serves_and_that_goes_is_replaced_once(void **state)
{
    for (enum giver_state at = GIVER_YIELDS; at <= GIVER_GONE; at++) {
        uint32_t begun = 0;
        facts.has_core = true;
        bring_to(at);
        agree();
        leave();
        for (uint32_t i = 0; i < 4; i++) {
            begun += tick() == GIVER_BEGIN_CORE;
            facts.has_core = false;     /* it was told to end, and does */
        }
        assert_int_equal(begun, 1);
        assert_int_equal(giver.state, GIVER_IDLE);
        assert_false(giver.has_agreed);
        connect_other();
    }
}

/* It would heed no refusal, and both would serve. */
static void test_what_was_agreed_stays_whatever_comes(void **state)
{
    for (uint32_t is_apart = 0; is_apart < 2; is_apart++) {
        enum upgrade_kind last = is_apart ? UPGRADE_RELIEVES : UPGRADE_SERVES;
        bring_to(is_apart ? GIVER_OFFERED : GIVER_GONE);
        say(is_apart ? UPGRADE_BESIDE : UPGRADE_HOLDS);
        assert_int_equal(tick(), GIVER_NOTHING);
        for (enum upgrade_kind kind = UPGRADE_ASK; kind < UPGRADE_KINDS; kind++) {
            if (kind != last) {
                say(kind);
                assert_int_equal(tick(), GIVER_NOTHING);
            }
        }
        assert_int_equal(send(other, "garbage", 7, 0), 7);
        assert_int_equal(tick(), GIVER_NOTHING);
        say(last);
        assert_int_equal(tick(), is_apart ? GIVER_LEAVE : GIVER_END);
        leave();
        (void)tick();
        giver.state = GIVER_IDLE;
        connect_other();
        facts.has_core = true;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_one_that_was_taken_back_from_and_does_not_end_is_killed),
        TEST(test_one_that_was_taken_back_from_and_ends_is_left_alone),
        TEST(test_one_whose_core_serves_is_not_taken_back_from),
        TEST(test_one_whose_core_serves_and_that_goes_is_replaced_once),
        TEST(test_what_was_agreed_stays_whatever_comes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
