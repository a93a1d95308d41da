/* SPDX-License-Identifier: MIT */
/*
 * Goal: a tenant that takes all that it gets leaves the others their minimums of connections and
 * calls; a reload changes them. Method: the stage with the keys of two domains in the world in
 * memory.
 */
#include "selftest/unit/net/auth_rig.h"

static void bind(struct fixture *f, const struct config_keys *of)
{
    struct quotas quotas;
    config_quotas_fill(&quotas, of, &f->limits);
    quota_bind(&f->calls.quota, &quotas, QUOTA_CALLS);
    net_bind_quotas(&f->net, &quotas);
}

/* Five connections, and two for handshakes; eight calls. Half is divided: red and blue have a
 * minimum of one connection and two calls each. */
static int setup_divided(void **state)
{
    static struct config_keys weighed;
    struct limits limits = fixture_limits;
    weighed = keys;
    weighed.weights[0] = weighed.weights[1] = 1;
    weighed.keys[1].calls_max = 0;
    limits.calls_per_key = limits.calls = 8;
    limits.connections = 7;
    limits.calls_per_connection = 8;
    limits.commands = 128;
    limits.preauth = 2;
    limits.reserve_permille = 500;
    fixture_init_keyed(&fixture, test_arena(), &limits, &weighed);
    bind(&fixture, &weighed);
    *state = &fixture;
    return 0;
}

static uint32_t knock(struct fixture *f, uint32_t key)
{
    for (uint32_t i = 0; i < FAKE_PEERS_MAX; i++) {     /* the world has few places, too */
        if (f->fake.peers[i].in_use && f->fake.peers[i].server_closed) {
            fake_client_forget(&f->fake, i);
        }
    }
    struct talk talk = greet(f, &keys.keys[key]);
    prove(f, &talk);
    return talk.peer;
}

static void test_one_domain_cannot_take_all_connections(void **state)
{
    struct fixture *f = *state;
    for (uint32_t i = 0; i < 4; i++) {
        (void)open_member(f, i % 2 == 0 ? 0 : 2);
    }
    expect_error(f, knock(f, 0), STATUS_BUSY_CONNS_OF_KEY, WIRE_FIELD_CONNECTION, true);
    assert_int_equal(got.error.fault.found, 4);
    assert_int_equal(got.error.retry_ms, 1000);
    uint32_t blue = open_member(f, 1);
    expect_error(f, knock(f, 1), STATUS_BUSY_CONNS_OF_KEY, WIRE_FIELD_CONNECTION, true);
    fake_client_reset(&f->fake, blue);      /* its minimum waits for it */
    fixture_passes(f, 2);
    expect_error(f, knock(f, 0), STATUS_BUSY_CONNS_OF_KEY, WIRE_FIELD_CONNECTION, true);
    assert_int_equal(f->net.quota.used_by[2], 0);
    knock(f, 1);
    assert_int_equal(f->net.quota.used_by[2], 1);
}

static uint32_t start_calls(struct fixture *f, uint32_t peer, uint64_t first)
{
    for (uint64_t id = first;; id++) {
        struct wire_call call = fixture_wire_call(id);
        fixture_send_call(f, peer, &call);
        fixture_passes(f, 2);
        assert_true(fixture_receive(f, peer, &got));
        if (got.type != WIRE_ACCEPT) {
            assert_int_equal(got.type, WIRE_ERROR);
            return (uint32_t)(id - first);
        }
    }
}

static void test_one_domain_cannot_take_all_call_slots(void **state)
{
    struct fixture *f = *state;
    uint32_t red = open_member(f, 0), blue = open_member(f, 1), carol = open_member(f, 2);
    assert_int_equal(start_calls(f, red, 1), 6);
    assert_int_equal(got.error.fault.status, STATUS_BUSY_CALLS_OF_KEY);
    assert_int_equal(got.error.fault.found, 6);
    assert_int_equal(start_calls(f, carol, 100), 0);        /* of the same domain */
    assert_int_equal(start_calls(f, blue, 1), 2);
    assert_int_equal(got.error.fault.status, STATUS_BUSY_CALLS);
    fake_client_reset(&f->fake, blue);
    fixture_passes(f, 3);
    assert_int_equal(start_calls(f, red, 200), 0);
}

static void test_a_reload_divides_anew(void **state)
{
    struct fixture *f = *state;
    struct config_admission next = {.keys = keys};
    uint32_t red = open_member(f, 0);
    assert_int_equal(start_calls(f, red, 1), 6);
    next.keys.weights[0] = next.keys.weights[1] = 1;
    next.keys.quotas[1][QUOTA_CALLS] = (struct quota_bounds){.min = 1, .max = 1};
    net_admit_anew(&f->net, &next, f->fake.now_us);
    bind(f, &next.keys);
    assert_int_equal(start_calls(f, red, 100), 1);
    uint32_t blue = open_member(f, 1);
    assert_int_equal(start_calls(f, blue, 1), 1);
    next.keys.quotas[1][QUOTA_CALLS] = (struct quota_bounds){.min = 8, .max = 8};
    bind(f, &next.keys);                    /* more than is left: what is used stays */
    net_check(&f->net);
    assert_int_equal(start_calls(f, red, 200), 0);
    assert_int_equal(start_calls(f, blue, 200), 0);
}

/* With the keys of one domain all is as without keys. */
static void test_a_domain_that_is_alone_has_all(void **state)
{
    struct fixture *f = *state;
    static struct config_keys alone;
    alone = keys;
    alone.weights[0] = 1;
    alone.domains_count = 1;
    bind(f, &alone);
    uint32_t red = open_member(f, 0);
    assert_int_equal(start_calls(f, red, 1), 8);
    for (uint32_t i = 1; i < 6; i++) {
        (void)open_member(f, 0);
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, setup_divided)
    const struct CMUnitTest tests[] = {
        T(test_one_domain_cannot_take_all_connections),
        T(test_one_domain_cannot_take_all_call_slots),
        T(test_a_reload_divides_anew),
        T(test_a_domain_that_is_alone_has_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
