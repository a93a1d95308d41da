/* SPDX-License-Identifier: MIT */
/*
 * Goal: a call that parts from a block in the middle begins its own with a copy of what they have
 * in common, whatever becomes of that block before the step; what cannot be copied is not found.
 * Method: each case by itself, told by what answers find and by the moves of the step. That every
 * position holds what it should is test_random.c's.
 */
#define TEST_ARENA_BYTES (64u << 10)

#include "selftest/unit/kvmem/rig.h"

#include <pthread.h>
#include <stdatomic.h>

/* The tokens of rig_tokens(1), but others from `first` on: these part from them there. */
static const uint32_t *branch(uint32_t first)
{
    static uint32_t runs[2][BLOCK_TOKENS * BLOCKS_PER_CALL];
    static uint32_t turn;
    uint32_t *tokens = runs[turn++ % 2];
    memcpy(tokens, rig_tokens(1), sizeof runs[0]);
    for (uint32_t i = first; i < BLOCK_TOKENS * BLOCKS_PER_CALL; i++) {
        tokens[i] += 1000 + 100 * turn;
    }
    return tokens;
}

/* Binds; the step has one copy, and it is this one. */
static void assert_copy(struct rig *rig, uint32_t from, uint32_t to)
{
    rig_bind(rig);
    assert_int_equal(step_header(&rig->step)->moves_count, 1);
    assert_int_equal(step_moves(&rig->step)[0].from, from);
    assert_int_equal(step_moves(&rig->step)[0].to, to);
}

/* What is there for call 1, whose tokens part from those of call 0 after seven. */
static struct kvmem_answer ask_branch(struct rig *rig, const uint32_t *tokens)
{
    rig_run(rig, 0, rig_tokens(1), 12);
    struct kvmem_answer answer = rig_ask(rig, 1, tokens, 12);
    assert_int_equal(answer.positions, 7);
    return answer;
}

static void test_branch_gets_a_copy_of_what_it_has_in_common(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    const uint32_t *tokens = branch(7);
    struct kvmem_answer answer = ask_branch(rig, tokens);
    assert_int_equal(answer.blocks, 1);
    assert_int_equal(kvmem_missing(&rig->kv, &answer, 7), 1);
    rig_commit(rig, &answer, 12);
    assert_int_equal(rig->kv.blocks[rig_block(rig, 1, 1)].state, KVMEM_PRIVATE);
    assert_copy(rig, rig_block(rig, 0, 1), rig_block(rig, 1, 1));
    kvmem_moved(&rig->kv);
    assert_int_equal(rig->kv.counters.copied_blocks, 1);
    rig_settle(rig, 1, tokens, 12);
    assert_int_equal(rig_take(rig, 2, rig_tokens(1), 13), 12);     /* what was there is there */
    assert_int_equal(rig_take(rig, 3, tokens, 13), 12);
}

static atomic_bool writes, has_begun;

static void *write_count(void *step)
{
    volatile uint32_t *count = &step_header(step)->moves_count;
    while (atomic_load(&writes)) {
        *count = UINT32_MAX;
        atomic_store(&has_begun, true);
    }
    return NULL;
}

/* The record is shared: what others write to it meanwhile is no place of a move. */
static void test_moves_are_written_where_they_belong_whatever_the_record_says(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 200; round++) {
        struct rig *rig = rig_fresh(DEVICE, HOST);
        struct kvmem_answer answer = ask_branch(rig, branch(7));
        rig_commit(rig, &answer, 12);
        pthread_t writer;
        atomic_store(&writes, true);
        atomic_store(&has_begun, false);
        assert_int_equal(pthread_create(&writer, NULL, write_count, &rig->step), 0);
        while (!atomic_load(&has_begun)) {
        }
        rig_bind(rig);
        atomic_store(&writes, false);
        pthread_join(writer, NULL);
        assert_int_equal(step_moves(&rig->step)[0].to, rig_block(rig, 1, 1));
    }
}

static void test_same_prompt_computes_its_last_token_only(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    for (uint32_t prompt = 6; prompt <= 8; prompt++) {  /* and one more that it decodes */
        rig_run(rig, 0, rig_tokens(1), prompt + 1);
        rig_keep(rig, 0, rig_tokens(1), prompt + 1, retained(1));
        assert_int_equal(rig_ask(rig, 1, branch(prompt), prompt).positions, prompt - 1);
    }
}

/* The first branch takes the partial block over; it still begins with what it was. */
static void test_second_branch_of_a_history_copies_what_the_first_took_over(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    const uint32_t *first = branch(7), *second = branch(7);
    rig_leave(rig, 1, 7, retained(1));
    assert_int_equal(rig_take(rig, 0, first, 12), 7);
    rig_grow(rig, 0, 12);
    assert_int_equal(rig_take(rig, 1, second, 12), 7);
    rig_grow(rig, 1, 12);
    assert_copy(rig, rig_block(rig, 0, 1), rig_block(rig, 1, 1));
    kvmem_moved(&rig->kv);
    assert_int_equal(rig_take(rig, 2, branch(6), 12), 6);          /* and in the next step */
    rig_drop(rig, 2);
    rig_settle(rig, 0, first, 10);
    rig_drop(rig, 0);                                               /* handed out again: gone */
    rig_fill(rig, 0, 500, 12);
    assert_int_equal(rig_take(rig, 2, branch(6), 12), 4);
}

static void test_copy_that_is_not_committed_moves_nothing(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    const uint32_t *tokens = branch(7);
    struct kvmem_answer answer = ask_branch(rig, tokens);
    kvmem_touch(&rig->kv, &answer, saved(1));
    kvmem_check(&rig->kv);
    assert_int_equal(kvmem_owned(&rig->kv), 3);
    assert_int_equal(rig_step(rig), 0);
    assert_int_equal(rig_ask(rig, 2, tokens, 8).positions, 7);
}

/* No block is free but the copy source: it is handed out, and needs no copy. */
static void test_copy_of_the_last_block_is_the_block_itself(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(3, 2);
    rig_run(rig, 0, rig_tokens(1), 8);
    rig_keep(rig, 0, rig_tokens(1), 8, saved(1));
    rig_fill(rig, 1, 100, 4);
    assert_int_equal(rig_take(rig, 2, branch(6), 8), 6);
    rig_grow(rig, 2, 8);
    rig_bind(rig);
    assert_int_equal(step_header(&rig->step)->moves_count, 1);      /* what it held is kept */
    assert_int_equal(step_moves(&rig->step)[0].from, rig_block(rig, 2, 1));
    assert_true(kvmem_is_host(&rig->kv, step_moves(&rig->step)[0].to));
}

/* The block that the first copy reads is handed out for the second one. */
static void test_copies_stand_in_the_order_of_their_commits(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(6, 0);
    rig_leave(rig, 1, 8, retained(1));
    rig_leave(rig, 101, 8, retained(2));
    uint32_t other[8];
    memcpy(other, rig_tokens(101), sizeof other);
    other[6]++;
    rig_fill(rig, 4, 500, 4);
    assert_int_equal(rig_take(rig, 0, branch(6), 8), 6);
    rig_grow(rig, 0, 8);
    assert_int_equal(kvmem_free(&rig->kv), 0);
    assert_int_equal(rig_take(rig, 1, other, 8), 6);
    rig_grow(rig, 1, 8);
    rig_bind(rig);
    const struct step_move *moves = step_moves(&rig->step);
    assert_int_equal(step_header(&rig->step)->moves_count, 2);
    assert_int_equal(moves[0].from, moves[1].to);
    assert_int_equal(moves[0].to, rig_block(rig, 0, 1));
    assert_int_equal(moves[1].to, rig_block(rig, 1, 1));
}

static void test_nothing_is_copied_before_it_is_there(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(6, 4);
    rig_run(rig, 0, rig_tokens(1), 8);
    rig_keep(rig, 0, rig_tokens(1), 8, saved(1));
    assert_int_equal(rig_take(rig, 1, rig_tokens(1), 5), 4);       /* the first block stays */
    rig_fill(rig, 2, 100, 20);
    assert_int_equal(rig_take(rig, 3, branch(6), 8), 4);           /* leaves for the host */
    rig_drop(rig, 3);
    assert_int_equal(rig_step(rig), 1);
    assert_int_equal(rig_take(rig, 3, branch(6), 8), 4);           /* is there */
    rig_drop(rig, 3);
    rig_drop(rig, 2);
    assert_int_equal(rig_take(rig, 2, rig_tokens(1), 9), 8);
    rig_grow(rig, 2, 9);
    assert_int_equal(rig_take(rig, 3, branch(6), 8), 4);           /* is coming back */
    rig_drop(rig, 3);
    assert_int_equal(rig_step(rig), 1);
    rig_settle(rig, 2, rig_tokens(1), 9);
    assert_int_equal(rig_take(rig, 3, rig_tokens(1), 9), 8);       /* is back */
    rig_drop(rig, 3);
    assert_int_equal(rig_take(rig, 3, branch(6), 8), 6);
}

static void test_first_block_is_no_copy_source(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    rig_run(rig, 0, rig_tokens(1), 12);
    assert_int_equal(rig_take(rig, 1, branch(3), 12), 0);
}

static void test_a_step_has_a_bounded_number_of_copies(void **state)
{
    (void)state;
    struct kvmem_settings settings = rig_settings(DEVICE, 0);
    settings.calls = 2;
    struct rig *rig = rig_start(&settings);
    rig_run(rig, 0, rig_tokens(1), 12);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(rig_take(rig, 1, branch(7), 8), i < 2 ? 7 : 4);
        rig_grow(rig, 1, 8);
        rig_drop(rig, 1);
    }
    assert_int_equal(rig_step(rig), 0);         /* no call needs them any more */
    assert_int_equal(rig_take(rig, 1, branch(7), 8), 7);
}

/* The call gives up in the plan in which it has committed. */
static void test_copy_that_is_not_there_yet_is_forgotten_rather_than_moved(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(6, 4);
    const uint32_t *tokens = branch(7);
    rig_run(rig, 0, rig_tokens(1), 12);
    rig_take(rig, 1, tokens, 8);
    rig_grow(rig, 1, 8);
    rig_keep(rig, 1, tokens, 7, saved(1));
    assert_int_equal(rig_take(rig, 2, tokens, 8), 7);              /* until a call needs room */
    rig_keep(rig, 2, tokens, 7, saved(2));
    rig_fill(rig, 2, 100, 12);
    assert_int_equal(rig->kv.counters.dropped_blocks, 1);
    assert_int_equal(rig_step(rig), 0);
    assert_int_equal(kvmem_host_used(&rig->kv), 0);
}

/* Each question sees the other's commit: nothing is held for either. */
static void test_two_branches_in_one_plan_copy_from_the_same_block(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    rig_run(rig, 0, rig_tokens(1), 12);
    struct kvmem_answer first = rig_ask(rig, 1, branch(7), 12);
    struct kvmem_answer second = rig_ask(rig, 2, branch(7), 12);
    assert_int_equal(first.positions, 7);
    assert_int_equal(second.positions, 7);
    rig_commit(rig, &first, 12);
    expect_assert_failure(kvmem_commit(&rig->kv, &second, 12));     /* it is stale */
    assert_int_equal(rig_take(rig, 2, branch(7), 12), 7);
    assert_int_equal(rig_step(rig), 2);
}

static void test_lost_engine_takes_copies_along(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    rig_run(rig, 0, rig_tokens(1), 12);
    rig_take(rig, 1, branch(7), 12);
    assert_int_equal(rig->kv.copies_count, 1);
    for (uint32_t call = 0; call < 2; call++) {
        rig_drop(rig, call);
    }
    kvmem_lost(&rig->kv);
    kvmem_check(&rig->kv);
    assert_int_equal(rig->kv.copies_count, 0);
    assert_int_equal(rig_step(rig), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_branch_gets_a_copy_of_what_it_has_in_common),
        cmocka_unit_test(test_moves_are_written_where_they_belong_whatever_the_record_says),
        cmocka_unit_test(test_same_prompt_computes_its_last_token_only),
        cmocka_unit_test(test_second_branch_of_a_history_copies_what_the_first_took_over),
        cmocka_unit_test(test_copy_that_is_not_committed_moves_nothing),
        cmocka_unit_test(test_copy_of_the_last_block_is_the_block_itself),
        cmocka_unit_test(test_copies_stand_in_the_order_of_their_commits),
        cmocka_unit_test(test_nothing_is_copied_before_it_is_there),
        cmocka_unit_test(test_first_block_is_no_copy_source),
        cmocka_unit_test(test_a_step_has_a_bounded_number_of_copies),
        cmocka_unit_test(test_copy_that_is_not_there_yet_is_forgotten_rather_than_moved),
        cmocka_unit_test(test_two_branches_in_one_plan_copy_from_the_same_block),
        cmocka_unit_test(test_lost_engine_takes_copies_along),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
