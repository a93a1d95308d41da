/* SPDX-License-Identifier: MIT */
/*
 * Goal: a row's tokens and logits depend on its own call and on nothing else.
 * Method: a small random model with odd sizes. The same call runs alone, in batches, in chunks of
 * every kind, on 1 to 3 threads, over scrambled blocks full of NaN, with every set of kernels, and
 * with KV of every type. Everything is compared bit for bit.
 */
#include "selftest/unit/kernels/engine_rig.h"

/* One variation after the other, each against `expected`. */
static void check_variations(struct rig *rig, const struct answer *expected)
{
    struct answer got;
    run_alone(&got, rig, 5, 3);         /* other blocks */
    assert_same(expected, &got);

    for (uint32_t chunk = 1; chunk < PROMPT_TOKENS; chunk += 3) {
        uint32_t at = 0;                /* in chunks, each a step */
        for (; at + chunk < PROMPT_TOKENS; at += chunk) {
            rig_clear(rig);
            rig_row(rig, prompt + at, chunk, at, 0);
            rig_blocks(rig, 0, 90, 7);
            kernels_run(rig->kernels, &rig->step);
            assert_int_equal(step_out(&rig->step, 0)->produced, 0);
        }
        rig_clear(rig);
        rig_row(rig, prompt + at, PROMPT_TOKENS - at, at, DECODED);
        rig_blocks(rig, 0, 90, 7);
        kernels_run(rig->kernels, &rig->step);
        answer_take(&got, rig);
        assert_same(expected, &got);
    }

    for (uint32_t others = 1; others < 8; others++) {   /* in a batch, others of other lengths */
        rig_clear(rig);
        rig_row(rig, prompt, PROMPT_TOKENS, 0, DECODED);
        rig_blocks(rig, 0, 0, 1);
        for (uint32_t i = 1; i <= others; i++) {
            rig_row(rig, prompt + i, i, 0, DECODED - i);
            rig_blocks(rig, i, 16 * i, 1);
        }
        kernels_run(rig->kernels, &rig->step);
        answer_take(&got, rig);
        assert_same(expected, &got);
        assert_int_equal(step_out(&rig->step, others)->produced, DECODED - others);
    }
}

/* On 1 to 3 threads, with every set of kernels. */
static void check_same_bits(enum kernels_kv_type kv_type)
{
    struct answer expected;
    bool known = false;
    for (uint32_t threads = 1; threads <= 3; threads++) {
        for (enum kernels_simd simd = KERNELS_PLAIN; simd <= kernels_simd_best(); simd++) {
            struct arena *arena = test_arena();
            struct kernels_weights *weights = tiny_weights(&tiny, arena);
            struct kernels_settings settings = rig_settings(simd, threads);
            settings.kv_type = kv_type;
            struct rig rig;
            rig_start(&rig, &settings, weights, arena);
            poison(&rig);
            struct answer got;
            run_alone(&got, &rig, 0, 1);
            if (!known) {
                expected = got;
                known = true;
            }
            assert_same(&expected, &got);
            check_variations(&rig, &expected);
            kernels_stop(rig.kernels);
        }
    }
}

static void test_run_same_call_same_bits(void **state)
{
    (void)state;
    for (uint32_t family = 0; family < model_families_count; family++) {
        for (uint32_t i = 0; i < (family == 0 ? TINY_TYPES : 1); i++) {     /* none sees the type */
            struct model_shape shape = tiny_shape(tiny_types[i], tiny_types[i] == GGUF_F16);
            shape.family = &model_families[family];
            tiny_make_shape(&tiny, &shape, tiny_types[i], 7);
            check_same_bits(KERNELS_KV_F32);
            if (tiny_types[i] == GGUF_F32) {
                check_same_bits(KERNELS_KV_F16);
                check_same_bits(KERNELS_KV_Q8);
            }
        }
    }
}

/* Matrices with the same activations, which each type rounds in its own way or not at all. */
static void test_run_mixed_types_same_bits(void **state)
{
    (void)state;
    const enum gguf_type types[] = {GGUF_BF16, GGUF_Q8_0, GGUF_F32};
    const struct model_shape shape = tiny_shape(GGUF_Q8_0, false);
    for (uint32_t count = 2; count <= 3; count++) {
        tiny_make_types(&tiny, &shape, types, count, 7);
        check_same_bits(KERNELS_KV_F32);
    }
}

/* The panels of a head would be of two threads, but its levels share a scale. */
static void test_run_heads_of_several_panels_same_bits(void **state)
{
    (void)state;
    struct model_shape shape = tiny_shape(GGUF_F32, false);
    shape.head_dim = shape.rope_dim = 32;
    tiny_make_shape(&tiny, &shape, GGUF_F32, 7);
    struct answer expected, got;
    for (uint32_t threads = 1; threads <= 8; threads++) {
        struct arena *arena = test_arena();
        struct kernels_settings settings = rig_settings(kernels_simd_best(), threads);
        settings.kv_type = KERNELS_KV_Q8;
        struct rig rig;
        rig_start(&rig, &settings, tiny_weights(&tiny, arena), arena);
        run_alone(threads == 1 ? &expected : &got, &rig, 0, 1);
        kernels_stop(rig.kernels);
        if (threads > 1) {
            assert_same(&expected, &got);
        }
    }
}

static void test_run_small_tiles_same_bits(void **state)
{
    (void)state;
    tiny_make(&tiny, GGUF_F32, false, 7);
    struct answer expected, got;
    for (uint32_t tile = 80; tile > 0; tile = tile == 80 ? 7 : tile == 7 ? 1 : 0) {
        struct arena *arena = test_arena();
        struct kernels_settings settings = rig_settings(kernels_simd_best(), 2);
        struct rig rig;
        rig_start(&rig, &settings, tiny_weights(&tiny, arena), arena);
        rig.kernels->tile_rows = tile;
        run_alone(tile == 80 ? &expected : &got, &rig, 0, 1);
        kernels_stop(rig.kernels);
        if (tile < 80) {
            assert_same(&expected, &got);
        }
    }
}

/* ---- stopping, bad numbers, heartbeat ---- */

static void test_run_stop_id_ends_its_row_only(void **state)
{
    (void)state;
    struct rig rig;
    struct answer alone;
    start_plain(&rig, GGUF_F32);
    run_alone(&alone, &rig, 0, 1);
    uint32_t stop = alone.tokens[3];
    uint32_t until = 0;
    while (alone.tokens[until] != stop) {
        until++;
    }
    rig_clear(&rig);
    struct step_row *row = rig_row(&rig, prompt, PROMPT_TOKENS, 0, DECODED);
    row->sampling.stop_ids_count = 2;
    row->sampling.stop_ids[0] = 75 + 1;
    row->sampling.stop_ids[1] = stop;
    rig_blocks(&rig, 0, 0, 1);
    rig_row(&rig, prompt, PROMPT_TOKENS, 0, DECODED);
    rig_blocks(&rig, 1, 16, 1);

    kernels_run(rig.kernels, &rig.step);

    assert_int_equal(step_out(&rig.step, 0)->produced, until + 1);
    assert_int_equal(step_out_tokens(&rig.step, 0)[until], stop);
    assert_int_equal(step_out(&rig.step, 1)->produced, DECODED);
    assert_memory_equal(step_out_tokens(&rig.step, 1), alone.tokens, sizeof alone.tokens);
    kernels_stop(rig.kernels);
}

static uint32_t told;

static void hear_round(void *context)
{
    const struct step *step = context;
    told++;
    assert_int_equal(step_progress_rounds(step, step_header(step)->sequence), told);
    assert_int_equal(step_progress_rounds(step, step_header(step)->sequence + 1), 0);
    assert_int_equal(step_out_published(step_out(step, 0)), told);
}

static void test_run_tells_each_round_but_the_last(void **state)
{
    (void)state;
    struct rig rig;
    struct answer alone;
    start_plain(&rig, GGUF_F32);
    kernels_tell_rounds(rig.kernels, &(struct kernels_listener){hear_round, &rig.step});
    told = 0;
    run_alone(&alone, &rig, 0, 1);
    assert_int_equal(told, DECODED - 1);
    assert_int_equal(*step_rounds(&rig.step), DECODED);
    kernels_stop(rig.kernels);
}

static void test_run_not_finite_fails_its_row_only(void **state)
{
    (void)state;
    struct rig rig;
    struct answer alone;
    start_plain(&rig, GGUF_F32);
    run_alone(&alone, &rig, 0, 1);
    poison(&rig);
    rig_clear(&rig);
    rig_row(&rig, prompt, 1, 4, DECODED);       /* positions 0 to 3 of its KV are NaN */
    rig_blocks(&rig, 0, 16, 1);
    rig_row(&rig, prompt, PROMPT_TOKENS, 0, DECODED);
    rig_blocks(&rig, 1, 0, 1);

    kernels_run(rig.kernels, &rig.step);

    assert_int_equal(step_out(&rig.step, 0)->result, STEP_ROW_NOT_FINITE);
    assert_int_equal(step_out(&rig.step, 0)->produced, 0);
    assert_int_equal(step_out(&rig.step, 1)->result, STEP_ROW_OK);
    assert_memory_equal(step_out_tokens(&rig.step, 1), alone.tokens, sizeof alone.tokens);
    kernels_stop(rig.kernels);
}

static void test_run_digest_is_of_every_logit_of_the_row_that_wants_it(void **state)
{
    (void)state;
    struct rig rig;
    start_plain(&rig, GGUF_F32);
    for (uint32_t steps = 1; steps <= 2; steps++) {
        uint64_t expected = FNV_START;
        for (uint32_t i = 0; i < steps; i++) {
            rig_clear(&rig);
            rig_row(&rig, prompt, PROMPT_TOKENS, 0, i + 1);
            rig_row(&rig, prompt, 1, 0, 1)->wants_digest = false;
            rig_blocks(&rig, 0, 0, 1);
            rig_blocks(&rig, 1, 20, 1);
            kernels_run(rig.kernels, &rig.step);
            expected = fnv_add(expected, kernels_logits(rig.kernels, 0), 75 * sizeof(float));
        }
        assert_int_equal(step_out(&rig.step, 0)->digest, expected);
        assert_int_equal(step_out(&rig.step, 1)->digest, 0);
    }
    kernels_stop(rig.kernels);
}

static void test_run_heartbeat_grows_each_layer(void **state)
{
    (void)state;
    struct rig rig;
    struct answer alone;
    start_plain(&rig, GGUF_F32);
    run_alone(&alone, &rig, 0, 1);
    assert_true(rig.heartbeat >= DECODED * tiny.gguf.shape.layers * KERNELS_PHASES);
    kernels_stop(rig.kernels);
}

/* ---- sampling ---- */

/* A row that samples at random: feeds tokens[first ..] up to `known`, as the core would plan it. */
static void add_sampled_row(struct rig *rig, const uint32_t *tokens, uint32_t first, uint32_t known,
                            uint32_t decode_steps)
{
    uint32_t r = step_header(&rig->step)->rows_count;
    struct step_row *row = rig_row(rig, tokens + first, known - first, first, decode_steps);
    row->sampling = (struct call_sampling){.seed = 3, .temperature = 1.5f, .top_p = 0.9f,
                                           .top_k = 30, .repeat_penalty = 1.1f};
    row->history_count = decode_steps > 0 ? known : 0;
    memcpy(row->history, tokens, row->history_count * sizeof *tokens);
    rig_blocks(rig, r, 16 * r, 1);
}

/* The same call in two chunks and three plans. */
static void check_sampled_in_plans(struct rig *rig, const uint32_t *alone)
{
    uint32_t tokens[9 + DECODED];
    memcpy(tokens, prompt, 9 * sizeof *prompt);
    rig_clear(rig);
    add_sampled_row(rig, tokens, 0, 5, 0);
    kernels_run(rig->kernels, &rig->step);
    rig_clear(rig);
    add_sampled_row(rig, tokens, 5, 9, 3);
    kernels_run(rig->kernels, &rig->step);
    memcpy(tokens + 9, step_out_tokens(&rig->step, 0), 3 * sizeof *tokens);
    rig_clear(rig);
    add_sampled_row(rig, tokens, 9 + 2, 9 + 3, DECODED - 3);
    kernels_run(rig->kernels, &rig->step);
    memcpy(tokens + 9 + 3, step_out_tokens(&rig->step, 0), (DECODED - 3) * sizeof *tokens);
    assert_memory_equal(tokens + 9, alone, DECODED * sizeof *tokens);
}

static void test_run_sampled_tokens_do_not_depend_on_batch_or_plan(void **state)
{
    (void)state;
    struct rig rig;
    uint32_t alone[DECODED];
    start_plain(&rig, GGUF_F32);
    for (uint32_t rows = 1; rows <= 8; rows += 7) {
        rig_clear(&rig);
        for (uint32_t r = 0; r < rows; r++) {
            add_sampled_row(&rig, prompt, 0, 9, DECODED);
        }
        kernels_run(rig.kernels, &rig.step);
        for (uint32_t r = 0; r < rows; r++) {
            if (rows == 1) {
                memcpy(alone, step_out_tokens(&rig.step, 0), sizeof alone);
            }
            assert_memory_equal(step_out_tokens(&rig.step, r), alone, sizeof alone);
        }
    }
    check_sampled_in_plans(&rig, alone);
    kernels_stop(rig.kernels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run_same_call_same_bits),
        cmocka_unit_test(test_run_mixed_types_same_bits),
        cmocka_unit_test(test_run_heads_of_several_panels_same_bits),
        cmocka_unit_test(test_run_small_tiles_same_bits),
        cmocka_unit_test(test_run_stop_id_ends_its_row_only),
        cmocka_unit_test(test_run_tells_each_round_but_the_last),
        cmocka_unit_test(test_run_not_finite_fails_its_row_only),
        cmocka_unit_test(test_run_digest_is_of_every_logit_of_the_row_that_wants_it),
        cmocka_unit_test(test_run_heartbeat_grows_each_layer),
        cmocka_unit_test(test_run_sampled_tokens_do_not_depend_on_batch_or_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
