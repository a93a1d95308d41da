/* SPDX-License-Identifier: MIT */
/*
 * Goal: the cost of a step is what the formula in tools/lab/device/cost.h says, round by round.
 * Method: a machine with small round numbers, steps whose cost is computed by hand.
 */
#include "selftest/unit/test.h"

#include <math.h>

#include "tools/lab/device/cost.h"

#define BLOCKS       256
#define BLOCK_TOKENS 4

/* 50 bytes of weights, 1 byte for each position, 100 bytes/s; 1 operation a token, 10/s. */
static const struct cost_model toy = {
    .name = "toy", .launch_s = 0.5, .weights_bytes = 50, .kv_token_bytes = 1, .bandwidth = 100,
    .token_flops = 1, .flops = 10, .overlap = 1, .copy_bandwidth = 20, .transfer_s = 0.25,
    .block_transfer_s = 0.125, .prefix_reads = COST_READS_EACH,
};

static uint32_t rounds_cost(const struct cost_model *model, const struct cost_row *rows,
                            uint32_t count, struct cost_round *rounds)
{
    uint64_t seen[BLOCKS] = {0};
    const struct cost_batch batch = {rows, count, BLOCK_TOKENS, seen};
    uint32_t result = cost_rounds(model, &batch, rounds);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        assert_int_equal(seen[i], 0);
    }
    return result;
}

static uint64_t rounds_us(const struct cost_model *model, const struct cost_row *rows,
                          uint32_t count)
{
    struct cost_round rounds[COST_ROUNDS_MAX];
    return rounds[rounds_cost(model, rows, count, rounds) - 1].end_us;
}

/* Round 0 feeds 4 + 1 + 3 tokens and reads 4 + 11 + 3 positions: max(0.68, 0.8) + 0.5.
 * Round 1 feeds 1 token and reads 5 positions: max(0.55, 0.1) + 0.5. */
static void test_step_of_three_rows_costs_the_sum_of_its_rounds(void **state)
{
    (void)state;
    const struct cost_row rows[] = {
        {.first_position = 0, .tokens_count = 4, .rounds = 2, .decodes = true},
        {.first_position = 10, .tokens_count = 1, .rounds = 1, .decodes = true},
        {.first_position = 0, .tokens_count = 3, .rounds = 1},
    };
    struct cost_round rounds[COST_ROUNDS_MAX];
    assert_int_equal(rounds_cost(&toy, rows, 3, rounds), 2);
    assert_int_equal(rounds[0].end_us, 1300000);
    assert_int_equal(rounds[1].end_us, 1300000 + 1050000);
}

/* The rounds above again, with a quarter of the shorter part in turn: 0.25 * 0.68, 0.25 * 0.1. */
static void test_overlap_adds_a_part_of_what_is_shorter(void **state)
{
    (void)state;
    struct cost_model model = toy;
    model.overlap = 0.75;
    const struct cost_row rows[] = {
        {.first_position = 0, .tokens_count = 4, .rounds = 2, .decodes = true},
        {.first_position = 10, .tokens_count = 1, .rounds = 1, .decodes = true},
        {.first_position = 0, .tokens_count = 3, .rounds = 1},
    };
    struct cost_round rounds[COST_ROUNDS_MAX];
    rounds_cost(&model, rows, 3, rounds);
    assert_int_equal(rounds[0].end_us, 1300000 + 170000);
    assert_int_equal(rounds[1].end_us, 1470000 + 1050000 + 25000);
}

/* A chunk of 4 with a draft of 2, of which one agrees: 6 tokens, 6 positions, 21 pairs. Then one
 * token after 5 positions with a draft of 3: 4 tokens, 9 positions, 6 + 7 + 8 + 9 pairs. Then one
 * after 9, without a draft. */
static void test_a_draft_costs_as_a_chunk_that_is_so_much_longer(void **state)
{
    (void)state;
    const struct cost_draft drafts[] = {{2, 1}, {3, 3}, {0, 0}};
    const struct cost_row row = {
        .tokens_count = 4, .rounds = 3, .decodes = true, .drafts = drafts};
    struct cost_round rounds[COST_ROUNDS_MAX];
    assert_int_equal(rounds_cost(&toy, &row, 1, rounds), 3);
    assert_true(rounds[0].tokens == 6 && rounds[0].positions == 6 && rounds[0].pairs == 21);
    assert_true(rounds[1].tokens == 4 && rounds[1].positions == 9 && rounds[1].pairs == 30);
    assert_true(rounds[2].tokens == 1 && rounds[2].positions == 10 && rounds[2].pairs == 10);
    assert_true(rounds[1].read_s == (50 + 9) / 100.0 && rounds[1].compute_s == 4 / 10.0);
}

/* Blocks of 4. a has 10 positions in its first round, b 11 and c 10: two whole blocks each. a and b
 * share both, c the first one. Apart they read 31; 8 and 4 fewer where all are in the round.
 * Round 0: a and c, 20 - 4. Round 1: a, b and c, 11 + 11 + 11 - 8 - 4. Round 2: b, 12. */
static void test_blocks_that_rows_share_are_read_once_a_round(void **state)
{
    (void)state;
    struct cost_model model = toy;
    model.prefix_reads = COST_READS_ONCE;
    const uint32_t a[] = {7, 3, 20}, b[] = {7, 3, 21}, c[] = {7, 5, 22};
    const struct cost_row rows[] = {
        {.first_position = 9, .tokens_count = 1, .rounds = 2, .decodes = true, .blocks = a},
        {.first_position = 10, .tokens_count = 1, .start_round = 1, .rounds = 2, .decodes = true,
         .blocks = b},
        {.first_position = 9, .tokens_count = 1, .rounds = 2, .decodes = true, .blocks = c},
    };
    struct cost_round rounds[COST_ROUNDS_MAX];
    assert_int_equal(rounds_cost(&model, rows, 3, rounds), 3);
    assert_true(rounds[0].positions == 16);
    assert_true(rounds[1].positions == 21);
    assert_true(rounds[2].positions == 12);
    assert_true(rounds[1].pairs == 33);             /* sharing saves no operations */
    assert_true(rounds[0].read_s == (50 + 16) / 100.0);
    rounds_cost(&toy, rows, 3, rounds);             /* for each row */
    assert_true(rounds[0].positions == 20);
    assert_true(rounds[1].positions == 33);
}

/* A prompt of 8 tokens fills two blocks, and none of them is shared before they are whole. */
static void test_partial_blocks_are_each_rows_own(void **state)
{
    (void)state;
    struct cost_model model = toy;
    model.prefix_reads = COST_READS_ONCE;
    const uint32_t a[] = {1, 2, 3}, b[] = {1, 2, 4};
    const struct cost_row rows[] = {
        {.tokens_count = 8, .rounds = 64, .decodes = true, .blocks = a},
        {.first_position = 6, .tokens_count = 1, .rounds = 64, .decodes = true, .blocks = b},
    };
    struct cost_round rounds[COST_ROUNDS_MAX];
    assert_int_equal(rounds_cost(&model, rows, 2, rounds), 64);
    assert_true(rounds[0].positions == 8 + 7 - 4);      /* only b's first block is whole */
    assert_true(rounds[63].positions == 71 + 70 - 4);
}

/* The second row enters in round 1. Bytes: 50 + 1, then 50 + 2 + 8, then 50 + 3 + 9. */
static void test_row_that_enters_later_is_in_the_rounds_that_are_left(void **state)
{
    (void)state;
    const struct cost_row rows[] = {
        {.first_position = 0, .tokens_count = 1, .rounds = 3, .decodes = true},
        {.first_position = 7, .tokens_count = 1, .start_round = 1, .rounds = 2, .decodes = true},
    };
    assert_int_equal(rounds_us(&toy, rows, 2), 1010000 + 1100000 + 1120000);
}

/* Attention: token 1 sees one position, token 2 two, token 3 three: 6 pairs, 2 operations each. */
static void test_attention_counts_the_positions_that_each_token_sees(void **state)
{
    (void)state;
    struct cost_model model = toy;
    model.attention_flops = 2;
    const struct cost_row rows[] = {{.tokens_count = 3, .rounds = 1}};
    assert_int_equal(rounds_us(&model, rows, 1), 500000 + (3 + 12) * 100000);
}

static void test_unit_counts_decoding_rounds_and_nothing_else(void **state)
{
    (void)state;
    const struct cost_model *unit = cost_find("unit");
    const uint32_t blocks[10] = {0};
    struct cost_row rows[] = {
        {.tokens_count = 40, .rounds = 3, .decodes = true, .blocks = blocks},
        {.tokens_count = 1, .rounds = 1, .decodes = true, .blocks = blocks}};
    assert_int_equal(rounds_us(unit, rows, 2), 3000000);
    rows[0] = (struct cost_row){.tokens_count = 40, .rounds = 1, .blocks = blocks};
    assert_int_equal(rounds_us(unit, rows, 1), 0);
}

static void test_moves_cost_their_bytes_and_an_overhead_for_each_transfer(void **state)
{
    (void)state;
    assert_true(cost_moves_s(&toy, 0, 0, 0) == 0);
    assert_true(cost_moves_s(&toy, 30, 2, 0) == 30 / 20.0 + 0.5);
    assert_true(cost_moves_s(&toy, 30, 0, 3) == 30 / 20.0 + 0.375);
    assert_true(cost_moves_s(cost_find("unit"), 30, 2, 0) == 0);
    assert_true(cost_copies_s(&toy, 30) == 2 * 30 / 100.0);
    assert_true(cost_copies_s(cost_find("unit"), 30) == 0);
}

/* 16.06 GB at 0.8 * 2,039 GB/s is 9.846 ms; KV of 1,000 positions, 131 MB, 0.080 ms; 1 ms. */
static void test_one_token_on_an_a100_is_bound_by_its_weights(void **state)
{
    (void)state;
    uint32_t blocks[BLOCKS];
    for (uint32_t i = 0; i < BLOCKS; i++) {
        blocks[i] = i;
    }
    const struct cost_row rows[] = {
        {.first_position = 999, .tokens_count = 1, .rounds = 1, .decodes = true,
         .blocks = blocks}};
    uint64_t cost_us = rounds_us(cost_find("a100-llama-3.1-8b"), rows, 1);
    assert_in_range(cost_us, 10920, 10930);
}

static void test_presets_are_found_by_name_only(void **state)
{
    (void)state;
    assert_null(cost_find("a100"));
    assert_non_null(cost_find("h200-llama-3.1-8b"));
    assert_non_null(cost_find("h200-llama-3.1-70b-fp8"));
    assert_non_null(cost_find("cpu"));
    assert_non_null(strstr(cost_names(), "h200-llama-3.1-70b-fp8"));
}

/* (13.5 GB + 7,344 positions of 0.5 MiB) / 1,631.2 GB/s and a launch. */
static void test_full_kv_of_llama_2_makes_a_round_a_quarter_longer(void **state)
{
    (void)state;
    const struct cost_model *model = cost_find("a100-llama-2-7b");
    assert_non_null(model);
    assert_true(fabs(cost_round_s(model, 0) - 9.276e-3) < 1e-6);
    assert_true(fabs(cost_round_s(model, 459 * 16) - 11.637e-3) < 1e-6);
    assert_true(cost_round_s(cost_find("unit"), 459 * 16) == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_step_of_three_rows_costs_the_sum_of_its_rounds),
        cmocka_unit_test(test_overlap_adds_a_part_of_what_is_shorter),
        cmocka_unit_test(test_a_draft_costs_as_a_chunk_that_is_so_much_longer),
        cmocka_unit_test(test_blocks_that_rows_share_are_read_once_a_round),
        cmocka_unit_test(test_partial_blocks_are_each_rows_own),
        cmocka_unit_test(test_row_that_enters_later_is_in_the_rounds_that_are_left),
        cmocka_unit_test(test_attention_counts_the_positions_that_each_token_sees),
        cmocka_unit_test(test_unit_counts_decoding_rounds_and_nothing_else),
        cmocka_unit_test(test_moves_cost_their_bytes_and_an_overhead_for_each_transfer),
        cmocka_unit_test(test_one_token_on_an_a100_is_bound_by_its_weights),
        cmocka_unit_test(test_full_kv_of_llama_2_makes_a_round_a_quarter_longer),
        cmocka_unit_test(test_presets_are_found_by_name_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
