/* SPDX-License-Identifier: MIT */
/*
 * Goal: the whole core, from bytes to bytes, gives every call the right tokens and everything back,
 * whatever the sockets and the engine do.
 * Method: the real loop over the fake world, clients through the SDK's machine, an engine whose
 * tokens betray every wrong block; faults drawn from seeds: short transfers, EAGAIN, resets, a slow
 * engine, workers that die. Half of the calls go on where the one before ended, KV is shared,
 * swapped and retained, by seed. Every invariant is checked after every pass.
 */
#include "selftest/unit/appliance/loop_rig.h"

static void test_calls_end_with_the_right_tokens(void **state)
{
    struct stats seen = {0};
    for (uint64_t seed = 0; seed < 20; seed++) {
        run_seed(seed, &(struct faults){0});
        assert_int_equal(rig.loop.stats.calls_completed, CLIENTS * CALLS_EACH);
        sched_report(&rig.loop.sched);
        seen.prefix_hit_tokens += rig.loop.stats.prefix_hit_tokens;
        seen.swap_in_blocks += rig.loop.stats.swap_in_blocks;
        seen.standbys_entered += rig.loop.stats.standbys_entered;
    }
    assert_true(seen.prefix_hit_tokens > 0 && seen.swap_in_blocks > 0);
    assert_true(seen.standbys_entered > 0);
}

static void test_short_transfers_and_eagain_change_nothing(void **state)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        run_seed(seed, &(struct faults){.transfer_max = 1 + (uint32_t)seed * 5,
                                        .again_every = 2 + (uint32_t)seed % 5});
    }
}

static void test_dying_workers_cost_no_token(void **state)
{
    uint64_t lost = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        run_seed(seed, &(struct faults){.kill_one_in = 120});
        lost += rig.loop.stats.steps_lost;
    }
    assert_true(lost > 20);
}

static void test_resets_give_everything_back_and_hurt_no_others(void **state)
{
    for (uint64_t seed = 0; seed < 40; seed++) {
        run_seed(seed, &(struct faults){.reset_one_in = 60, .transfer_max = 200,
                                        .kill_one_in = 200});
    }
}

static void test_drain_ends_after_the_last_call(void **state)
{
    struct loop_orders orders = {.load_permille = 1000};
    start(1);
    client_connect(&rig.clients[0]);
    for (uint32_t i = 0; i < 1000 && rig.clients[0].sent < CALLS_EACH; i++) {
        assert_true(pass(&orders));
        client_move(&rig.clients[0]);
    }
    orders.drain = true;
    uint32_t passes = 0;
    while (pass(&orders)) {
        client_move(&rig.clients[0]);
        assert_true(passes++ < PASSES_MAX);
    }
    client_move(&rig.clients[0]);
    assert_int_equal(rig.clients[0].done + rig.clients[0].refused, CALLS_EACH);
}

/* A connection in its handshake is waited for, and for a while only; calls go on meanwhile. */
static void test_yield_waits_for_connections_that_open(void **state)
{
    for (uint32_t greets = 0; greets < 2; greets++) {
        struct loop_orders orders = {.load_permille = 1000};
        uint32_t passes = 0;
        start(1);
        while (!rig.loop.serving) {
            assert_true(pass(&orders));
        }
        uint32_t peer = fake_client_connect(&rig.fake, 0);
        while (rig.loop.net.open_count == 0) {
            assert_true(pass(&orders) && passes++ < PASSES_MAX);
        }
        assert_false(loop_may_yield(&rig.loop));        /* it was not told to */
        orders.yields = true;
        assert_true(pass(&orders));
        assert_false(loop_may_yield(&rig.loop));
        assert_int_equal(fake_client_connect(&rig.fake, 0) == peer, false);
        uint64_t began_us = rig.loop.now_us;
        if (greets != 0) {
            rig.clients[0].peer = peer;
            assert_int_equal(agx_session_init(&rig.clients[0].agx, rig.clients[0].buffer,
                                              sizeof rig.clients[0].buffer), AGX_OK);
            assert_int_equal(agx_session_hello(&rig.clients[0].agx), AGX_OK);
            client_move(&rig.clients[0]);
        }
        while (!loop_may_yield(&rig.loop)) {
            assert_true(pass(&orders) && passes++ < PASSES_MAX);
        }
        assert_int_equal(rig.loop.now_us - began_us >= 100000, greets == 0);
        assert_int_equal(rig.loop.net.open_count, 1);   /* the second waits for another core */
    }
}

/* The engine has nothing to do, so nothing can be moved; what is due is forgotten all the same, and
 * the loop sleeps from one tick to the next. */
static void test_an_idle_loop_forgets_what_was_kept_long_enough(void **state)
{
    const struct loop_orders orders = {.load_permille = 1000};
    uint32_t passes = 0;
    run_seed(4, &(struct faults){0});
    const struct kvmem *kv = &rig.loop.engines[0].kv;
    assert_true(kvmem_free(kv) < BLOCKS || kvmem_host_used(kv) > 0);
    uint64_t until_us = rig.fake.now_us + 21000000;
    for (; rig.fake.now_us < until_us; passes++) {
        assert_true(pass(&orders));
    }
    assert_int_equal(kvmem_free(kv), BLOCKS);
    assert_int_equal(kvmem_host_used(kv), 0);
    assert_true(passes < 200);
}

static void test_a_gap_in_time_expires_nothing(void **state)
{
    const struct loop_orders orders = {.load_permille = 1000};
    start(2);
    client_connect(&rig.clients[0]);
    for (uint32_t i = 0; i < PASSES_MAX && rig.clients[0].done < CALLS_EACH; i++) {
        assert_true(pass(&orders));
        client_move(&rig.clients[0]);
        if (i == 20) {
            rig.fake.now_us += UINT64_C(600000000);     /* ten minutes of SIGSTOP */
        }
    }
    assert_int_equal(rig.clients[0].done, CALLS_EACH);
}

static uint64_t stopped_heart(void *self, uint32_t engine)
{
    return 7;
}

static const struct loop_orders sleepy = {.load_permille = 1000, .idle_us = 2000000};

/* Goes on while all is quiet, at most for `us`; how many passes that takes. */
static uint32_t idle(uint64_t us)
{
    uint64_t until_us = rig.fake.now_us + us;
    uint32_t passes = 0;
    while (rig.fake.now_us < until_us && loop_is_quiet(&rig.loop)) {
        assert_true(pass(&sleepy));
        passes++;
    }
    return passes;
}

/* It serves, and its first canary is done. */
static void start_quiet(uint64_t seed)
{
    start(seed);
    for (uint32_t i = 0; i < 100 && !loop_is_quiet(&rig.loop); i++) {
        assert_true(pass(&sleepy));
    }
    assert_true(loop_is_quiet(&rig.loop));
}

static void test_what_the_keeper_wants_is_not_slept_over(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        start_quiet(11);
        struct loop_orders orders = sleepy;
        orders.drain = i == 0;
        orders.stop_now = i == 1;
        uint64_t now_us = rig.fake.now_us;
        assert_false(pass(&orders));
        assert_int_equal(rig.fake.now_us, now_us);
    }
}

/* Goes on for `us` of the world's time; the text port has no peer, so gauges are taken here. */
static void wait_us(uint64_t us, struct health *health)
{
    const struct loop_orders orders = {.load_permille = 1000};
    static const int32_t listeners[NET_LISTENERS_MAX] = {FAKE_LISTENER_HANDLE(0), -1};
    uint64_t until_us = rig.fake.now_us + us;
    while (rig.fake.now_us < until_us) {
        assert_true(loop_pass(&rig.loop, &orders, listeners));
    }
    sched_report(&rig.loop.sched);
    loop_health(&rig.loop, &orders, health);
}

static void test_health_is_ready_while_there_is_nothing_to_do(void **state)
{
    struct health health;
    start(3);
    wait_us(5000000, &health);
    assert_int_equal(health.state, HEALTH_READY);
    assert_true(health.moves);
}

static void test_health_leaves_ready_when_calls_wait_and_no_plan_comes(void **state)
{
    struct health health;
    start(4);
    rig.loop.sched.settings.batch_calls = 0;        /* a scheduler that chooses no call */
    client_connect(&rig.clients[0]);
    for (uint32_t i = 0; i < 200 && rig.clients[0].sent == 0; i++) {
        wait_us(1000, &health);
        client_move(&rig.clients[0]);
    }
    client_move(&rig.clients[0]);
    wait_us(5000000, &health);
    assert_int_equal(health.state, HEALTH_DEGRADED);
    assert_string_equal(health.reason, "no progress");
    assert_false(health.moves);
}

/* The worker sleeps, too: a question from time to time is all that its heart beats for. */
static void test_a_quiet_loop_sleeps_and_stays_ready(void **state)
{
    struct health health;
    start_quiet(8);
    uint64_t beats = rig.fake.engine_beats;
    assert_in_range(idle(100000000), 48, 52);
    loop_health(&rig.loop, &sleepy, &health);
    assert_int_equal(health.state, HEALTH_READY);
    assert_in_range(rig.fake.engine_beats - beats, 48, 52);
}

static void test_a_quiet_loop_notes_that_the_heart_has_stopped(void **state)
{
    struct health health;
    start_quiet(8);
    idle(10000000);
    rig.fake.world.engine_heartbeat = stopped_heart;
    assert_true(pass(&sleepy));                     /* 7 is another number, for once */
    assert_in_range(idle(100000000), 1, 2);         /* a question; its time is over */
    loop_health(&rig.loop, &sleepy, &health);
    assert_string_equal(health.reason, "engine silent");
    assert_false(health.moves);
}

static void test_a_loop_with_a_call_does_not_sleep(void **state)
{
    start_quiet(10);
    client_connect(&rig.clients[0]);
    for (uint32_t i = 0; i < 1000 && rig.loop.sched.open_calls == 0; i++) {
        assert_true(pass(&sleepy));
        client_move(&rig.clients[0]);
    }
    assert_false(loop_is_quiet(&rig.loop));
    for (uint32_t i = 0; i < PASSES_MAX && rig.clients[0].done < CALLS_EACH; i++) {
        assert_true(pass(&sleepy));
        client_move(&rig.clients[0]);
    }
    assert_int_equal(rig.clients[0].done, CALLS_EACH);
    assert_in_range(idle(100000000), 48, 75);       /* at first, kept KV is forgotten */
}

static void test_health_leaves_ready_when_the_heart_stops(void **state)
{
    struct health health;
    start(5);
    wait_us(100000, &health);
    assert_int_equal(health.state, HEALTH_READY);
    rig.fake.world.engine_heartbeat = stopped_heart;
    wait_us(2000000, &health);
    assert_int_equal(health.state, HEALTH_DEGRADED);
    assert_string_equal(health.reason, "engine silent");
    assert_false(health.moves);
}

/* A wild write has put back what it had said. */
static void test_health_comes_back_when_an_answer_was_overwritten(void **state)
{
    struct health health;
    start(6);
    wait_us(100000, &health);
    uint64_t (*heart)(void *self, uint32_t engine) = rig.fake.world.engine_heartbeat;
    rig.fake.world.engine_heartbeat = stopped_heart;
    wait_us(3000000, &health);
    assert_string_equal(health.reason, "engine silent");
    rig.fake.world.engine_heartbeat = heart;
    rig.fake.engine_beats = 7;                      /* as the stopped one said */
    wait_us(1000000, &health);
    assert_int_equal(health.state, HEALTH_READY);
}

/* The worker's heart beat on while the core was away. */
static void test_an_engine_serves_on_when_the_core_was_late(void **state)
{
    const struct loop_orders orders = {.load_permille = 1000};
    struct health health;
    start(6);
    wait_us(1000000, &health);
    assert_true(rig.loop.sched.engines[0].serves);
    rig.fake.now_us += 1700000;                     /* more than silence, less than a gap */
    assert_true(pass(&orders));
    assert_true(rig.loop.sched.engines[0].serves);
}

/* The machine stands still, and all that is on it: a step gets no further. */
static void stand_still(uint64_t us)
{
    rig.fake.now_us += us;
    rig.fake.engine_due_us += rig.fake.engine_in_flight ? us : 0;
}

static void test_a_machine_that_stood_still_has_no_silent_engine(void **state)
{
    const struct loop_orders orders = {.load_permille = 1000};
    struct health health;
    start(6);
    rig.fake.world.engine_heartbeat = stopped_heart;
    wait_us(1000000, &health);                      /* it has been asked, and has not answered */
    stand_still(1900000);                           /* less than a gap */
    assert_true(pass(&orders));
    assert_true(rig.loop.sched.engines[0].serves);
    loop_health(&rig.loop, &orders, &health);
    assert_int_equal(health.state, HEALTH_READY);
    wait_us(2000000, &health);                      /* and still no beat: it has stopped */
    assert_string_equal(health.reason, "engine silent");
}

/* Twice in a step, and each time for longer than a step may take. */
static void test_a_machine_that_stood_still_has_no_late_step(void **state)
{
    const struct loop_orders orders = {.load_permille = 1000};
    start(2);
    rig.loop.engines[0].pace.hang_us = 1000000;
    client_connect(&rig.clients[0]);
    for (uint32_t i = 0; i < PASSES_MAX && rig.clients[0].done < CALLS_EACH; i++) {
        bool runs = rig.loop.sched.engines[0].step_in_flight;
        stand_still(runs && i % 8 < 2 ? 1900000 : 0);
        assert_true(pass(&orders));
        client_move(&rig.clients[0]);
    }
    assert_int_equal(rig.clients[0].done, CALLS_EACH);
    assert_int_equal(rig.fake.engine_condemned, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_end_with_the_right_tokens),
        cmocka_unit_test(test_short_transfers_and_eagain_change_nothing),
        cmocka_unit_test(test_dying_workers_cost_no_token),
        cmocka_unit_test(test_resets_give_everything_back_and_hurt_no_others),
        cmocka_unit_test(test_drain_ends_after_the_last_call),
        cmocka_unit_test(test_yield_waits_for_connections_that_open),
        cmocka_unit_test(test_what_the_keeper_wants_is_not_slept_over),
        cmocka_unit_test(test_an_idle_loop_forgets_what_was_kept_long_enough),
        cmocka_unit_test(test_a_gap_in_time_expires_nothing),
        cmocka_unit_test(test_health_is_ready_while_there_is_nothing_to_do),
        cmocka_unit_test(test_health_leaves_ready_when_calls_wait_and_no_plan_comes),
        cmocka_unit_test(test_a_quiet_loop_sleeps_and_stays_ready),
        cmocka_unit_test(test_a_quiet_loop_notes_that_the_heart_has_stopped),
        cmocka_unit_test(test_a_loop_with_a_call_does_not_sleep),
        cmocka_unit_test(test_health_leaves_ready_when_the_heart_stops),
        cmocka_unit_test(test_health_comes_back_when_an_answer_was_overwritten),
        cmocka_unit_test(test_an_engine_serves_on_when_the_core_was_late),
        cmocka_unit_test(test_a_machine_that_stood_still_has_no_silent_engine),
        cmocka_unit_test(test_a_machine_that_stood_still_has_no_late_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
