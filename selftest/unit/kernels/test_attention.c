/* SPDX-License-Identifier: MIT
 *
 * Goal: rows that attend together get the bits that each gets alone, whatever they share; rows that
 * share are neighbours, in bundles of bounded size.
 * Method: random block tables that begin alike and then differ, ragged lengths, odd sizes, and NaN
 * for every number that no row sees; rows in bundles, by all sets, against the plain set row by
 * row. Then the tiny model, whose calls share the KV blocks of a prompt.
 */
#define TEST_ARENA_BYTES (32u << 20)
#include "selftest/unit/test.h"

#include "kernels/half.h"
#include "selftest/unit/kernels/sets.h"
#include "selftest/unit/kernels/tiny_model.h"

/* ---- the kernels ---- */

enum { ROWS_MAX = KERNELS_BUNDLE_ROWS, HEADS_MAX = 8, DIM_MAX = 136, TOKENS_MAX = 200 };
enum { PROMPT_SLOTS = 80 };
#define BLOCKS_MAX (TOKENS_MAX / KERNELS_OCTET)
#define STRIDE     (KERNELS_STRETCH * 4 + KERNELS_PANEL_LANES)
#define POOL_ROWS  16           /* so many rows with different blocks fit into the pool */

struct outcome {
    float scores[ROWS_MAX * HEADS_MAX * STRIDE];
    float out[ROWS_MAX * HEADS_MAX * DIM_MAX];
};

static float pool[POOL_ROWS * (TOKENS_MAX + 128) * 2 * DIM_MAX];
static float queries[ROWS_MAX * HEADS_MAX * DIM_MAX];
static int16_t query_levels[ROWS_MAX * HEADS_MAX * DIM_MAX];
static struct kernels_query_frame query_frames[ROWS_MAX * HEADS_MAX];
static uint32_t tables[ROWS_MAX][BLOCKS_MAX + KERNELS_OCTET];      /* the rest is no block */
static struct kernels_attending rows[ROWS_MAX];
static struct outcome expected, got;

struct scene {
    uint32_t rows, heads, head_dim, block_tokens;
    enum kernels_kv_type type;
    uint32_t tables;            /* different ones; each begins like an earlier one */
};

/* A later table differs from an earlier one after a random number of blocks. */
static void tables_make(const struct scene *scene, uint64_t *random)
{
    uint32_t block = 0, blocks = (TOKENS_MAX + scene->block_tokens - 1) / scene->block_tokens;
    memset(tables, 0xff, sizeof tables);
    for (uint32_t i = 0; i < scene->tables; i++) {
        uint32_t shared = i == 0 ? 0 : tiny_random(random) % (blocks + 1);
        uint32_t from = i == 0 ? 0 : tiny_random(random) % i;
        for (uint32_t b = 0; b < blocks; b++) {
            tables[i][b] = b < shared ? tables[from][b] : block++;
        }
    }
}

static void number_put(const struct kernels_attention *a, const void *base, uint64_t at,
                       float value)
{
    if (a->type == KERNELS_KV_Q8) {
        ((int8_t *)(uintptr_t)base)[at] = (int8_t)lrintf(value * 127);
    } else if (a->type == KERNELS_KV_F16) {
        ((uint16_t *)(uintptr_t)base)[at] = kernels_half_of(value);
    } else {
        ((float *)(uintptr_t)base)[at] = value;
    }
}

static void scale_put(const struct kernels_attention *a, const uint8_t *base, uint32_t offset,
                      float value)
{
    uint64_t end = kernels_kv_numbers(a->head_dim, a->block_tokens);
    if (a->type == KERNELS_KV_Q8) {
        ((float *)(uintptr_t)(base + end))[offset] = value;
    }
}

/* A key that is levels: its bytes and signs, beside those of other tokens, its step and middle. */
static void key_levels_put(const struct kernels_attention *a, const uint8_t *base, uint32_t offset,
                           uint64_t *random)
{
    uint8_t *bytes = (uint8_t *)(uintptr_t)base;
    uint8_t *signs = bytes + kernels_kv_numbers(a->head_dim, a->block_tokens);
    uint64_t at = kernels_key_steps_at(a->head_dim, a->block_tokens);
    uint16_t *steps = (uint16_t *)(uintptr_t)(base + at);
    steps[offset] = kernels_half_of(0.5f + tiny_uniform(random) / 4);
    steps[a->block_tokens + offset] = kernels_half_of(tiny_uniform(random));
    for (uint32_t d = 0; d < a->head_dim; d++) {
        int32_t level = (int32_t)(tiny_random(random) % 511) - 255;
        uint32_t index = (d / 2 * a->block_tokens + offset) * 2 + d % 2;
        uint8_t *sign = &signs[index / 8];
        bytes[index] = (uint8_t)level;
        *sign = (uint8_t)((*sign & ~(1u << index % 8)) | (level < 0 ? 1u : 0u) << index % 8);
    }
}

/* The position's keys and values, the same for all rows that see it. */
static void position_fill(const struct kernels_attention *a, uint32_t block, uint32_t offset)
{
    uint32_t lanes = kernels_head_lanes(a->head_dim);
    uint64_t random = block * 131 + offset;
    const uint8_t *keys = (const uint8_t *)a->keys + block * a->keys_bytes;
    const uint8_t *values = (const uint8_t *)a->values + block * a->values_bytes;
    scale_put(a, values, offset, 0.5f + tiny_uniform(&random) / 4);
    if (a->type == KERNELS_KV_Q8) {
        key_levels_put(a, keys, offset, &random);
    }
    for (uint32_t d = 0; d < lanes; d++) {
        bool is_real = d < a->head_dim;
        number_put(a, values, (uint64_t)offset * lanes + d, is_real ? tiny_uniform(&random) : 0);
        if (is_real && a->type != KERNELS_KV_Q8) {
            number_put(a, keys, (uint64_t)d * a->block_tokens + offset, tiny_uniform(&random));
        }
    }
}

/* As an engine does it; the padding of a head stays unspecified. */
static void queries_level(const struct scene *scene)
{
    uint32_t lanes = kernels_head_lanes(scene->head_dim);
    memset(query_levels, 0x55, sizeof query_levels);
    for (uint32_t q = 0; q < scene->rows * scene->heads; q++) {
        query_frames[q] = kernels_ops_plain.level_query(
            query_levels + q * lanes, queries + q * scene->head_dim, scene->head_dim);
    }
}

static void rows_make(const struct scene *scene, const struct kernels_attention *a,
                      uint64_t *random)
{
    memset(pool, 0xff, sizeof pool);
    for (uint32_t i = 0; i < scene->rows * scene->heads * scene->head_dim; i++) {
        queries[i] = tiny_uniform(random);
    }
    queries_level(scene);
    for (uint32_t i = 0; i < scene->rows; i++) {
        rows[i] = (struct kernels_attending){
            .blocks = tables[tiny_random(random) % scene->tables],
            .tokens = 1 + tiny_random(random) % TOKENS_MAX,
            .queries = queries + i * scene->heads * scene->head_dim,
            .query_levels = query_levels + i * scene->heads * kernels_head_lanes(scene->head_dim),
            .query_frames = query_frames + i * scene->heads,
        };
        if (i % 3 == 2) {               /* as the rows of one prompt */
            rows[i].blocks = rows[i - 1].blocks;
            rows[i].tokens = rows[i - 1].tokens % TOKENS_MAX + 1;
        }
        for (uint32_t t = 0; t < rows[i].tokens; t++) {
            position_fill(a, rows[i].blocks[t / a->block_tokens], t % a->block_tokens);
        }
    }
}

/* Rows first .. first + count - 1 together. */
static void attend(const struct kernels_ops *ops, struct kernels_attention *a,
                   struct outcome *outcome, uint32_t first, uint32_t count)
{
    uint32_t out_floats = a->heads * kernels_head_lanes(a->head_dim);
    for (uint32_t i = first; i < first + count; i++) {
        rows[i].scores = outcome->scores + i * a->heads * a->scores_stride;
        rows[i].out = outcome->out + i * out_floats;
    }
    a->rows = rows + first;
    a->rows_count = count;
    ops->scores(a);
    ops->weigh(a);
}

static void compare(const struct kernels_attention *a, uint32_t count)
{
    uint32_t out_floats = a->heads * kernels_head_lanes(a->head_dim);
    for (uint32_t q = 0; q < count * a->heads; q++) {
        const float *row = got.scores + q * a->scores_stride;
        uint32_t tokens = rows[q / a->heads].tokens;
        assert_memory_equal(row, expected.scores + q * a->scores_stride, tokens * sizeof *row);
        assert_true(isfinite(row[0]) && isfinite(row[tokens - 1]));
        for (uint32_t i = 0; i < KERNELS_PANEL_LANES; i++) {    /* past the last stretch */
            assert_true(isnan(row[a->scores_stride - 1 - i]));
        }
    }
    assert_memory_equal(got.out, expected.out, count * out_floats * sizeof(float));
    for (uint32_t i = 0; i < count * out_floats; i++) {
        assert_true(isfinite(got.out[i]));
    }
    assert_true(isnan(got.out[count * out_floats]));
}

/* The rows in bundles of many sizes. */
static void check_bundles(const struct kernels_ops *ops, struct kernels_attention *a,
                          uint32_t rows_count)
{
    for (uint32_t together = rows_count; together > 0; together /= 4) {
        memset(&got, 0xff, sizeof got);
        for (uint32_t i = 0; i < rows_count; i += together) {
            uint32_t left = rows_count - i;
            attend(ops, a, &got, i, left < together ? left : together);
        }
        compare(a, rows_count);
    }
}

static void check_scene(const struct scene *scene, uint64_t seed)
{
    uint64_t keys = kernels_kv_keys_bytes(scene->type, scene->head_dim, scene->block_tokens);
    uint64_t values = kernels_kv_values_bytes(scene->type, scene->head_dim, scene->block_tokens);
    struct kernels_attention a = {
        .heads = scene->heads, .head_dim = scene->head_dim, .block_tokens = scene->block_tokens,
        .type = scene->type, .keys = pool, .keys_bytes = keys, .values_bytes = values,
        .values = (uint8_t *)pool + sizeof pool / (keys + values) * keys, .scores_stride = STRIDE,
    };
    tables_make(scene, &seed);
    rows_make(scene, &a, &seed);
    memset(&expected, 0xff, sizeof expected);
    for (uint32_t i = 0; i < scene->rows; i++) {
        attend(&kernels_ops_plain, &a, &expected, i, 1);
    }
    struct sets sets = sets_find();
    check_bundles(&kernels_ops_plain, &a, scene->rows);
    for (uint32_t s = 0; s < sets.count; s++) {
        check_bundles(sets.ops[s], &a, scene->rows);
    }
}

static void test_rows_together_get_the_bits_of_each_alone(void **state)
{
    (void)state;
    const uint32_t dims[] = {2, 8, 12, 48, 64, 80, 100, 128, 136};
    const uint32_t block_tokens[] = {8, 16, 24, 40, 64, 128};
    uint64_t seed = 1;
    for (uint32_t d = 0; d < sizeof dims / sizeof dims[0]; d++) {
        for (uint32_t heads = 1; heads <= HEADS_MAX; heads++) {
            struct scene scene = {
                .rows = 1 + tiny_random(&seed) % (heads == 1 ? ROWS_MAX : 12),
                .heads = heads, .head_dim = dims[d],
                .block_tokens = block_tokens[(heads + d) % 6],
                .tables = 1 + tiny_random(&seed) % POOL_ROWS,
            };
            for (uint32_t type = 0; type < KERNELS_KV_TYPES; type++) {
                scene.type = (enum kernels_kv_type)type;
                check_scene(&scene, heads * 64 + d);
            }
        }
    }
}

/* ---- the engine ---- */

enum { CALLS = 7, SHARED_TOKENS = 19, SHARED_BLOCKS = 2, DECODED = 6, CALL_TOKENS = 40 };

static struct tiny tiny;

static void start(struct rig *rig, uint32_t threads, enum kernels_kv_type kv_type)
{
    struct arena *arena = test_arena();
    struct kernels_settings settings = rig_settings(kernels_simd_best(), threads);
    settings.kv_type = kv_type;
    tiny_make(&tiny, GGUF_F32, false, 7);
    rig_start(rig, &settings, tiny_weights(&tiny, arena), arena);
    rig_clear(rig);
}

/* All calls begin alike; call c is c tokens longer than the first. */
static uint32_t call_tokens(uint32_t call, uint32_t *tokens)
{
    for (uint32_t i = 0; i < CALL_TOKENS; i++) {
        tokens[i] = (i * 11 + (i < SHARED_TOKENS ? 0 : call) + 3) % 75;
    }
    return SHARED_TOKENS + 1 + call;
}

/* The first blocks of a call's table are those of call 0. */
static void share_blocks(struct rig *rig, uint32_t row, uint32_t call, uint32_t shared)
{
    rig_blocks(rig, row, 16 * call, 1);
    for (uint32_t i = 0; i < shared; i++) {
        step_blocks(&rig->step, row)[i] = i;
    }
}

struct answer {
    uint32_t tokens[DECODED];
    uint64_t digest;
};

static void answer_take(struct answer *answer, const struct rig *rig, uint32_t row)
{
    assert_int_equal(step_out(&rig->step, row)->produced, DECODED);
    memcpy(answer->tokens, step_out_tokens(&rig->step, row), sizeof answer->tokens);
    answer->digest = step_out(&rig->step, row)->digest;
}

static void answers_alone(struct rig *rig, struct answer *answers)
{
    uint32_t tokens[CALL_TOKENS];
    for (uint32_t c = 0; c < CALLS; c++) {
        rig_clear(rig);
        rig_row(rig, tokens, call_tokens(c, tokens), 0, DECODED);
        share_blocks(rig, 0, c, 0);
        kernels_run(rig->kernels, &rig->step);
        answer_take(&answers[c], rig, 0);
    }
}

/* One call computes the beginning, then all go on after it, in another order of rows. */
static void answers_together(struct rig *rig, struct answer *answers, uint32_t order)
{
    uint32_t tokens[CALL_TOKENS], fed = SHARED_BLOCKS * 8;
    memset(rig->kernels->kv, 0xff,
           rig->settings.kv_blocks * rig->kernels->kv_block_bytes);
    rig_clear(rig);
    call_tokens(0, tokens);
    rig_row(rig, tokens, fed, 0, 0);
    share_blocks(rig, 0, 0, 0);
    kernels_run(rig->kernels, &rig->step);
    rig_clear(rig);
    for (uint32_t r = 0; r < CALLS; r++) {
        uint32_t call = (r * 3 + order) % CALLS;
        rig_row(rig, tokens + fed, call_tokens(call, tokens) - fed, fed, DECODED);
        share_blocks(rig, r, call, SHARED_BLOCKS);
    }
    kernels_run(rig->kernels, &rig->step);
    for (uint32_t r = 0; r < CALLS; r++) {
        answer_take(&answers[(r * 3 + order) % CALLS], rig, r);
    }
}

static void test_calls_that_share_blocks_say_what_each_says_alone(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3 * KERNELS_KV_TYPES; i++) {
        struct answer alone[CALLS], together[CALLS];
        struct rig rig;
        start(&rig, 1 + i / KERNELS_KV_TYPES, (enum kernels_kv_type)(i % KERNELS_KV_TYPES));
        answers_alone(&rig, alone);
        for (uint32_t order = 0; order < CALLS; order++) {
            rig.kernels->scores_floats = order % 2 ? 0 : KERNELS_SCORES_FLOATS;
            answers_together(&rig, together, order);
            assert_memory_equal(alone, together, sizeof alone);
        }
        kernels_stop(rig.kernels);
    }
}

/* ---- bundles ---- */

/* A table for each row: 0 1 0 1 ..., of which the odd ones have blocks of their own after the
 * first; and a row that shares no block. */
static void rows_of_two_prompts(struct rig *rig, uint32_t tokens_count)
{
    static const uint32_t tokens[1] = {1};
    rig_clear(rig);
    for (uint32_t r = 0; r < 8; r++) {
        rig_row(rig, tokens, 1, tokens_count - 1 + r % 4, 1);
        for (uint32_t i = 0; i < rig->settings.blocks_per_call; i++) {
            step_blocks(&rig->step, r)[i] = r == 5 ? 100 + i : r % 2 * 16 + i;
            step_blocks(&rig->step, r)[i] += r % 2 && i > 0 && r != 5 ? r * 8 : 0;
        }
    }
}

static bool is_together(const struct kernels *k, const struct kernels_bundle *bundle,
                        uint32_t rows_set)
{
    uint32_t found = 0;
    for (uint32_t i = bundle->first; i < bundle->end; i++) {
        found |= 1u << k->slots[k->attend_order[i]].row;
    }
    return found == rows_set;
}

static void test_rows_that_share_stand_together(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig, 1, KERNELS_KV_F32);
    rig.kernels->shape.heads = 2;       /* a query for each row and head: bundles may be long */
    rows_of_two_prompts(&rig, 30);
    struct kernels *k = rig.kernels;
    k->step = &rig.step;
    for (uint32_t r = 0; r < 8; r++) {
        k->slots[r] = (struct kernels_slot){
            .row = r, .position = step_row(&rig.step, r)->first_position};
    }
    k->threads.active = 1;

    kernels_bundle(k, k->slots, 8);

    assert_int_equal(k->bundles_count, 3);
    assert_true(is_together(k, &k->bundles[0], 0x55));
    assert_true(is_together(k, &k->bundles[1], 0x8a));
    assert_true(is_together(k, &k->bundles[2], 0x20));
    assert_int_equal(k->bundles[0].tokens, 32);
    assert_int_equal(k->bundles[1].tokens, 33);
    for (uint32_t i = 1; i < 4; i++) {          /* of one table, rows that see more come first */
        assert_true(k->slots[k->attend_order[i - 1]].position >=
                    k->slots[k->attend_order[i]].position);
    }
    k->scores_floats = 3 * kernels_scores_stride(33);
    kernels_bundle(k, k->slots, 8);
    assert_int_equal(k->bundles_count, 4);
    assert_int_equal(k->bundles[0].end, 3);
    k->scores_floats = 0;
    kernels_bundle(k, k->slots, 8);
    assert_int_equal(k->bundles_count, 8);
    static const uint32_t kin_first[8] = {0, 0, 0, 0, 4, 4, 4, 7};
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(k->bundles[i].kin_first, kin_first[i]);
    }
    assert_int_equal(k->bundles[0].kin_count, 4);
    assert_int_equal(k->bundles[4].kin_count, 3);
    assert_int_equal(k->bundles[7].kin_count, 1);
    kernels_stop(k);
}

/* Its slots are the first PROMPT_SLOTS tokens of one prompt. */
static struct kernels *start_prompt(struct rig *rig)
{
    start(rig, 1, KERNELS_KV_F32);
    rig->kernels->step = &rig->step;
    for (uint32_t i = 0; i < PROMPT_SLOTS; i++) {
        rig->kernels->slots[i] = (struct kernels_slot){.row = 0, .position = i};
    }
    return rig->kernels;
}

/* Bundles are so small that every thread gets four units. */
static void test_bundles_leave_work_for_every_thread(void **state)
{
    (void)state;
    struct rig rig;
    struct kernels *k = start_prompt(&rig);
    k->shape.heads = k->shape.kv_heads = 2;
    const struct {
        uint32_t threads, rows, bundles;
    } cases[] = {{1, 80, 3}, {2, 80, 5}, {3, 80, 7}, {16, 80, 7}, {16, 9, 1}, {1, 1, 1}};
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        k->threads.active = cases[i].threads;
        kernels_bundle(k, k->slots, cases[i].rows);
        assert_int_equal(k->bundles_count, cases[i].bundles);
    }
    k->threads.active = 1;
    k->shape.heads = k->shape.kv_heads = 6;
    kernels_bundle(k, k->slots, PROMPT_SLOTS);
    assert_int_equal(k->bundles[0].end, KERNELS_BUNDLE_ROWS);
    kernels_stop(k);
}

/* Where there is room for a tile and a part of another one, the part would read all keys again. */
static void test_bundles_have_whole_tiles(void **state)
{
    (void)state;
    struct rig rig;
    struct kernels *k = start_prompt(&rig);
    const struct {
        uint32_t heads, kv_heads, room, first;  /* rows that have room; those of the first bundle */
    } cases[] = {{24, 24, 4, 4}, {24, 24, 6, 6}, {24, 24, 7, 6}, {24, 24, 17, 12}, {24, 24, 60, 48},
                 {96, 24, 2, 2}, {96, 24, 5, 3}, {96, 24, 6, 6}, {24, 4, 5, 5}};
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        k->shape.heads = cases[i].heads;
        k->shape.kv_heads = cases[i].kv_heads;
        k->scores_floats = cases[i].room * kernels_group(&k->shape) *
                           kernels_scores_stride(PROMPT_SLOTS);
        kernels_bundle(k, k->slots, PROMPT_SLOTS);
        assert_int_equal(k->bundles[0].end, cases[i].first);
    }
    kernels_stop(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_together_get_the_bits_of_each_alone),
        cmocka_unit_test(test_calls_that_share_blocks_say_what_each_says_alone),
        cmocka_unit_test(test_rows_that_share_stand_together),
        cmocka_unit_test(test_bundles_leave_work_for_every_thread),
        cmocka_unit_test(test_bundles_have_whole_tiles),
    };
    sets_say();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
