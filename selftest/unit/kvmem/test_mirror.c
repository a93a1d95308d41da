/* SPDX-License-Identifier: MIT */
/*
 * Goal: a full block that has come in from the host leaves its bytes there and needs no move to go
 * out again; a mirror is in no content's way; it is gone as soon as it would be wrong.
 * Method: a device of three blocks and a host, told by the moves of each step.
 */
#include "selftest/unit/kvmem/rig.h"

enum { SMALL = 3 };

/* Another call needs the whole device, and goes. Returns how many moves that took. */
static uint32_t crowd_out(struct rig *rig)
{
    rig_fill(rig, 0, 900, SMALL * BLOCK_TOKENS);
    uint32_t moves = rig_step(rig);
    rig_drop(rig, 0);
    return moves;
}

/* A call has left `positions`, and they are on the host. */
static struct rig *fresh_on_the_host(uint32_t host, uint32_t positions)
{
    struct rig *rig = rig_fresh(SMALL, host);
    rig_leave(rig, 1, positions, saved(1));
    assert_int_equal(crowd_out(rig), kvmem_blocks_ceil(positions, BLOCK_TOKENS));
    return rig;
}

/* A call takes what is there, `positions`, and leaves it. Returns how many moves that took. */
static uint32_t visit(struct rig *rig, uint32_t positions, uint64_t now_us)
{
    const uint32_t *tokens = rig_tokens(1);
    assert_int_equal(rig_take(rig, 1, tokens, positions + 1), positions);
    uint32_t moves = rig_step(rig);
    rig_keep(rig, 1, tokens, positions, saved(now_us));
    return moves;
}

static void test_full_block_that_came_in_goes_out_without_a_move(void **state)
{
    (void)state;
    struct rig *rig = fresh_on_the_host(HOST, 8);
    for (uint32_t round = 1; round <= 3; round++) {
        assert_int_equal(visit(rig, 8, 1 + round), 2);
        assert_int_equal(kvmem_host_mirrors(&rig->kv), 2);
        assert_int_equal(kvmem_host_used(&rig->kv), 0);
        assert_int_equal(crowd_out(rig), 0);
        assert_int_equal(kvmem_host_mirrors(&rig->kv), 0);
        assert_int_equal(kvmem_host_used(&rig->kv), 2);
        assert_int_equal(rig->kv.counters.returned_blocks, 2 * round);
    }
    assert_int_equal(rig->kv.counters.out_blocks, 2);
    assert_int_equal(rig->kv.counters.in_blocks, 6);
    assert_int_equal(rig->kv.counters.dropped_blocks, 0);
}

/* A call goes on writing in it. */
static void test_partial_block_has_no_mirror(void **state)
{
    (void)state;
    struct rig *rig = fresh_on_the_host(HOST, 7);
    assert_int_equal(visit(rig, 7, 2), 2);
    assert_int_equal(kvmem_host_mirrors(&rig->kv), 1);
    assert_int_equal(kvmem_host_used(&rig->kv), 0);
    assert_int_equal(crowd_out(rig), 1);
    assert_int_equal(visit(rig, 7, 3), 2);
}

/* Whatever its rank; the content that lost it moves again. */
static void test_mirror_makes_room_before_any_content_does(void **state)
{
    (void)state;
    struct rig *rig = fresh_on_the_host(2, 4);
    rig_leave(rig, 300, 4, retained(2));
    assert_int_equal(crowd_out(rig), 1);                    /* the host is full */
    const uint32_t *tokens = rig_tokens(1);
    assert_int_equal(rig_take(rig, 1, tokens, 5), 4);
    assert_int_equal(rig_step(rig), 1);
    rig_leave(rig, 600, 4, retained(3));
    rig_fill(rig, 0, 900, 8);
    assert_int_equal(rig_step(rig), 1);                     /* in place of the mirror */
    assert_int_equal(kvmem_host_mirrors(&rig->kv), 0);
    assert_int_equal(rig->kv.counters.dropped_blocks, 0);
    rig_drop(rig, 0);
    assert_int_equal(rig_found(rig, 300, 5), 4);
    assert_int_equal(rig_found(rig, 600, 5), 4);
    rig_keep(rig, 1, tokens, 4, saved(4));
    assert_int_equal(crowd_out(rig), 1);                    /* in place of the oldest content */
    assert_int_equal(rig_found(rig, 1, 5), 4);
    assert_int_equal(rig_found(rig, 300, 5), 0);
}

static void test_oldest_mirror_is_given_up_first(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(SMALL, 2);
    for (uint32_t first = 100; first <= 200; first += 100) {
        rig_leave(rig, first, 4, saved(first));
    }
    assert_int_equal(crowd_out(rig), 2);
    for (uint32_t call = 1; call <= 2; call++) {
        assert_int_equal(rig_take(rig, call, rig_tokens(100 * call), 5), 4);
        rig_step(rig);
    }
    rig_leave(rig, 300, 4, saved(300));
    rig_fill(rig, 0, 900, 4);
    assert_int_equal(rig_step(rig), 1);
    assert_int_equal(rig->kv.blocks[rig_block(rig, 1, 0)].mirror, KVMEM_BLOCK_NONE);
    assert_int_not_equal(rig->kv.blocks[rig_block(rig, 2, 0)].mirror, KVMEM_BLOCK_NONE);
}

/* The call ends with its numbers wrong, or no call will ask for them: before its step, or after. */
static void test_what_is_forgotten_is_forgotten_with_its_mirror(void **state)
{
    (void)state;
    for (uint32_t how = 0; how < 4; how++) {
        struct rig *rig = fresh_on_the_host(HOST, 8);
        const uint32_t *tokens = rig_tokens(1);
        assert_int_equal(rig_take(rig, 1, tokens, 9), 8);
        if (how % 2 == 0) {
            rig_step(rig);
        }
        if (how < 2) {
            rig_drop(rig, 1);
        } else {
            rig_keep(rig, 1, tokens, 8, saved(2));
            struct kvmem_answer answer = rig_ask(rig, 1, tokens, 9);
            kvmem_forget(&rig->kv, &answer);
            kvmem_check(&rig->kv);
        }
        assert_int_equal(kvmem_free(&rig->kv), SMALL);
        assert_int_equal(rig_step(rig), 0);                 /* the moves are void */
        assert_int_equal(kvmem_host_mirrors(&rig->kv) + kvmem_host_used(&rig->kv), 0);
        assert_int_equal(rig_found(rig, 1, 9), 0);
        assert_int_equal(crowd_out(rig), 0);
    }
}

/* It came in with a plan whose step never was: nothing moves, either way. */
static void test_what_is_to_come_in_goes_back_to_its_mirror(void **state)
{
    (void)state;
    struct rig *rig = fresh_on_the_host(HOST, 8);
    const uint32_t *tokens = rig_tokens(1);
    assert_int_equal(rig_take(rig, 1, tokens, 9), 8);
    rig_keep(rig, 1, tokens, 8, saved(2));
    assert_int_equal(crowd_out(rig), 0);
    assert_int_equal(kvmem_host_used(&rig->kv), 2);
    assert_int_equal(rig->kv.counters.returned_blocks, 0);
    assert_int_equal(visit(rig, 8, 3), 2);
}

/* Contents that went back to their mirrors are there in the same plan: nothing is on its way. */
static void test_what_went_back_to_its_mirror_is_found_at_once(void **state)
{
    (void)state;
    struct rig *rig = fresh_on_the_host(HOST, 8);
    visit(rig, 8, 2);
    rig_fill(rig, 0, 900, SMALL * BLOCK_TOKENS);
    assert_int_equal(rig_found(rig, 1, 9), 8);
    assert_int_equal(rig_step(rig), 0);
}

/* However old: no call has to wait for it. */
static void test_old_content_with_a_mirror_is_kept(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(SMALL, HOST);
    const uint32_t *tokens = rig_tokens(1);
    rig_leave(rig, 1, 8, retained(SECOND));
    crowd_out(rig);
    rig_take(rig, 1, tokens, 9);
    rig_step(rig);
    rig_keep(rig, 1, tokens, 8, retained(2 * SECOND));
    kvmem_expire(&rig->kv, 150 * SECOND, false);
    assert_int_equal(crowd_out(rig), 0);
    assert_int_equal(kvmem_host_used(&rig->kv), 2);
    kvmem_expire(&rig->kv, 1002 * (uint64_t)SECOND, false);
    kvmem_check(&rig->kv);
    assert_int_equal(kvmem_host_used(&rig->kv), 0);
}

static void test_lost_engine_takes_mirrors_along(void **state)
{
    (void)state;
    struct rig *rig = fresh_on_the_host(HOST, 8);
    visit(rig, 8, 2);
    kvmem_lost(&rig->kv);
    kvmem_check(&rig->kv);
    assert_int_equal(kvmem_host_mirrors(&rig->kv), 0);
    assert_int_equal(rig_step(rig), 0);
}

static void test_check_sees_a_wrong_mirror(void **state)
{
    (void)state;
    struct rig *rig = fresh_on_the_host(HOST, 8);
    rig_take(rig, 1, rig_tokens(1), 9);
    rig_step(rig);
    uint32_t *mirror = &rig->kv.blocks[rig_block(rig, 1, 0)].mirror;
    uint32_t right = *mirror;
    *mirror = rig->kv.blocks[rig_block(rig, 1, 1)].mirror;
    expect_assert_failure(kvmem_check(&rig->kv));
    *mirror = KVMEM_BLOCK_NONE;
    expect_assert_failure(kvmem_check(&rig->kv));
    *mirror = right;
    kvmem_check(&rig->kv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_block_that_came_in_goes_out_without_a_move),
        cmocka_unit_test(test_partial_block_has_no_mirror),
        cmocka_unit_test(test_mirror_makes_room_before_any_content_does),
        cmocka_unit_test(test_oldest_mirror_is_given_up_first),
        cmocka_unit_test(test_what_is_forgotten_is_forgotten_with_its_mirror),
        cmocka_unit_test(test_what_is_to_come_in_goes_back_to_its_mirror),
        cmocka_unit_test(test_what_went_back_to_its_mirror_is_found_at_once),
        cmocka_unit_test(test_old_content_with_a_mirror_is_kept),
        cmocka_unit_test(test_lost_engine_takes_mirrors_along),
        cmocka_unit_test(test_check_sees_a_wrong_mirror),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
