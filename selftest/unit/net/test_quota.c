/* SPDX-License-Identifier: MIT */
/*
 * Goal: a tenant that takes all that it gets leaves the others their minimums of connections and
 * calls; a reload changes them. Method: the stage with the keys of two domains in the world in
 * memory.
 */
#include "selftest/unit/net/auth_rig.h"

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
    fixture_bind_quotas(f, &next.keys);
    assert_int_equal(start_calls(f, red, 100), 1);
    uint32_t blue = open_member(f, 1);
    assert_int_equal(start_calls(f, blue, 1), 1);
    next.keys.quotas[1][QUOTA_CALLS] = (struct quota_bounds){.min = 8, .max = 8};
    fixture_bind_quotas(f, &next.keys);         /* more than is left: what is used stays */
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
    fixture_bind_quotas(f, &alone);
    uint32_t red = open_member(f, 0);
    assert_int_equal(start_calls(f, red, 1), 8);
    for (uint32_t i = 1; i < 6; i++) {
        (void)open_member(f, 0);
    }
}

/* ---- kept replies ---------------------------------------------------------------------------- */

/* Calls that end at once, from this id on. */
static void run_calls(struct fixture *f, uint32_t peer, uint64_t first, uint32_t count)
{
    for (uint64_t id = first; id < first + count; id++) {
        struct wire_call call = fixture_wire_call(id);
        fixture_send_call(f, peer, &call);
        fixture_passes(f, 2);
        fixture_generate(f, f->last_call, FIXTURE_BYTE(id));
        fixture_finish(f, f->last_call, CALL_FINISH_EOS, STATUS_OK);
        fixture_passes(f, 2);
        while (fixture_receive(f, peer, &got)) {
        }
    }
}

static bool is_kept(struct fixture *f, uint32_t peer, uint64_t id)
{
    struct wire_call call = fixture_wire_call(id);
    uint64_t replayed = f->stats.calls_replayed;
    fixture_send_call(f, peer, &call);
    fixture_passes(f, 2);
    if (f->stats.calls_replayed > replayed) {
        return true;
    }
    fixture_finish(f, f->last_call, CALL_FINISH_FAILED, STATUS_DEVICE_FAILED);
    fixture_passes(f, 2);
    return false;
}

/* Of four records blue has one for itself. */
static void test_replies_of_one_domain_push_out_its_own(void **state)
{
    struct fixture *f = *state;
    uint32_t red = open_member(f, 0), blue = open_member(f, 1);
    run_calls(f, blue, 1, 3);
    run_calls(f, red, 1, 40);
    assert_true(is_kept(f, red, 40));
    assert_false(is_kept(f, red, 1));
    assert_true(is_kept(f, blue, 3));
    run_calls(f, blue, 10, 3);              /* blue has no more than its part beyond that */
    assert_true(is_kept(f, red, 40));
}

static void test_tokens_of_replies_are_divided_too(void **state)
{
    struct fixture *f = *state;
    uint32_t red = open_member(f, 0), blue = open_member(f, 1);
    run_calls(f, blue, 1, 1);
    for (uint64_t id = 1; id < 10; id++) {
        struct wire_call call = fixture_wire_call(id);
        call.max_tokens = 60;
        fixture_send_call(f, red, &call);
        fixture_passes(f, 2);
        for (uint32_t i = 0; i < 55; i++) {
            fixture_generate(f, f->last_call, FIXTURE_BYTE(i));
        }
        fixture_finish(f, f->last_call, CALL_FINISH_EOS, STATUS_OK);
        fixture_passes(f, 4);
        while (fixture_receive(f, red, &got)) {
        }
        assert_true(f->net.replies.tokens_quota.used_by[1] <= 75);      /* of 100 */
    }
    assert_int_equal(f->net.replies.quota.used_by[1], 1);
    assert_true(is_kept(f, blue, 1));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, setup_divided)
    const struct CMUnitTest tests[] = {
        T(test_one_domain_cannot_take_all_connections),
        T(test_one_domain_cannot_take_all_call_slots),
        T(test_a_reload_divides_anew),
        T(test_a_domain_that_is_alone_has_all),
        T(test_replies_of_one_domain_push_out_its_own),
        T(test_tokens_of_replies_are_divided_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
