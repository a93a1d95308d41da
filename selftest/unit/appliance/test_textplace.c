/* SPDX-License-Identifier: MIT */
/*
 * Goal: no source of connections takes the slots of the text port from another: a probe of health
 * gets one whatever another source does, and keeps it while its source holds its share or less.
 * Method: the text port over sockets in memory, with peers of several addresses; then slots alone,
 * and random arrivals, beside the share counted by hand.
 */
#include "selftest/unit/appliance/textport_rig.h"
#include "selftest/unit/draw.h"

#include "appliance/text/place.h"

#define SLOTS 8

static struct peer *connect_from(const char *address)
{
    struct peer *peer = connect_peer();
    struct config_peers parsed;
    assert_status(STATUS_OK, config_peers_parse(address, &parsed));
    config_peer_from_ip(&peer->who, parsed.of[0].ip);
    return peer;
}

static uint32_t open_of(uint32_t first, uint32_t count)
{
    uint32_t open = 0;
    for (uint32_t i = first; i < first + count; i++) {
        open += peers[i].open;
    }
    return open;
}

static void let_in(void)
{
    assert_status(STATUS_OK, config_peers_parse("10.0.0.0/8, 2001:db8::/32", &askers));
}

/* ---- two sources ----------------------------------------------------------------------------- */

/* Eight peers of loopback are in their grace; each has asked and reads nothing. */
static void test_a_source_that_holds_all_yields_at_once_to_another(void **state)
{
    (void)state;
    let_in();
    for (uint32_t i = 0; i < SLOTS; i++) {
        connect_from("127.0.0.1")->room = 0;
        say(&peers[i], "stats\n");
    }
    pump(3);
    assert_int_equal(open_of(0, SLOTS), SLOTS);
    assert_starts(ask(connect_from("10.0.0.5"), "health\n"), "ready ");
    assert_int_equal(open_of(0, SLOTS), SLOTS - 1);
    assert_int_equal(stats.text_refused, 0);
    assert_int_equal(stats.text_dropped, 1);
}

static void test_a_source_of_an_address_yields_to_loopback(void **state)
{
    (void)state;
    let_in();
    for (uint32_t i = 0; i < SLOTS; i++) {
        connect_from("10.0.0.5");
    }
    pump(2);
    for (uint32_t i = 0; i < 4; i++) {
        assert_starts(ask(connect_from("127.0.0.1"), "health\n"), "ready ");
    }
    assert_int_equal(open_of(0, SLOTS), 4);
    connect_from("127.0.0.1");                  /* its share is four, like the other's */
    pump(2);
    assert_int_equal(open_of(0, SLOTS), 4);
    assert_int_equal(open_of(SLOTS, 5), 4);
}

/* Four floods of loopback beside a peer that has been idle since before. */
static void test_a_flood_displaces_its_own(void **state)
{
    (void)state;
    let_in();
    struct peer *idle = connect_from("10.0.0.5");
    for (uint32_t round = 0; round < 4; round++) {
        for (uint32_t i = 0; i < SLOTS + 1; i++) {
            connect_from("127.0.0.1");
        }
        pump(2);
        now += TEXTPORT_GRACE_US;
    }
    assert_true(idle->open);
    assert_int_equal(open_of(0, peers_count), SLOTS);
    assert_int_equal(open_of(peers_count - SLOTS - 1, SLOTS + 1), SLOTS - 1);
    assert_starts(ask(idle, "health\n"), "ready ");
}

/* ---- what is one source ---------------------------------------------------------------------- */

/* Seven of one address, one of another, and a second one of that: it gets a slot at once if it is
 * of another source. */
static void expect_one_source(const char *first, const char *second, bool is_one)
{
    set_up(NULL);
    let_in();
    for (uint32_t i = 0; i < SLOTS - 1; i++) {
        connect_from(first);
    }
    connect_from(second);
    pump(2);
    assert_int_equal(open_of(0, SLOTS), SLOTS);
    struct peer *newcomer = connect_from(second);
    pump(2);
    assert_int_equal(newcomer->open, !is_one);
    assert_int_equal(stats.text_refused, is_one);
}

static void test_loopback_is_one_source_and_so_is_an_address(void **state)
{
    (void)state;
    expect_one_source("127.0.0.1", "127.7.7.7", true);
    expect_one_source("127.0.0.1", "::1", true);
    expect_one_source("10.0.0.5", "10.0.0.5", true);
    expect_one_source("10.0.0.5", "10.0.0.6", false);
    expect_one_source("127.0.0.1", "10.0.0.6", false);
}

static void test_half_of_an_ipv6_address_is_one_source(void **state)
{
    (void)state;
    expect_one_source("2001:db8::1", "2001:db8::ffff:0:0:2", true);
    expect_one_source("2001:db8:0:1::1", "2001:db8:0:2::1", false);
    expect_one_source("::1", "2001:db8::1", false);
}

/* ---- more sources than slots ----------------------------------------------------------------- */

static void test_a_ninth_source_displaces_one_that_has_had_its_grace(void **state)
{
    (void)state;
    char address[16];
    let_in();
    for (uint32_t i = 0; i < SLOTS; i++) {
        snprintf(address, sizeof address, "10.0.0.%u", i);
        connect_from(address);
        pump(1);
        now += 1;
    }
    struct peer *early = connect_from("127.0.0.1");
    pump(2);
    assert_true(early->closed);
    now += TEXTPORT_GRACE_US;
    assert_starts(ask(connect_from("127.0.0.1"), "health\n"), "ready ");
    assert_true(peers[0].closed && peers[1].open);
}

/* ---- random arrivals ------------------------------------------------------------------------- */

#define SOURCES 5

static uint32_t held(const struct textport_slot *slots, uint64_t source)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < SLOTS; i++) {
        count += slots[i].state != TEXTPORT_CLOSED && slots[i].source.address == source;
    }
    return count;
}

/* What each source has when all that hold a slot, and the newcomer's, have the same. */
static uint32_t share(const struct textport_slot *slots, uint64_t newcomer)
{
    uint32_t sources = 0;
    for (uint64_t source = 0; source < SOURCES; source++) {
        sources += source == newcomer || held(slots, source) > 0;
    }
    return SLOTS / sources;
}

static uint64_t random_of(uint64_t *random, uint64_t below)
{
    return (draw_next(random) >> 8) % below;
}

static void arrive(struct textport_slot *slots, uint64_t source, uint64_t now_us)
{
    const struct textport_source from = {.is_far = true, .address = source};
    uint32_t has = held(slots, source), fair = share(slots, source);
    uint32_t index = textplace_find(slots, SLOTS, &from, now_us);
    assert_true(index < SLOTS || has >= fair);      /* it has its share, or gets a slot at once */
    if (index == SLOTS) {
        return;
    }
    struct textport_slot *slot = &slots[index];
    if (slot->state != TEXTPORT_CLOSED && slot->source.address != source) {
        assert_true(held(slots, slot->source.address) > fair);
    }
    *slot = (struct textport_slot){.state = TEXTPORT_READING, .source = from,
                                   .deadline_us = now_us + TEXTPORT_IDLE_US};
}

static void test_random_arrivals_leave_each_source_its_share(void **state)
{
    struct textport_slot slots[SLOTS] = {{0}};
    uint64_t random = 88172645463325252u, now_us = TEXTPORT_IDLE_US;
    (void)state;
    for (uint32_t i = 0; i < 200000; i++) {
        uint64_t source = random_of(&random, SOURCES);
        source = random_of(&random, 3) == 0 ? source : i / 1000 % SOURCES;   /* one floods */
        arrive(slots, source, now_us);
        if (random_of(&random, 4) == 0) {
            slots[random_of(&random, SLOTS)] = (struct textport_slot){0};
        }
        now_us += random_of(&random, TEXTPORT_GRACE_US);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_source_that_holds_all_yields_at_once_to_another, set_up),
        cmocka_unit_test_setup(test_a_source_of_an_address_yields_to_loopback, set_up),
        cmocka_unit_test_setup(test_a_flood_displaces_its_own, set_up),
        cmocka_unit_test_setup(test_loopback_is_one_source_and_so_is_an_address, set_up),
        cmocka_unit_test_setup(test_half_of_an_ipv6_address_is_one_source, set_up),
        cmocka_unit_test_setup(test_a_ninth_source_displaces_one_that_has_had_its_grace, set_up),
        cmocka_unit_test_setup(test_random_arrivals_leave_each_source_its_share, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
