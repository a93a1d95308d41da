/* SPDX-License-Identifier: MIT
 *
 * Goal: the device always draws the token that kernels_sample() draws from the same logits, with
 * whatever penalties and biases. It reports logits that are not finite, keeps the digest, and
 * writes only rows that sample.
 * Method: two thousand random draws, every option on and off and at its edges, distributions from
 * flat to steep, many equal logits, vocabularies of odd sizes; the CPU's function as the twin.
 */
#include "selftest/unit/cuda/gpu_rig.h"

#include "config/base/fnv.h"
#include "config/base/step.h"
#include "kernels/sample.h"

enum { VOCAB_MAX = 9001, STEPS = 8, PLACES = 4, ROWS = 6, PAST_MAX = 700 };

struct scene {
    struct gpu_sample args;
    struct gpu_row *rows;
    struct gpu_place *places;
    struct gpu_out *outs;
    uint32_t *tokens, *past;
    struct gpu_bias *biases;
    float *logits;
};

static struct scene scene;

/* Four places, with rows 4, 2, 0 and 5; rows 1 and 3 have none. */
static void scene_make(uint32_t vocab)
{
    const struct gpu_place places[PLACES] = {
        {4, 1, 0, 0}, {2, 0, 0, 0}, {0, 7, 0, 0}, {5, 2, 0, 0}};
    uint64_t stride = vocab + 7;
    scene.places = rig_copy(places, sizeof places);
    scene.rows = memset(rig_take(ROWS * sizeof *scene.rows), 0, ROWS * sizeof *scene.rows);
    scene.outs = memset(rig_take(ROWS * sizeof *scene.outs), 0, ROWS * sizeof *scene.outs);
    scene.tokens = rig_take(ROWS * STEPS * sizeof *scene.tokens);
    scene.past = rig_take(ROWS * PAST_MAX * sizeof *scene.past);
    scene.biases = rig_take(ROWS * GPU_BIASES_MAX * sizeof *scene.biases);
    scene.logits = rig_floats((PLACES - 1) * stride + vocab);
    scene.args = (struct gpu_sample){
        .logits = rig_address(scene.logits),
        .weights = rig_address(rig_take(((PLACES - 1) * stride + vocab) * sizeof(float))),
        .memory = rig_address(rig_take(PLACES * gpu_sample_memory_bytes(vocab))),
        .memory_bytes = gpu_sample_memory_bytes(vocab),
        .places = rig_address(scene.places),
        .rows = rig_address(scene.rows),
        .outs = rig_address(scene.outs),
        .out_tokens = rig_address(scene.tokens),
        .past = rig_address(scene.past),
        .biases = rig_address(scene.biases),
        .past_max = PAST_MAX,
        .logits_stride = stride,
        .weights_stride = stride,
        .places_count = PLACES,
        .vocab_tokens = vocab,
        .steps_max = STEPS,
    };
    for (uint32_t i = 0; i < ROWS; i++) {
        scene.rows[i].top_p = scene.rows[i].repeat_penalty = 1;
        scene.rows[i].tokens_count = 1;
    }
}

/* All kernels of sampling. */
static void sample_places(void)
{
    const struct gpu_sample_scan scan = {scene.args};
    const struct gpu_sample_weigh weigh = {scene.args};
    const struct gpu_sample_gather gather = {scene.args};
    RIG_LAUNCH(sample_scan, &scan);
    RIG_LAUNCH(sample_weigh, &weigh);
    RIG_LAUNCH(sample_gather, &gather);
    RIG_LAUNCH(sample, &scene.args);
}

/* And what they have sampled counts. */
static void sample(void)
{
    const struct gpu_settle settle = {
        .logits = scene.args.logits, .places = scene.args.places, .rows = scene.args.rows,
        .outs = scene.args.outs, .out_tokens = scene.args.out_tokens,
        .logits_stride = scene.args.logits_stride, .own_count = PLACES,
        .vocab_tokens = scene.args.vocab_tokens, .steps_max = STEPS};
    sample_places();
    RIG_LAUNCH(settle, &settle);
}

/* One of few values, so that each comes often. */
static float pick(const float *values, uint32_t count)
{
    return values[rig_random(count)];
}

static void row_random(struct gpu_row *row, uint32_t vocab)
{
    static const float temperatures[] = {0, 0.01f, 0.3f, 1, 1, 2, 100};
    static const float top_ps[] = {1, 1, 0.9f, 0.5f, 1e-6f, 0.999999f};
    static const float min_ps[] = {0, 0, 0.05f, 0.5f, 0.999f};
    static const float penalties[] = {1, 1, 1.3f, 0.5f, 10};
    const uint32_t top_ks[] = {0, 0, 1, 2, 40, vocab - 1, vocab, vocab + 1};
    row->seed = (uint64_t)rig_random(1u << 31) << 32 | rig_random(1u << 31);
    row->temperature = pick(temperatures, 7);
    row->top_p = pick(top_ps, 6);
    row->min_p = pick(min_ps, 5);
    row->repeat_penalty = pick(penalties, 5);
    row->top_k = top_ks[rig_random(8)];
    row->first_position = rig_random(1000);
    row->history_count = rig_random(2) * rig_random(GPU_HISTORY_TOKENS + 1);
    for (uint32_t i = 0; i < row->history_count; i++) {
        row->history[i] = rig_random(vocab + 3);        /* some are no tokens of this model */
    }
}

/* Many tokens come twice; a bias moves a token across all others, or hardly. */
static void adjustments_random(uint32_t r, uint32_t vocab)
{
    static const float penalties[] = {0, 0, 0.1f, 1.5f, -2, 2};
    static const float biases[] = {0, 0.25f, -3, 100, -100};
    struct gpu_row *row = &scene.rows[r];
    row->presence_penalty = pick(penalties, 6);
    row->frequency_penalty = pick(penalties, 6);
    row->generated_count = rig_random(2) * rig_random(PAST_MAX + 1);
    row->past_count = row->generated_count + rig_random(PAST_MAX + 1 - row->generated_count);
    for (uint32_t i = 1; i <= row->generated_count; i++) {
        scene.past[r * PAST_MAX + row->past_count - i] = rig_random(vocab);
    }
    uint32_t most = rig_random(2) * rig_random(GPU_BIASES_MAX + 1), next = rig_random(vocab);
    struct gpu_bias *row_biases = scene.biases + r * GPU_BIASES_MAX;
    for (; row->biases_count < most && next < vocab; next += 1 + rig_random(20)) {
        row_biases[row->biases_count++] = (struct gpu_bias){next, pick(biases, 5)};
    }
}

/* Flat, steep, or of few values. */
static void logits_random(float *logits, uint32_t vocab)
{
    uint32_t kind = rig_random(4);
    for (uint32_t i = 0; i < vocab; i++) {
        float x = rig_number();
        logits[i] = kind == 0 ? x : kind == 1 ? 30 * x : kind == 2 ? floorf(3 * x) : 8 * x * x * x;
    }
}

static uint32_t cpu_token(uint32_t r, const float *logits, uint32_t vocab, uint32_t produced)
{
    const struct gpu_row *row = &scene.rows[r];
    static float weights[VOCAB_MAX + 8];
    static uint32_t ranking[VOCAB_MAX];
    struct kernels_sampler sampler = {&kernels_ops_plain, vocab, weights, ranking};
    struct call_sampling sampling = {
        .seed = row->seed,
        .temperature = row->temperature,
        .top_p = row->top_p,
        .min_p = row->min_p,
        .repeat_penalty = row->repeat_penalty,
        .presence_penalty = row->presence_penalty,
        .frequency_penalty = row->frequency_penalty,
        .biases_count = row->biases_count,
        .top_k = row->top_k,
    };
    struct call_bias biases[CALL_BIASES_MAX];
    memcpy(biases, scene.biases + r * GPU_BIASES_MAX, sizeof biases);
    const struct kernels_given given = {
        .history = row->history, .history_count = row->history_count,
        .generated = scene.past + r * PAST_MAX + row->past_count - row->generated_count,
        .generated_count = row->generated_count,
        .produced = scene.tokens + r * STEPS, .produced_count = produced, .biases = biases};
    return kernels_sample(&sampler, logits, &sampling, &given,
                          row->first_position + row->tokens_count + produced);
}

static const float *place_logits(uint32_t place)
{
    return scene.logits + place * scene.args.logits_stride;
}

static void check_place(uint32_t place, uint32_t step)
{
    uint32_t r = scene.places[place].row, vocab = scene.args.vocab_tokens;
    const uint32_t *tokens = scene.tokens + r * STEPS;
    assert_int_equal(scene.outs[r].result, STEP_ROW_OK);
    assert_int_equal(scene.outs[r].produced, step + 1);
    assert_int_equal(tokens[step], cpu_token(r, place_logits(place), vocab, step));
}

static uint32_t lists[2];           /* ranked draws without and with a list */

static void count_lists(uint32_t vocab)
{
    for (uint32_t place = 0; place < PLACES; place++) {
        const struct gpu_row *row = &scene.rows[scene.places[place].row];
        const struct gpu_sample_memory *memory =
            (const void *)(uintptr_t)(scene.args.memory + place * scene.args.memory_bytes);
        lists[memory->listed > 0] += gpu_row_is_ranked(row);
        assert_true(memory->listed <= vocab);
    }
}

static void check_draws(uint32_t vocab, uint32_t steps)
{
    scene_make(vocab);
    for (uint32_t r = 0; r < ROWS; r++) {
        row_random(&scene.rows[r], vocab);
        adjustments_random(r, vocab);
    }
    for (uint32_t step = 0; step < steps; step++) {
        for (uint32_t place = 0; place < PLACES; place++) {
            logits_random(scene.logits + place * scene.args.logits_stride, vocab);
        }
        sample();
        count_lists(vocab);
        for (uint32_t place = 0; place < PLACES; place++) {
            check_place(place, step);
        }
    }
    rig_teardown(NULL);
}

static void test_sample_same_token_as_the_cpu(void **state)
{
    (void)state;
    const uint32_t vocabs[] = {1, 2, 31, 256, 257, 1000};
    for (uint32_t i = 0; i < 48; i++) {
        check_draws(vocabs[i % 6], 5);
    }
}

/* Several slices; draws with a list, and such that have more candidates than a list. */
static void test_sample_same_token_of_a_large_vocabulary(void **state)
{
    (void)state;
    const uint32_t vocabs[] = {GPU_SLICE_TOKENS, GPU_SLICE_TOKENS + 1, VOCAB_MAX};
    lists[0] = lists[1] = 0;
    for (uint32_t i = 0; i < 6; i++) {
        check_draws(vocabs[i % 3], 2);
    }
    assert_true(lists[0] > 2 && lists[1] > 2);
}
/* The cut falls between two of equal weight: the lower id stays, in every kind of cut. */
static void test_sample_equal_logits_lower_id_stays(void **state)
{
    (void)state;
    scene_make(300);
    for (uint32_t i = 0; i < 300; i++) {
        scene.logits[2 * scene.args.logits_stride + i] = i % 2 == 0 ? -1.0f : 2.0f;
    }
    struct gpu_row *row = &scene.rows[0];
    row->temperature = 1;
    row->top_k = 3;
    uint32_t met = 0;
    for (uint32_t seed = 0; seed < 64; seed++) {
        row->seed = seed;
        memset(scene.outs, 0, ROWS * sizeof *scene.outs);
        sample();
        uint32_t token = scene.tokens[0];
        assert_true(token == 1 || token == 3 || token == 5);
        met |= 1u << token;
    }
    assert_int_equal(met, 1u << 1 | 1u << 3 | 1u << 5);
}

/* A random number of exactly one half, and two tokens of the same weight: the sum of the first is
 * reached and not exceeded, so it is the second. */
static void test_sample_sum_must_be_exceeded(void **state)
{
    (void)state;
    for (uint32_t ranked = 0; ranked < 2; ranked++) {
        scene_make(2);
        scene.logits[0] = scene.logits[1] = 3;
        scene.rows[4].seed = UINT64_C(0x998ead70ae4918a9);
        scene.rows[4].temperature = 1;
        scene.rows[4].min_p = 0.5f * (float)ranked;
        sample();
        assert_int_equal(scene.tokens[4 * STEPS], 1);
        check_place(0, 0);
    }
}

static void test_sample_not_finite_is_reported(void **state)
{
    (void)state;
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (uint32_t i = 0; i < 3; i++) {
        scene_make(300);
        scene.outs[2] = (struct gpu_out){STEP_ROW_OK, 3, 77, 0, 0, 0};
        scene.logits[scene.args.logits_stride + 299 - 100 * i] = bad[i];
        sample();
        assert_int_equal(scene.outs[2].result, STEP_ROW_NOT_FINITE);
        assert_int_equal(scene.outs[2].produced, 0);
        assert_int_equal(scene.outs[2].digest, 0);
        check_place(0, 0);
        check_place(2, 0);
    }
}

/* A place in a draft samples as if the tokens before it had been sampled, one after the other. */
static void test_sample_in_a_draft_as_token_by_token(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 100; i++) {
        uint32_t vocab = i % 2 == 0 ? 40 : 300, produced = rig_random(STEPS - PLACES);
        scene_make(vocab);
        row_random(&scene.rows[2], vocab);
        adjustments_random(2, vocab);
        scene.outs[2].produced = produced;
        for (uint32_t t = 0; t < STEPS; t++) {
            scene.tokens[2 * STEPS + t] = rig_random(vocab);
        }
        for (uint32_t place = 0; place < PLACES; place++) {
            scene.places[place] = (struct gpu_place){.row = 2, .slot = place, .ahead = place};
            logits_random(scene.logits + place * scene.args.logits_stride, vocab);
        }
        sample_places();
        for (uint32_t place = 0; place < PLACES; place++) {
            assert_int_equal(scene.places[place].token,
                             cpu_token(2, place_logits(place), vocab, produced + place));
        }
        assert_int_equal(scene.outs[2].produced, produced);
        rig_teardown(NULL);
    }
}

/* A penalty makes the largest logit infinite: no weight would be a number. */
static void test_sample_beyond_floats_by_a_penalty_is_reported(void **state)
{
    (void)state;
    scene_make(300);
    struct gpu_row *row = &scene.rows[2];
    row->temperature = 1;
    row->top_p = 0.9f;
    row->repeat_penalty = 0.1f;
    row->history_count = 1;
    row->history[0] = 17;
    scene.logits[scene.args.logits_stride + 17] = 3e38f;
    sample();
    assert_int_equal(scene.outs[2].result, STEP_ROW_NOT_FINITE);
    assert_int_equal(scene.outs[2].produced, 0);
    check_place(0, 0);
}

static void test_sample_digest_is_the_cpus(void **state)
{
    (void)state;
    uint64_t digest = FNV_START;
    scene_make(100);
    scene.rows[4].wants_digest = 1;
    for (uint32_t step = 0; step < 3; step++) {
        logits_random(scene.logits, 100);
        sample();
        digest = fnv_add(digest, scene.logits, 100 * sizeof(float));
        assert_true(scene.outs[4].digest == digest);
        assert_int_equal(scene.outs[2].digest, 0);
    }
}

/* Logits stay, and so do rows without a place and places that do not sample. */
static void test_sample_others_stay(void **state)
{
    (void)state;
    scene_make(300);
    uint64_t floats = 3 * scene.args.logits_stride + 300;
    float *before = rig_copy(scene.logits, floats * sizeof *before);
    scene.places[1].slot = GPU_NONE;
    scene.places[3] = (struct gpu_place){.row = GPU_NONE, .slot = GPU_NONE};
    for (uint32_t r = 0; r < ROWS; r++) {
        row_random(&scene.rows[r], 300);
    }
    sample();
    assert_memory_equal(scene.logits, before, floats * sizeof *before);
    for (uint32_t r = 0; r < ROWS; r++) {
        bool samples = r == 4 || r == 0;
        assert_int_equal(scene.outs[r].produced, samples);
        assert_int_equal(scene.tokens[r * STEPS] == UINT32_MAX, !samples);
    }
}

static const struct CMUnitTest tests[] = {
    RIG_TEST(test_sample_same_token_as_the_cpu),
    RIG_TEST(test_sample_same_token_of_a_large_vocabulary),
    RIG_TEST(test_sample_equal_logits_lower_id_stays),
    RIG_TEST(test_sample_sum_must_be_exceeded),
    RIG_TEST(test_sample_not_finite_is_reported),
    RIG_TEST(test_sample_in_a_draft_as_token_by_token),
    RIG_TEST(test_sample_beyond_floats_by_a_penalty_is_reported),
    RIG_TEST(test_sample_digest_is_the_cpus),
    RIG_TEST(test_sample_others_stay),
};

rig_main(tests)
