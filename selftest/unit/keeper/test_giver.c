/* SPDX-License-Identifier: MIT */
/*
 * Goal: the running keeper gives nothing away before the other one is ready and alike, has its core
 * end once, and begins another one exactly when the other keeper is gone or stands still; whatever
 * the other one says, out of turn or without sense, it ends only for one that serves.
 * Method: the test is the other keeper, and the clock.
 */
#include "selftest/unit/keeper/giver_rig.h"

static void test_an_upgrade_gives_all_and_ends(void **state)
{
    struct upgrade_message offer, pockets;
    struct upgrade_handles handles;
    bring_to(GIVER_OFFERED);
    hear(UPGRADE_OFFER, &offer, &handles);
    assert_int_equal(handles.count, 4);     /* kept memory, where the next one asks, the leash */
    assert_int_equal(offer.likeness.weights, 7);
    assert_string_equal(offer.domains[0], "alice");
    hear(UPGRADE_POCKETS, &pockets, &handles);
    assert_int_equal(pockets.count, POCKETS);
    assert_int_equal(handles.count, 2 * POCKETS);
    say(UPGRADE_TAKE);
    assert_int_equal(tick(), GIVER_NOTHING);
    expect(UPGRADE_GIVEN);
    assert_true(giver_is_bound(&giver));
    say(UPGRADE_WAITS);
    assert_int_equal(tick(), GIVER_END_CORE);
    assert_int_equal(tick(), GIVER_NOTHING);    /* once */
    facts.has_core = false;
    assert_int_equal(tick(), GIVER_NOTHING);
    say(UPGRADE_HOLDS);
    assert_int_equal(tick(), GIVER_NOTHING);
    expect(UPGRADE_AGREED);
    say(UPGRADE_SERVES);
    assert_int_equal(tick(), GIVER_END);
}

static void test_who_leaves_before_the_core_has_ended_costs_nothing(void **state)
{
    for (enum giver_state at = GIVER_ASKED; at <= GIVER_GIVEN; at++) {
        bring_to(at);
        leave();
        assert_int_equal(tick(), GIVER_NOTHING);
        assert_int_equal(giver.state, GIVER_IDLE);
        connect_other();
    }
}

static void test_who_leaves_after_that_is_replaced_once(void **state)
{
    for (enum giver_state at = GIVER_YIELDS; at <= GIVER_GONE; at++) {
        uint32_t begun = 0;
        bring_to(at);
        leave();
        assert_int_equal(tick(), at == GIVER_GONE ? GIVER_BEGIN_CORE : GIVER_NOTHING);
        begun += at == GIVER_GONE;
        facts.has_core = false;         /* it was told to end, and does */
        for (uint32_t i = 0; i < 4; i++) {
            begun += tick() == GIVER_BEGIN_CORE;
        }
        assert_int_equal(begun, 1);
        assert_int_equal(giver.state, GIVER_IDLE);
        facts.has_core = true;
        connect_other();
    }
}

static void test_messages_out_of_turn_end_the_upgrade(void **state)
{
    for (enum giver_state at = GIVER_ASKED; at <= GIVER_GONE; at++) {
        for (enum upgrade_kind kind = UPGRADE_ASK; kind < UPGRADE_KINDS; kind++) {
            bool is_due = (at == GIVER_ASKED && kind == UPGRADE_ASK) ||
                          (at == GIVER_OFFERED && kind == UPGRADE_TAKE) ||
                          (at == GIVER_OFFERED && kind == UPGRADE_BESIDE) ||
                          (at == GIVER_GIVEN && kind == UPGRADE_WAITS) ||
                          (at >= GIVER_YIELDS && kind == UPGRADE_HOLDS) ||
                          (at >= GIVER_YIELDS && kind == UPGRADE_SERVES);
            facts.has_core = true;
            bring_to(at);
            if (!is_due) {
                say(kind);
                enum giver_order order = tick();
                assert_int_equal(giver.socket, -1);
                assert_int_equal(order, at == GIVER_GONE ? GIVER_BEGIN_CORE : GIVER_NOTHING);
                expect(UPGRADE_REFUSED);
            }
            leave();
            facts.has_core = false;
            while (giver.state != GIVER_IDLE) {
                (void)tick();
            }
            connect_other();
        }
    }
}

static void test_what_is_not_alike_gets_nothing(void **state)
{
    struct upgrade_likeness same = giver.likeness;
    same.weights = 7;
    uint64_t *const facts_of[] = {&same.layout, &same.shape, &same.model, &same.weights,
                                  &same.kept_bytes};
    for (uint32_t i = 0; i < sizeof facts_of / sizeof facts_of[0]; i++) {
        bring_to(GIVER_OFFERED);
        *facts_of[i] ^= 8;
        say_as(UPGRADE_TAKE, &same);
        *facts_of[i] ^= 8;
        assert_int_equal(tick(), GIVER_NOTHING);
        assert_int_equal(giver.state, GIVER_IDLE);
        expect(UPGRADE_REFUSED);
        leave();
        connect_other();
    }
}

/* One that is not alike serves by itself; from then on no third one finds this one, and nothing
 * ends it but its core's end. */
static void test_one_that_serves_beside_it_has_it_drain_once(void **state)
{
    bring_to(GIVER_OFFERED);
    say(UPGRADE_BESIDE);
    assert_int_equal(tick(), GIVER_NOTHING);
    expect(UPGRADE_AGREED);
    giver_refuse(&giver, "told");
    assert_int_equal(giver.state, GIVER_BESIDE);
    assert_true(giver_is_bound(&giver));
    say(UPGRADE_RELIEVES);
    assert_int_equal(tick(), GIVER_LEAVE);
    giver_forget(&boot);
    leave();
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(tick(), GIVER_NOTHING);
        giver_refuse(&giver, "told");
        assert_int_equal(giver.state, GIVER_RELIEVED);
        assert_false(giver_is_bound(&giver));
    }
    int late = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(late, (struct sockaddr *)&place, place_bytes), -1);
    close(late);
}

static void test_one_that_serves_beside_it_and_goes_or_stands_still(void **state)
{
    bring_to(GIVER_OFFERED);
    say(UPGRADE_BESIDE);
    assert_int_equal(tick(), GIVER_NOTHING);
    leave();
    assert_int_equal(tick(), GIVER_NOTHING);
    assert_int_equal(giver.state, GIVER_IDLE);
    connect_other();
    bring_to(GIVER_OFFERED);
    say(UPGRADE_BESIDE);
    assert_int_equal(tick(), GIVER_NOTHING);
    facts.now_us += 16000000;
    assert_int_equal(tick(), GIVER_LEAVE);      /* it serves, and has said so */
    assert_int_equal(giver.state, GIVER_RELIEVED);
}

static void test_garbage_ends_the_upgrade(void **state)
{
    for (enum giver_state at = GIVER_ASKED; at <= GIVER_GIVEN; at++) {
        bring_to(at);
        assert_int_equal(send(other, "garbage", 7, 0), 7);
        assert_int_equal(tick(), GIVER_NOTHING);
        assert_int_equal(giver.state, GIVER_IDLE);
        expect(UPGRADE_REFUSED);
        leave();
        connect_other();
    }
}

static void test_a_second_one_is_sent_away(void **state)
{
    bring_to(GIVER_OFFERED);
    int first = other;
    connect_other();
    assert_int_equal(tick(), GIVER_NOTHING);
    expect(UPGRADE_REFUSED);
    assert_int_equal(giver.state, GIVER_OFFERED);
    close(first);
}

static void test_one_that_comes_when_the_first_has_gone_is_met(void **state)
{
    bring_to(GIVER_OFFERED);
    leave();
    connect_other();
    assert_int_equal(tick(), GIVER_NOTHING);
    bring_to(GIVER_OFFERED);
}

static void test_who_stands_still_is_not_waited_for(void **state)
{
    bring_to(GIVER_YIELDS);
    facts.now_us += 6000000;
    assert_int_equal(tick(), GIVER_KILL_CORE);
    facts.has_core = false;
    assert_int_equal(tick(), GIVER_NOTHING);
    facts.now_us += 16000000;
    assert_int_equal(tick(), GIVER_BEGIN_CORE);
    expect(UPGRADE_TAKEN_BACK);
}

static void test_domains_that_a_reload_brings_are_told(void **state)
{
    struct upgrade_message message;
    struct upgrade_handles handles;
    bring_to(GIVER_OFFERED);
    strcpy(domains.domains[domains.domains_count++], "bob");
    assert_int_equal(tick(), GIVER_NOTHING);
    hear(UPGRADE_DOMAINS, &message, &handles);
    assert_int_equal(message.domains_count, 2);
    assert_string_equal(message.domains[1], "bob");
}

static void test_one_that_does_not_serve_offers_nothing(void **state)
{
    facts.may_give = false;
    assert_int_equal(tick(), GIVER_NOTHING);
    say(UPGRADE_ASK);
    assert_int_equal(tick(), GIVER_NOTHING);
    assert_int_equal(giver.state, GIVER_IDLE);
    expect(UPGRADE_REFUSED);
}

static void test_told_to_end_refuses_only_while_it_is_not_bound(void **state)
{
    for (enum giver_state at = GIVER_ASKED; at <= GIVER_OFFERED; at++) {
        bring_to(at);
        giver_refuse(&giver, "told");
        expect(UPGRADE_REFUSED);
        assert_int_equal(giver.state, GIVER_IDLE);
        leave();
        connect_other();
    }
    for (enum giver_state at = GIVER_GIVEN; at <= GIVER_GONE; at++) {
        facts.has_core = true;
        bring_to(at);
        giver_refuse(&giver, "told");
        assert_int_equal(giver.state, at);
        assert_true(giver.socket >= 0 && giver_is_bound(&giver));
        leave();
        facts.has_core = false;
        while (giver.state != GIVER_IDLE) {
            (void)tick();
        }
        connect_other();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_an_upgrade_gives_all_and_ends),
        TEST(test_who_leaves_before_the_core_has_ended_costs_nothing),
        TEST(test_who_leaves_after_that_is_replaced_once),
        TEST(test_messages_out_of_turn_end_the_upgrade),
        TEST(test_what_is_not_alike_gets_nothing),
        TEST(test_one_that_serves_beside_it_has_it_drain_once),
        TEST(test_one_that_serves_beside_it_and_goes_or_stands_still),
        TEST(test_garbage_ends_the_upgrade),
        TEST(test_a_second_one_is_sent_away),
        TEST(test_one_that_comes_when_the_first_has_gone_is_met),
        TEST(test_who_stands_still_is_not_waited_for),
        TEST(test_domains_that_a_reload_brings_are_told),
        TEST(test_one_that_does_not_serve_offers_nothing),
        TEST(test_told_to_end_refuses_only_while_it_is_not_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
