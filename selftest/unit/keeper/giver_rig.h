/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a running keeper's side of an upgrade; the test is the other keeper, and the clock.
 */
#include "selftest/unit/test.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "appliance/keeper/upgrade/giver.h"
#include "appliance/keeper/upgrade/leash.h"
#include "appliance/pockets.h"

#define POCKETS 3u

static struct boot boot;
static struct giver giver;
static struct config_keys domains;
static struct giver_facts facts;
static struct sockaddr_un place;
static socklen_t place_bytes = sizeof(sa_family_t);     /* the kernel finds a name */
static int other;                   /* the test's end */

static inline void listen_at_any_place(void)
{
    place = (struct sockaddr_un){.sun_family = AF_UNIX};
    place_bytes = sizeof place.sun_family;
    int handle = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(handle, (struct sockaddr *)&place, place_bytes), 0);
    assert_int_equal(listen(handle, 1), 0);
    place_bytes = sizeof place;
    getsockname(handle, (struct sockaddr *)&place, &place_bytes);
    boot.upgrade_listener = handle;
    assert_true(leash_make(boot.upgrade_leash));
}

static inline void connect_other(void)
{
    other = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(other, (struct sockaddr *)&place, place_bytes), 0);
}

static inline int begin(void **state)
{
    static struct control control;
    boot = (struct boot){.version = "1", .shared = {.control = &control},
                         .listeners = {-1, -1, -1}};
    listen_at_any_place();
    boot.kept_handle = arena_share("agentix-kept", 4096);
    pockets_open(&boot.pockets, POCKETS);
    domains = (struct config_keys){.domains_count = 1, .domains = {"alice"}};
    facts = (struct giver_facts){.may_give = true, .has_core = true, .domains = &domains,
                                 .weights = 7, .now_us = 1000};
    giver = (struct giver){.boot = &boot, .socket = -1,
                           .likeness = {.layout = 1, .shape = 2, .model = 3, .kept_bytes = 4096,
                                        .pockets = POCKETS}};
    connect_other();
    return 0;
}

static inline int end(void **state)
{
    pockets_forget(&boot.pockets);
    giver_close(&giver);
    close(boot.kept_handle);
    if (other >= 0) {
        close(other);
    }
    return 0;
}

static inline enum giver_order tick(void)
{
    return giver_tick(&giver, &facts);
}

static inline void say_as(enum upgrade_kind kind, const struct upgrade_likeness *likeness)
{
    struct upgrade_message message;
    upgrade_message_init(&message, kind);
    message.likeness = *likeness;
    assert_true(upgrade_send(other, &message, NULL));
}

static inline void say(enum upgrade_kind kind)
{
    struct upgrade_likeness likeness = giver.likeness;
    likeness.weights = 7;
    say_as(kind, &likeness);
}

/* Takes messages up to one of this kind. */
static inline void hear(enum upgrade_kind kind, struct upgrade_message *message,
                 struct upgrade_handles *handles)
{
    const char *why = NULL;
    do {
        assert_int_equal(upgrade_receive(other, message, handles, &why), UPGRADE_MESSAGE);
        for (uint32_t i = 0; i < handles->count; i++) {
            close(handles->of[i]);
        }
    } while (message->kind != (uint32_t)kind);
}

static inline void expect(enum upgrade_kind kind)
{
    struct upgrade_message message;
    struct upgrade_handles handles;
    hear(kind, &message, &handles);
}

/* By the way that an upgrade takes. */
static inline void bring_to(enum giver_state state)
{
    assert_int_equal(tick(), GIVER_NOTHING);
    if (state >= GIVER_OFFERED) {
        say(UPGRADE_ASK);
        assert_int_equal(tick(), GIVER_NOTHING);
    }
    if (state >= GIVER_GIVEN) {
        say(UPGRADE_TAKE);
        assert_int_equal(tick(), GIVER_NOTHING);
        expect(UPGRADE_GIVEN);
    }
    if (state >= GIVER_YIELDS) {
        say(UPGRADE_WAITS);
        assert_int_equal(tick(), GIVER_END_CORE);
    }
    if (state >= GIVER_GONE) {
        facts.has_core = false;
        assert_int_equal(tick(), GIVER_NOTHING);
    }
    assert_int_equal(giver.state, state);
}

static inline void leave(void)
{
    close(other);
    other = -1;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
