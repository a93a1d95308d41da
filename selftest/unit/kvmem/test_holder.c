/* SPDX-License-Identifier: MIT */
/*
 * Goal: what is needed least makes room first, on both tiers; needs change, holders go.
 * Method: one block for each holder; what is left is told by what a call still finds.
 */
#include "selftest/unit/kvmem/rig.h"

static struct kvmem_use asked_by(uint32_t holder, uint64_t now_us)
{
    return (struct kvmem_use){holder, true, now_us};
}

/* Holders 1, 2 and 3 wait, in this order; each has left a block of its own, and so has idle 0. */
static struct rig *fresh_with_four(uint32_t host)
{
    struct rig *rig = rig_fresh(5, host);
    for (uint32_t holder = 1; holder < 4; holder++) {
        kvmem_need(&rig->kv, holder, KVMEM_WANTED + 10 - holder);
        rig_leave(rig, 100 * holder, 4, asked_by(holder, holder));
    }
    rig_leave(rig, 400, 4, retained(9));                /* the youngest */
    return rig;
}

/* Room is made for a block at a time: the contents go in this order. */
static void assert_order(struct rig *rig, const uint32_t *goes)
{
    for (uint32_t i = 0; i < 4; i++) {
        rig_grow(rig, 0, 8 + i * 4);
        rig_step(rig);
        for (uint32_t j = 0; j < 4; j++) {
            assert_int_equal(rig_found(rig, goes[j], 5), j <= i ? 0 : 4);
        }
    }
}

static void test_what_is_needed_last_goes_first(void **state)
{
    (void)state;
    assert_order(fresh_with_four(0), (const uint32_t[]){400, 300, 200, 100});
}

static void test_need_may_change(void **state)
{
    (void)state;
    struct rig *rig = fresh_with_four(0);
    kvmem_need(&rig->kv, 3, KVMEM_WANTED + 20);
    kvmem_need(&rig->kv, 1, 0);                         /* no call waits: the oldest of these */
    kvmem_check(&rig->kv);
    assert_int_equal(kvmem_spare(&rig->kv), 3);
    assert_order(rig, (const uint32_t[]){100, 400, 200, 300});
}

static void test_host_keeps_what_is_needed_more(void **state)
{
    (void)state;
    struct rig *rig = fresh_with_four(2);
    rig_grow(rig, 0, 20);                               /* all leave, the least needed first */
    rig_step(rig);
    assert_int_equal(kvmem_held(&rig->kv, 1).host, 1);
    assert_int_equal(kvmem_held(&rig->kv, 2).host, 1);
    rig_drop(rig, 0);
    rig_leave(rig, 500, 4, asked_by(3, 20));            /* younger, and needed less */
    rig_grow(rig, 0, 20);
    rig_step(rig);
    assert_int_equal(rig_found(rig, 500, 5), 0);
    assert_int_equal(kvmem_held(&rig->kv, 1).host + kvmem_held(&rig->kv, 2).host, 2);
}

/* What a waiting call did not ask for is not kept for it. */
static void test_only_what_was_asked_for_is_wanted(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(3, 0);
    rig_leave(rig, 100, 4, (struct kvmem_use){HOLDER_WANTED, false, 9});
    rig_leave(rig, 200, 4, saved(1));
    assert_int_equal(kvmem_held(&rig->kv, HOLDER_WANTED).device, 2);
    assert_int_equal(kvmem_spare(&rig->kv), 2);
    rig_grow(rig, 0, 8);
    assert_int_equal(rig_found(rig, 100, 5), 0);
    assert_int_equal(rig_found(rig, 200, 5), 4);
}

/* Its call had its turn and could not have it: the next call does not revive it. */
static void test_what_was_asked_for_in_vain_goes_first(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(3, 0);
    rig_leave(rig, 100, 4, retained(1));
    rig_leave(rig, 200, 4, saved(5));
    kvmem_need(&rig->kv, HOLDER_WANTED, 0);
    kvmem_need(&rig->kv, HOLDER_WANTED, KVMEM_WANTED);
    kvmem_check(&rig->kv);
    assert_int_equal(kvmem_spare(&rig->kv), 3);
    rig_leave(rig, 300, 4, (struct kvmem_use){HOLDER_WANTED, false, 6});
    rig_grow(rig, 0, 8);
    assert_int_equal(rig->kv.counters.dropped_blocks, 2);
    assert_int_equal(rig_found(rig, 300, 5), 4);
}

static void test_touch_of_one_that_needs_it_less_leaves_it_where_it_is(void **state)
{
    (void)state;
    struct rig *rig = fresh_with_four(0);
    struct kvmem_answer answer = rig_ask(rig, 0, rig_tokens(100), 5);
    kvmem_touch(&rig->kv, &answer, asked_by(2, 20));
    assert_int_equal(kvmem_held(&rig->kv, 1).device, 1);
    answer = rig_ask(rig, 0, rig_tokens(200), 5);
    kvmem_touch(&rig->kv, &answer, asked_by(1, 21));
    assert_int_equal(kvmem_held(&rig->kv, 1).device, 2);
    assert_int_equal(kvmem_held(&rig->kv, 2).device, 0);
    kvmem_check(&rig->kv);
}

static void test_contents_of_a_holder_that_is_gone_stay_only_where_others_find_them(void **state)
{
    (void)state;
    for (uint32_t others_find = 0; others_find < 2; others_find++) {
        struct rig *rig = fresh_with_four(0);
        kvmem_abandon(&rig->kv, 1, others_find == 1);
        kvmem_check(&rig->kv);
        assert_int_equal(kvmem_held(&rig->kv, 1).device, 0);
        assert_int_equal(rig_found(rig, 100, 5), others_find == 1 ? 4 : 0);
        assert_int_equal(kvmem_free(&rig->kv), others_find == 1 ? 1 : 2);
        assert_int_equal(rig->kv.counters.dropped_blocks, 0);
        if (others_find == 1) {
            assert_order(rig, (const uint32_t[]){100, 400, 300, 200});
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_needed_last_goes_first),
        cmocka_unit_test(test_need_may_change),
        cmocka_unit_test(test_host_keeps_what_is_needed_more),
        cmocka_unit_test(test_only_what_was_asked_for_is_wanted),
        cmocka_unit_test(test_what_was_asked_for_in_vain_goes_first),
        cmocka_unit_test(test_touch_of_one_that_needs_it_less_leaves_it_where_it_is),
        cmocka_unit_test(test_contents_of_a_holder_that_is_gone_stay_only_where_others_find_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
