/* SPDX-License-Identifier: MIT */
/*
 * Goal: a question changes nothing and tells what a commit takes; a commit that fits cannot fail,
 * and one that does not, or whose answer is stale, is our bug; what is not committed gets the place
 * that the call gives it. Method: each rule by itself, on both tiers.
 */
#include "selftest/unit/kvmem/rig.h"

/* Four blocks, the last three of them on the host. */
static struct rig *fresh_with_three_on_the_host(const uint32_t *tokens)
{
    struct rig *rig = rig_fresh(6, 4);
    rig_run(rig, 1, tokens, 15);
    rig_keep(rig, 1, tokens, 15, saved(1));
    rig_run(rig, 0, rig_tokens(200), 17);                   /* five of six */
    rig_drop(rig, 0);
    assert_int_equal(kvmem_host_used(&rig->kv), 3);
    return rig;
}

static void test_what_is_touched_is_found_again(void **state)
{
    (void)state;
    const uint32_t *tokens = rig_tokens(1);
    struct rig *rig = fresh_with_three_on_the_host(tokens);
    for (uint64_t now_us = 2; now_us < 5; now_us++) {
        struct kvmem_answer answer = rig_ask(rig, 1, tokens, 20);
        assert_int_equal(answer.positions, 15);
        assert_int_equal(answer.blocks, 4);
        assert_int_equal(answer.host_blocks, 3);
        kvmem_touch(&rig->kv, &answer, now_us % 2 ? saved(now_us) : retained(now_us));
        kvmem_check(&rig->kv);
        assert_int_equal(kvmem_held(&rig->kv, HOLDER_WANTED).device, 1);
        assert_int_equal(kvmem_held(&rig->kv, HOLDER_WANTED).host, 3);
        assert_int_equal(heap_first_key(&rig->kv.host.ages[true]), now_us);
    }
}

static void test_what_is_forgotten_is_found_nowhere(void **state)
{
    (void)state;
    const uint32_t *tokens = rig_tokens(1);
    struct rig *rig = fresh_with_three_on_the_host(tokens);
    rig_take(rig, 2, tokens, 5);                            /* owns the first one */
    struct kvmem_answer answer = rig_ask(rig, 1, tokens, 20);
    kvmem_forget(&rig->kv, &answer);
    kvmem_check(&rig->kv);
    assert_int_equal(kvmem_host_used(&rig->kv), 0);
    assert_int_equal(rig_ask(rig, 1, tokens, 20).positions, 4);
}

/* Where retention is off, nothing is kept for calls to come. */
static void test_what_an_ended_call_touches_without_retention_is_forgotten(void **state)
{
    (void)state;
    struct kvmem_settings settings = rig_settings(DEVICE, HOST);
    settings.retain_device_us = settings.retain_host_us = settings.retain_drop_us = 0;
    struct rig *rig = rig_start(&settings);
    rig_leave(rig, 1, 11, saved(1));
    struct kvmem_answer answer = rig_ask(rig, 0, rig_tokens(1), 12);
    kvmem_touch(&rig->kv, &answer, saved(2));
    answer = rig_ask(rig, 0, rig_tokens(1), 12);
    assert_int_equal(answer.positions, 11);
    kvmem_touch(&rig->kv, &answer, retained(3));
    kvmem_check(&rig->kv);
    assert_int_equal(kvmem_free(&rig->kv), DEVICE);
}

static void test_question_changes_nothing(void **state)
{
    (void)state;
    static uint8_t before[sizeof test_arena_memory];
    const uint32_t *tokens = rig_tokens(1);
    struct rig *rig = fresh_with_three_on_the_host(tokens);
    uint32_t *noted = kvmem_table_of(&rig->kv, 2);
    uint64_t row_bytes = BLOCKS_PER_CALL * sizeof(uint32_t);
    struct kvmem kv = rig->kv;
    memcpy(before, test_arena_memory, sizeof before);
    for (uint32_t count = 1; count <= 24; count++) {
        rig_ask(rig, 2, tokens, count);
        memcpy(noted, before + ((uint8_t *)noted - test_arena_memory), row_bytes);
        assert_memory_equal(before, test_arena_memory, sizeof before);
        assert_memory_equal(&kv, &rig->kv, sizeof kv);
    }
}

static void test_answer_to_a_call_that_owns_blocks_is_these(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    rig_run(rig, 0, rig_tokens(1), 11);
    rig_run(rig, 1, rig_tokens(100), 6);
    struct kvmem_answer answer = rig_ask(rig, 1, rig_tokens(1), 12);
    assert_true(answer.is_owned);
    assert_int_equal(answer.blocks, 2);
    assert_int_equal(kvmem_missing(&rig->kv, &answer, 8), 0);
    assert_int_equal(kvmem_missing(&rig->kv, &answer, 9), 1);
    rig_drop(rig, 0);
    assert_false(kvmem_is_stale(&rig->kv, &answer));
    rig_commit(rig, &answer, 9);
    assert_int_equal(kvmem_call_blocks(&rig->kv, 1), 3);
}

/* What is found is not room for the rest. */
static void test_found_blocks_are_not_counted_twice(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(6, HOST);
    rig_leave(rig, 1, 12, saved(1));
    rig_grow(rig, 0, 4);
    struct kvmem_answer answer = rig_ask(rig, 1, rig_tokens(1), 24);
    assert_int_equal(kvmem_available(&rig->kv), 5);
    assert_int_equal(kvmem_missing(&rig->kv, &answer, 24), 3);
    assert_false(kvmem_fits(&rig->kv, &answer, 24));
    assert_true(kvmem_fits(&rig->kv, &answer, 20));
    expect_assert_failure(kvmem_commit(&rig->kv, &answer, 24));
}

static void test_answer_is_stale_once_a_block_has_lost_its_name(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    const uint32_t *tokens = rig_tokens(1);
    rig_grow(rig, 0, 7);
    rig_grow(rig, 1, 7);
    rig_keep(rig, 0, tokens, 7, saved(1));
    struct kvmem_answer answer = rig_ask(rig, 2, tokens, 12);
    assert_int_equal(answer.positions, 7);
    assert_false(kvmem_is_stale(&rig->kv, &answer));
    rig_keep(rig, 1, tokens, 7, saved(2));            /* leaves an equal partial block */
    assert_true(kvmem_is_stale(&rig->kv, &answer));
    expect_assert_failure(kvmem_commit(&rig->kv, &answer, 12));
    expect_assert_failure(kvmem_touch(&rig->kv, &answer,
                                      saved(3)));
    answer = rig_ask(rig, 2, tokens, 12);
    assert_int_equal(answer.positions, 7);
    struct kvmem_answer other = rig_ask(rig, 3, tokens, 12);
    rig_commit(rig, &answer, 12);
    assert_true(kvmem_is_stale(&rig->kv, &other));          /* one commit, and all ask again */
}

/* Asks for these positions, all or nothing. True: the look found where they end. */
static bool is_end_there(struct rig *rig, uint32_t call, const uint32_t *tokens,
                         uint32_t positions)
{
    const struct kvmem_question question = {
        .call = call, .whole = true, .tokens = tokens, .count = positions + 1};
    struct kvmem_answer answer = kvmem_ask(&rig->kv, &question);
    assert_true(answer.asked > 0 || answer.blocks == 0);
    return answer.asked > 0;
}

static void test_a_look_tells_whether_the_end_is_kept(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    const uint32_t *tokens = rig_tokens(1);
    for (uint32_t positions = 7; positions <= 8; positions++) {     /* a partial block; full ones */
        assert_false(is_end_there(rig, 0, tokens, positions));
        rig_run(rig, 0, tokens, positions);
        rig_keep(rig, 0, tokens, positions, saved(1));
        assert_true(is_end_there(rig, 0, tokens, positions));
        assert_false(is_end_there(rig, 0, tokens, positions - 1));
        assert_false(is_end_there(rig, 0, tokens, positions + 1));
        assert_false(is_end_there(rig, 0, rig_tokens(2), positions));
        assert_false(is_end_there(rig, 1, tokens, positions));
        assert_int_equal(rig_take(rig, 0, tokens, positions + 1), positions);
        rig_drop(rig, 0);
        assert_false(is_end_there(rig, 0, tokens, positions));
    }
}

static void test_a_look_sees_what_can_be_had(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    const uint32_t *tokens = rig_tokens(1);
    rig_run(rig, 0, tokens, 8);
    rig_keep(rig, 0, tokens, 8, saved(1));
    rig_fill(rig, 1, 50, 24);
    rig_fill(rig, 2, 90, 16);       /* the whole device: both blocks go to the host */
    assert_false(is_end_there(rig, 0, tokens, 8));
    rig_step(rig);
    assert_true(is_end_there(rig, 0, tokens, 8));
    rig_drop(rig, 1);
    rig_drop(rig, 2);
    for (uint32_t first = 200; first < 400; first += 100) {     /* younger, SAVED: no room for it */
        rig_leave(rig, first, 24, saved(first));
    }
    rig_leave(rig, 500, 24, saved(500));
    assert_false(is_end_there(rig, 0, tokens, 8));
}

/* The end outlived what comes before it. */
static void test_a_look_may_be_wrong_and_then_less_is_found(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, 0);
    const uint32_t *tokens = rig_tokens(1);
    rig_run(rig, 0, tokens, 11);
    rig_keep(rig, 0, tokens, 11, saved(1));
    assert_int_equal(rig_take(rig, 1, tokens, 9), 8);
    rig_keep(rig, 1, tokens, 8, retained(2));     /* all but the end, at a lower rank */
    rig_fill(rig, 1, 100, 24);
    rig_fill(rig, 2, 200, 12);      /* room for all but the end */
    assert_true(is_end_there(rig, 0, tokens, 11));
    struct kvmem_answer answer = rig_ask(rig, 0, tokens, 12);
    assert_int_equal(answer.positions, 0);
    kvmem_touch(&rig->kv, &answer, saved(3));
    assert_false(is_end_there(rig, 0, tokens, 11));     /* it was wrong once */
}

/* The beginning is on its way to the host. */
static void test_a_question_that_comes_too_early_may_come_again(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    const uint32_t *tokens = rig_tokens(1);
    rig_run(rig, 0, tokens, 11);
    rig_keep(rig, 0, tokens, 11, saved(1));
    rig_fill(rig, 1, 100, 24);
    rig_fill(rig, 2, 200, 8);
    assert_int_equal(rig_step(rig), 1);                 /* the end goes before the rest */
    rig_grow(rig, 2, 16);
    assert_true(is_end_there(rig, 0, tokens, 11));
    struct kvmem_answer answer = rig_ask(rig, 0, tokens, 12);
    assert_int_equal(answer.positions, 0);
    assert_true(answer.is_under_way);
    assert_false(rig_ask(rig, 3, rig_tokens(300), 12).is_under_way);
    kvmem_touch(&rig->kv, &answer, saved(2));
    assert_true(is_end_there(rig, 0, tokens, 11));
    assert_int_equal(rig_step(rig), 2);
    answer = rig_ask(rig, 0, tokens, 12);
    assert_int_equal(answer.positions, 11);
    assert_false(answer.is_under_way);
}

/* A full block, or one that is not full; what comes before it is found. */
static void test_an_answer_tells_that_more_is_on_its_way(void **state)
{
    (void)state;
    const uint32_t *tokens = rig_tokens(1);
    for (uint32_t positions = 7; positions <= 8; positions++) {
        struct rig *rig = rig_fresh(3, HOST);
        rig_leave(rig, 1, positions, saved(1));
        rig_grow(rig, 0, 8);
        struct kvmem_answer answer = rig_ask(rig, 1, tokens, positions + 1);
        assert_int_equal(answer.positions, 4);
        assert_true(answer.is_under_way);
        assert_false(rig_ask(rig, 1, tokens, positions).is_under_way);     /* not that much */
        assert_int_equal(rig_step(rig), 1);
        answer = rig_ask(rig, 1, tokens, positions + 1);
        assert_int_equal(answer.positions, positions);
        assert_false(answer.is_under_way);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_question_changes_nothing),
        cmocka_unit_test(test_answer_to_a_call_that_owns_blocks_is_these),
        cmocka_unit_test(test_found_blocks_are_not_counted_twice),
        cmocka_unit_test(test_answer_is_stale_once_a_block_has_lost_its_name),
        cmocka_unit_test(test_what_is_touched_is_found_again),
        cmocka_unit_test(test_what_is_forgotten_is_found_nowhere),
        cmocka_unit_test(test_what_an_ended_call_touches_without_retention_is_forgotten),
        cmocka_unit_test(test_a_look_tells_whether_the_end_is_kept),
        cmocka_unit_test(test_a_look_sees_what_can_be_had),
        cmocka_unit_test(test_a_look_may_be_wrong_and_then_less_is_found),
        cmocka_unit_test(test_a_question_that_comes_too_early_may_come_again),
        cmocka_unit_test(test_an_answer_tells_that_more_is_on_its_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
