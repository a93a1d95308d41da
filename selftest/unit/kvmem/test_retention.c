/* SPDX-License-Identifier: MIT */
/*
 * Goal: contents leave the device and are forgotten at their deadlines, a bounded number at a time.
 * Method: one content, a clock that the test turns, both sides of each deadline.
 */
#include "selftest/unit/kvmem/rig.h"

#define START UINT64_C(5000000)

static uint32_t expire(struct rig *rig, uint64_t now_us, bool step_follows)
{
    kvmem_expire(&rig->kv, now_us, step_follows);
    kvmem_check(&rig->kv);
    return rig_step(rig);
}

static void test_retained_content_moves_out_at_the_device_deadline(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    rig_leave(rig, 1, 10, retained(START));
    assert_int_equal(expire(rig, START + 10 * SECOND - 1, true), 0);
    assert_int_equal(expire(rig, START + 10 * SECOND, false), 0);   /* no step to travel with */
    assert_int_equal(kvmem_host_used(&rig->kv), 0);
    assert_int_equal(expire(rig, START + 10 * SECOND, true), 3);
    assert_int_equal(kvmem_host_used(&rig->kv), 3);
    assert_int_equal(kvmem_free(&rig->kv), DEVICE);
    assert_int_equal(rig_found(rig, 1, 11), 10);
}

static void test_saved_content_stays_on_the_device(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    rig_leave(rig, 1, 10, saved(START));
    assert_int_equal(expire(rig, START + 100 * SECOND, true), 0);
    assert_int_equal(kvmem_free(&rig->kv), DEVICE - 3);
}

static void test_every_content_is_forgotten_in_the_end(void **state)
{
    (void)state;
    uint64_t last_us = START + 1000 * (uint64_t)SECOND;     /* longer than KVMEM_SAVED_US */
    for (uint32_t on_host = 0; on_host < 2; on_host++) {
        for (uint32_t holder = HOLDER_IDLE; holder <= HOLDER_WANTED; holder++) {
            struct rig *rig = rig_fresh(BLOCKS_PER_CALL, HOST);
            rig_leave(rig, 1, 10, (struct kvmem_use){holder, true, START});
            if (on_host) {
                rig_run(rig, 0, rig_tokens(500), 24);
                rig_drop(rig, 0);
                assert_int_equal(kvmem_host_used(&rig->kv), 3);
            }
            assert_int_equal(kvmem_next_us(&rig->kv), last_us);
            expire(rig, last_us - 1, false);
            assert_int_equal(kvmem_next_us(&rig->kv), last_us);
            expire(rig, last_us, false);
            assert_int_equal(kvmem_next_us(&rig->kv), UINT64_MAX);
            assert_int_equal(kvmem_free(&rig->kv), BLOCKS_PER_CALL);
            assert_int_equal(kvmem_host_used(&rig->kv), 0);
            assert_int_equal(rig->kv.counters.dropped_blocks, 3);
        }
    }
}

static void test_saved_content_outlives_a_short_retention(void **state)
{
    (void)state;
    struct kvmem_settings settings = rig_settings(DEVICE, HOST);
    settings.retain_device_us = settings.retain_host_us = settings.retain_drop_us = 0;
    struct rig *rig = rig_start(&settings);
    rig_leave(rig, 1, 10, retained(START));           /* at once */
    assert_int_equal(kvmem_free(&rig->kv), DEVICE);
    assert_int_equal(rig_take(rig, 0, rig_tokens(1), 24), 0);
    rig_drop(rig, 0);
    rig_leave(rig, 1, 10, saved(START));
    assert_int_equal(kvmem_next_us(&rig->kv), START + KVMEM_SAVED_US);
    expire(rig, START + KVMEM_SAVED_US - 1, true);
    assert_int_equal(rig_take(rig, 0, rig_tokens(1), 24), 10);
}

static void test_without_a_host_contents_stay_until_they_are_forgotten(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, 0);
    rig_leave(rig, 1, 10, retained(START));
    expire(rig, START + 999 * (uint64_t)SECOND, true);
    assert_int_equal(rig_take(rig, 0, rig_tokens(1), 24), 10);
}

static void test_no_call_waits_for_the_move_of_an_old_content(void **state)
{
    (void)state;
    for (uint32_t old = 0; old < 2; old++) {
        struct rig *rig = rig_fresh(BLOCKS_PER_CALL, HOST);
        rig_leave(rig, 1, 10, retained(START));
        expire(rig, START + 100 * SECOND - 1 + old, false);
        rig_grow(rig, 0, 24);
        assert_int_equal(rig_step(rig), old ? 0 : 3);
        assert_int_equal(rig->kv.counters.dropped_blocks, old ? 3 : 0);
    }
}

static void test_use_makes_a_content_young(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    rig_leave(rig, 1, 10, retained(START));
    const uint32_t *tokens = rig_tokens(1);
    assert_int_equal(rig_take(rig, 0, tokens, 24), 10);
    assert_int_equal(kvmem_next_us(&rig->kv), UINT64_MAX);
    rig_keep(rig, 0, tokens, 10, retained(START + 500 * (uint64_t)SECOND));
    assert_int_equal(kvmem_next_us(&rig->kv), START + 1500 * (uint64_t)SECOND);
}

static void test_expire_does_a_bounded_number(void **state)
{
    (void)state;
    enum { BLOCKS = 2 * KVMEM_EXPIRE_MAX };
    struct rig *rig = rig_fresh(BLOCKS, BLOCKS);
    for (uint32_t i = 0; i < BLOCKS / BLOCKS_PER_CALL; i++) {
        rig_leave(rig, 100 * (i + 1), 24, retained(START));
    }
    uint32_t cached = BLOCKS - kvmem_free(&rig->kv);
    assert_true(cached > KVMEM_EXPIRE_MAX);
    assert_int_equal(expire(rig, START + 20 * SECOND, true), KVMEM_EXPIRE_MAX);
    assert_int_equal(expire(rig, START + 20 * SECOND, true), cached - KVMEM_EXPIRE_MAX);
    assert_int_equal(kvmem_host_used(&rig->kv), cached);
    uint64_t last_us = START + 1000 * (uint64_t)SECOND;
    expire(rig, last_us, false);
    assert_int_equal(kvmem_host_used(&rig->kv), cached - KVMEM_EXPIRE_MAX);
    assert_int_equal(kvmem_next_us(&rig->kv), last_us);
    expire(rig, last_us, false);
    assert_int_equal(kvmem_host_used(&rig->kv), 0);
}

/* It came in with a plan whose step never was; no call has asked for it since, for as long as the
 * deadline is. It is not full, so a move would bring it back; that is void, and the host's block is
 * free. */
static void test_an_old_content_that_is_to_come_in_is_forgotten_with_its_move(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(2, HOST);
    const uint32_t *tokens = rig_tokens(100);
    rig_leave(rig, 100, 3, retained(0));
    rig_grow(rig, 0, 8);                     /* it goes to the host */
    assert_int_equal(rig_step(rig), 1);
    rig_drop(rig, 0);
    assert_int_equal(rig_take(rig, 1, tokens, 8), 3);
    rig_keep(rig, 1, tokens, 3, retained(SECOND));
    kvmem_expire(&rig->kv, 101 * SECOND, false);
    kvmem_check(&rig->kv);
    uint64_t dropped = rig->kv.counters.dropped_blocks;
    rig_grow(rig, 2, 8);
    assert_int_equal(rig->kv.counters.dropped_blocks, dropped + 1);
    assert_int_equal(kvmem_host_used(&rig->kv), 0);
    assert_int_equal(rig_step(rig), 0);
    rig_drop(rig, 2);
    assert_int_equal(rig_found(rig, 100, 8), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_retained_content_moves_out_at_the_device_deadline),
        cmocka_unit_test(test_saved_content_stays_on_the_device),
        cmocka_unit_test(test_every_content_is_forgotten_in_the_end),
        cmocka_unit_test(test_saved_content_outlives_a_short_retention),
        cmocka_unit_test(test_without_a_host_contents_stay_until_they_are_forgotten),
        cmocka_unit_test(test_no_call_waits_for_the_move_of_an_old_content),
        cmocka_unit_test(test_use_makes_a_content_young),
        cmocka_unit_test(test_expire_does_a_bounded_number),
        cmocka_unit_test(test_an_old_content_that_is_to_come_in_is_forgotten_with_its_move),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
