/* SPDX-License-Identifier: MIT */
/*
 * Goal: which content has to go, in which order and where to, and which bytes move for it.
 * Method: tiers of a few blocks; what is left is told by what a call still finds.
 */
#include "selftest/unit/kvmem/rig.h"

static const struct step_move *find_move(const struct rig *rig, uint32_t from)
{
    for (uint32_t i = 0; i < step_header(&rig->step)->moves_count; i++) {
        if (step_moves(&rig->step)[i].from == from) {
            return &step_moves(&rig->step)[i];
        }
    }
    return NULL;
}

static void test_free_blocks_go_first(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(4, 4);
    rig_leave(rig, 1, 8, retained(1));
    rig_grow(rig, 0, 8);
    assert_int_equal(rig_step(rig), 0);
    assert_int_equal(kvmem_free(&rig->kv), 0);
    assert_int_equal(kvmem_available(&rig->kv), 2);
}

static void test_ends_leave_before_beginnings(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(4, 0);
    rig_leave(rig, 1, 14, retained(1));
    rig_run(rig, 0, rig_tokens(50), 8);
    assert_int_equal(rig->kv.counters.dropped_blocks, 2);
    assert_int_equal(rig_found(rig, 1, 20), 8);
}

static void test_retained_leaves_before_saved_and_old_before_young(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(5, 0);
    const uint32_t goes[] = {200, 400, 100, 300};
    rig_leave(rig, 100, 4, saved(1));
    rig_leave(rig, 200, 4, retained(2));
    rig_leave(rig, 300, 4, saved(3));
    rig_leave(rig, 400, 4, retained(4));
    for (uint32_t i = 0; i < 4; i++) {
        rig_grow(rig, 0, 8 + i * 4);
        for (uint32_t j = 0; j < 4; j++) {
            assert_int_equal(rig_found(rig, goes[j], 5), j <= i ? 0 : 4);
        }
    }
}

static void test_evicted_content_moves_to_the_host_and_back(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(6, 4);
    const uint32_t *tokens = rig_tokens(1);
    rig_run(rig, 0, tokens, 10);
    uint32_t blocks[3] = {rig_block(rig, 0, 0), rig_block(rig, 0, 1), rig_block(rig, 0, 2)};
    rig_keep(rig, 0, tokens, 10, saved(1));
    rig_grow(rig, 1, 24);
    assert_int_equal(rig_step(rig), 3);
    for (uint32_t i = 0; i < 3; i++) {
        const struct step_move *move = find_move(rig, blocks[i]);
        assert_non_null(move);
        assert_true(move->to >= 6);
        blocks[i] = move->to;
    }
    assert_int_equal(kvmem_host_used(&rig->kv), 3);
    rig_drop(rig, 1);
    assert_int_equal(rig_take(rig, 2, tokens, 20), 10);
    rig_grow(rig, 2, 11);
    assert_int_equal(kvmem_host_used(&rig->kv), 3);         /* until the step has read them */
    rig_bind(rig);
    for (uint32_t i = 0; i < 3; i++) {
        const struct step_move *move = find_move(rig, blocks[i]);
        assert_non_null(move);
        assert_int_equal(move->to, rig_block(rig, 2, i));
    }
    kvmem_moved(&rig->kv);
    kvmem_check(&rig->kv);
    assert_int_equal(kvmem_host_used(&rig->kv), 0);
    assert_int_equal(rig->kv.counters.out_blocks, 3);
    assert_int_equal(rig->kv.counters.in_blocks, 3);
    assert_int_equal(rig->kv.counters.out_moves, 1);
    assert_int_equal(rig->kv.counters.in_moves, 1);
    assert_int_equal(rig->kv.blocks[rig_block(rig, 2, 1)].state, KVMEM_SHARED);
    assert_int_equal(rig->kv.blocks[rig_block(rig, 2, 2)].state, KVMEM_PRIVATE);
}

static void test_one_step_swaps_both_ways(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(3, 6);
    rig_leave(rig, 1, 12, saved(1));
    rig_leave(rig, 50, 12, saved(2));
    assert_int_equal(rig_found(rig, 1, 13), 12);
    struct kvmem_answer answer = rig_ask(rig, 0, rig_tokens(1), 9);
    assert_int_equal(answer.positions, 8);
    rig_commit(rig, &answer, 9);
    rig_bind(rig);
    assert_int_equal(step_header(&rig->step)->moves_count, 5);      /* three out, two in */
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(step_moves(&rig->step)[i].from < 3, i < 3);    /* out first */
    }
    kvmem_moved(&rig->kv);
    kvmem_check(&rig->kv);
}

static void test_host_room_for_lower_ranks_only_when_free(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(4, 2);
    rig_leave(rig, 100, 8, saved(1));
    rig_run(rig, 0, rig_tokens(500), 16);           /* SAVED fills the host */
    rig_drop(rig, 0);
    rig_leave(rig, 200, 8, retained(2));
    rig_run(rig, 0, rig_tokens(500), 16);           /* RETAINED finds no room */
    rig_drop(rig, 0);
    assert_int_equal(rig_found(rig, 200, 9), 0);
    assert_int_equal(rig_found(rig, 100, 9), 8);
}

static void test_host_prefers_saved_and_the_younger(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(4, 2);
    rig_leave(rig, 100, 8, retained(1));
    rig_run(rig, 0, rig_tokens(500), 16);
    rig_drop(rig, 0);
    rig_leave(rig, 200, 4, retained(2));      /* younger: displaces the end of the first */
    rig_run(rig, 0, rig_tokens(500), 16);
    rig_drop(rig, 0);
    assert_int_equal(kvmem_host_used(&rig->kv), 2);
    rig_leave(rig, 300, 4, saved(2));         /* better: displaces the rest of it */
    rig_run(rig, 0, rig_tokens(500), 16);
    rig_drop(rig, 0);
    assert_int_equal(rig_found(rig, 100, 9), 0);
    assert_int_equal(rig_found(rig, 200, 5), 4);
    assert_int_equal(rig_found(rig, 300, 5), 4);
    assert_int_equal(rig->kv.counters.dropped_blocks, 2);
}

static void test_answer_ends_before_what_this_step_moves_out(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(6, 4);
    rig_leave(rig, 1, 12, saved(1));
    rig_grow(rig, 0, 20);
    assert_int_equal(rig_found(rig, 1, 24), 4);
    rig_step(rig);
    assert_int_equal(rig_found(rig, 1, 24), 12);
}

static void test_evicting_what_is_to_come_in_leaves_it_on_the_host(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(6, 4);
    const uint32_t *tokens = rig_tokens(1);
    rig_leave(rig, 1, 10, saved(1));
    rig_run(rig, 0, rig_tokens(500), 24);
    rig_drop(rig, 0);
    assert_int_equal(rig_take(rig, 0, tokens, 11), 10);
    rig_grow(rig, 0, 11);
    rig_keep(rig, 0, tokens, 10, saved(2));           /* in the same plan: no */
    rig_grow(rig, 1, 24);
    assert_int_equal(rig_step(rig), 0);
    assert_int_equal(kvmem_host_used(&rig->kv), 3);
    rig_drop(rig, 1);
    assert_int_equal(rig_found(rig, 1, 11), 10);
}

static void test_dropping_what_is_to_come_in_voids_the_move(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(3, 4);
    rig_leave(rig, 1, 8, saved(1));
    rig_run(rig, 0, rig_tokens(500), 12);
    rig_drop(rig, 0);
    rig_take(rig, 0, rig_tokens(1), 9);
    rig_drop(rig, 0);
    rig_grow(rig, 1, 4);                                 /* takes a target of one of them */
    assert_int_equal(rig->kv.moves_count, 1);
    assert_int_equal(rig_step(rig), 0);                     /* no call needs the other one */
    assert_int_equal(kvmem_host_used(&rig->kv), 0);
}

static void test_evicting_on_the_host_what_is_to_come_out_retargets(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(2, 1);
    rig_leave(rig, 100, 4, saved(1));
    rig_leave(rig, 200, 4, saved(2));
    rig_grow(rig, 0, 8);
    rig_bind(rig);
    assert_int_equal(step_header(&rig->step)->moves_count, 1);      /* the younger one */
    assert_int_equal(step_moves(&rig->step)[0].from, rig_block(rig, 0, 1));
    kvmem_moved(&rig->kv);
    rig_drop(rig, 0);
    assert_int_equal(rig_found(rig, 100, 5), 0);
    assert_int_equal(rig_found(rig, 200, 5), 4);
}

static void test_drop_while_the_step_runs_frees_for_the_next(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(4, 4);
    rig_leave(rig, 1, 16, saved(1));
    rig_run(rig, 0, rig_tokens(500), 16);
    rig_drop(rig, 0);
    rig_take(rig, 0, rig_tokens(1), 16);
    rig_grow(rig, 0, 13);
    rig_bind(rig);
    assert_int_equal(step_header(&rig->step)->moves_count, 3);
    rig_drop(rig, 0);
    assert_int_equal(kvmem_free(&rig->kv), 4);
    kvmem_moved(&rig->kv);
    kvmem_check(&rig->kv);
    rig_run(rig, 1, rig_tokens(500), 16);
    assert_int_equal(rig->kv.counters.in_blocks, 3);
}

/* Nothing was bound: what is planned is not done. */
static void test_moves_of_a_step_that_is_not_bound_stay_planned(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(1, HOST);
    rig_leave(rig, 100, 4, retained(0));
    rig_grow(rig, 0, 4);
    kvmem_moved(&rig->kv);
    kvmem_check(&rig->kv);
    assert_int_equal(rig->kv.counters.out_blocks, 0);
    assert_int_equal(rig_step(rig), 1);
    assert_int_equal(rig->kv.counters.out_blocks, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_free_blocks_go_first),
        cmocka_unit_test(test_ends_leave_before_beginnings),
        cmocka_unit_test(test_retained_leaves_before_saved_and_old_before_young),
        cmocka_unit_test(test_evicted_content_moves_to_the_host_and_back),
        cmocka_unit_test(test_one_step_swaps_both_ways),
        cmocka_unit_test(test_host_room_for_lower_ranks_only_when_free),
        cmocka_unit_test(test_host_prefers_saved_and_the_younger),
        cmocka_unit_test(test_answer_ends_before_what_this_step_moves_out),
        cmocka_unit_test(test_evicting_what_is_to_come_in_leaves_it_on_the_host),
        cmocka_unit_test(test_dropping_what_is_to_come_in_voids_the_move),
        cmocka_unit_test(test_evicting_on_the_host_what_is_to_come_out_retargets),
        cmocka_unit_test(test_drop_while_the_step_runs_frees_for_the_next),
        cmocka_unit_test(test_moves_of_a_step_that_is_not_bound_stay_planned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
