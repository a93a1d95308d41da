/* SPDX-License-Identifier: MIT
 *
 * Goal: a row's tokens and logits depend on its own call only.
 * Method: a small random model with odd sizes. The same call runs alone, in batches, in chunks of
 * every kind, on 1 to 3 threads, over scrambled KV blocks full of NaN, with plain and with AVX2
 * kernels, as an active row and as a standby row, with KV in floats and in halves; all results are
 * compared bit for bit. A naive forward pass in double guards against errors that all of these
 * share: the largest difference of a logit must stay below 2e-4, with halves below 5e-3 (logits are
 * about 1).
 */
#define TEST_ARENA_BYTES (32u << 20)
#include "selftest/unit/test.h"

#include "config/base/fnv.h"
#include "kernels/half.h"
#include "selftest/unit/kernels/tiny_model.h"

static struct tiny tiny;
static const uint32_t prompt[] = {1,  17, 42, 9, 63, 74, 0,  5,  5, 31,
                                  28, 50, 11, 2, 70, 36, 12, 8, 66};
#define PROMPT_TOKENS (sizeof prompt / sizeof prompt[0])
#define DECODED 8

struct answer {
    uint32_t tokens[DECODED];
    float logits[75];
    uint64_t digest;
};

static void answer_take(struct answer *answer, const struct rig *rig)
{
    assert_int_equal(step_out(&rig->step, 0)->result, STEP_ROW_OK);
    assert_int_equal(step_out(&rig->step, 0)->produced, DECODED);
    memcpy(answer->tokens, step_out_tokens(&rig->step, 0), sizeof answer->tokens);
    memcpy(answer->logits, kernels_logits(rig->kernels, 0), sizeof answer->logits);
    answer->digest = step_out(&rig->step, 0)->digest;
}

/* Every number that an engine has not written yet is a NaN. */
static void poison(struct rig *rig)
{
    memset(rig->kernels->kv, 0xff,
           rig->settings.kv_blocks * rig->kernels->kv_block_bytes);
    memset(rig->kernels->kv_host, 0xff,
           rig->settings.kv_host_blocks * rig->kernels->kv_block_bytes);
}

static void run_alone(struct answer *answer, struct rig *rig, uint32_t first, uint32_t stride)
{
    rig_clear(rig);
    rig_row(rig, prompt, PROMPT_TOKENS, 0, DECODED);
    rig_blocks(rig, 0, first, stride);
    kernels_run(rig->kernels, &rig->step);
    answer_take(answer, rig);
}

static void assert_same(const struct answer *a, const struct answer *b)
{
    assert_memory_equal(a->tokens, b->tokens, sizeof a->tokens);
    assert_memory_equal(a->logits, b->logits, sizeof a->logits);
    assert_int_equal(a->digest, b->digest);
}

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
static void check_same_bits(bool halves)
{
    struct answer expected;
    bool known = false;
    for (uint32_t threads = 1; threads <= 3; threads++) {
        for (enum kernels_simd simd = KERNELS_PLAIN; simd <= kernels_simd_best(); simd++) {
            struct arena *arena = test_arena();
            struct kernels_weights *weights = tiny_weights(&tiny, arena);
            struct kernels_settings settings = rig_settings(simd, threads);
            settings.kv_halves = halves;
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
            check_same_bits(false);
            if (tiny_types[i] == GGUF_F32) {
                check_same_bits(true);
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
        check_same_bits(false);
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

static void start_plain(struct rig *rig, enum gguf_type type)
{
    struct arena *arena = test_arena();
    tiny_make(&tiny, type, false, 7);
    struct kernels_settings settings = rig_settings(kernels_simd_best(), 2);
    rig_start(rig, &settings, tiny_weights(&tiny, arena), arena);
}

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

/* ---- standbys ---- */

enum { STANDBY_CALLS = 8, STANDBY_PLACES = 3 };

struct standby_call {
    uint32_t wanted;                /* decode steps of the row */
    uint32_t stop;                  /* its stop id, or none */
    uint32_t alone[DECODED];        /* its tokens when it runs alone */
    uint32_t expected;              /* the number of these that must come */
};

static uint32_t standby_tokens(uint32_t call)
{
    return 5 + call;
}

/* The rule of step.h, round by round. */
static void expect_places(struct standby_call *calls)
{
    uint32_t next = STANDBY_PLACES;
    uint32_t places[STANDBY_PLACES] = {0, 1, 2};
    for (uint32_t round = 0; round < DECODED; round++) {
        for (uint32_t p = 0; p < STANDBY_PLACES; p++) {
            struct standby_call *call = &calls[places[p]];
            bool ends = call->wanted == 0;
            if (!ends) {
                uint32_t token = call->alone[call->expected++];
                ends = call->expected == call->wanted || token == call->stop;
            }
            if (ends && next < STANDBY_CALLS) {
                places[p] = next++;
            } else if (ends) {
                places[p] = STANDBY_CALLS;      /* no row: needs no token */
            }
        }
    }
}

/* All but the last token of each call, so that one is left to feed; in chunks of a step. */
static void standby_prefill(struct rig *rig)
{
    poison(rig);
    rig_clear(rig);
    for (uint32_t i = 0; i < STANDBY_CALLS; i++) {
        rig_row(rig, prompt + i, standby_tokens(i) - 1, 0, 0);
        rig_blocks(rig, i, 16 * i, 1);
    }
    kernels_run(rig->kernels, &rig->step);
    rig_clear(rig);
}

static void standby_row(struct rig *rig, uint32_t call, const struct standby_call *as)
{
    uint32_t fed = standby_tokens(call) - 1;
    uint32_t r = step_header(&rig->step)->rows_count;
    struct step_row *row = rig_row(rig, prompt + call + fed, 1, fed, as->wanted);
    row->sampling.stop_ids_count = 1;
    row->sampling.stop_ids[0] = as->stop;
    rig_blocks(rig, r, 16 * call, 1);
}

static void check_standbys(struct rig *rig, struct standby_call *calls)
{
    calls[STANDBY_CALLS] = (struct standby_call){.wanted = 0};
    expect_places(calls);
    standby_prefill(rig);
    for (uint32_t i = 0; i < STANDBY_CALLS; i++) {
        standby_row(rig, i, &calls[i]);
    }
    step_header(&rig->step)->rows_active = STANDBY_PLACES;
    memset(step_out(&rig->step, 0), 0xee, STANDBY_CALLS * sizeof(struct step_out));
    kernels_run(rig->kernels, &rig->step);
    for (uint32_t i = 0; i < STANDBY_CALLS; i++) {
        assert_int_equal(step_out(&rig->step, i)->result, STEP_ROW_OK);
        assert_int_equal(step_out(&rig->step, i)->produced, calls[i].expected);
        assert_memory_equal(step_out_tokens(&rig->step, i), calls[i].alone,
                            calls[i].expected * sizeof(uint32_t));
    }
}

static void test_run_standbys_enter_where_rows_have_ended(void **state)
{
    (void)state;
    struct rig rig;
    struct standby_call calls[STANDBY_CALLS + 1] = {0};
    uint64_t random = 5;
    uint32_t entered = 0;
    start_plain(&rig, GGUF_F32);
    standby_prefill(&rig);
    for (uint32_t i = 0; i < STANDBY_CALLS; i++) {
        standby_row(&rig, i, &(struct standby_call){.wanted = DECODED, .stop = UINT32_MAX});
        kernels_run(rig.kernels, &rig.step);
        memcpy(calls[i].alone, step_out_tokens(&rig.step, 0), sizeof calls[i].alone);
        rig_clear(&rig);
    }
    for (uint32_t round = 0; round < 60; round++) {
        for (uint32_t i = 0; i < STANDBY_CALLS; i++) {
            bool may_be_chunk = i < STANDBY_PLACES;
            calls[i].wanted = (may_be_chunk ? 0 : 1) + tiny_random(&random) % DECODED;
            calls[i].stop = tiny_random(&random) % 3 == 0
                                ? calls[i].alone[tiny_random(&random) % DECODED] : UINT32_MAX;
            calls[i].expected = 0;
        }
        check_standbys(&rig, calls);
        entered += calls[STANDBY_PLACES].expected > 0;
    }
    assert_true(entered > 30);
    kernels_stop(rig.kernels);
}

static void test_run_standby_gets_the_place_of_a_failed_row(void **state)
{
    (void)state;
    struct rig rig;
    struct standby_call as = {.wanted = DECODED, .stop = UINT32_MAX};
    start_plain(&rig, GGUF_F32);
    standby_prefill(&rig);
    standby_row(&rig, 0, &as);
    rig_blocks(&rig, 0, 120, 1);        /* NaN */
    standby_row(&rig, 1, &as);
    standby_row(&rig, 2, &as);
    step_header(&rig.step)->rows_active = 1;
    kernels_run(rig.kernels, &rig.step);
    assert_int_equal(step_out(&rig.step, 0)->result, STEP_ROW_NOT_FINITE);
    assert_int_equal(step_out(&rig.step, 1)->produced, DECODED - 1);
    assert_int_equal(step_out(&rig.step, 2)->produced, 0);
    kernels_stop(rig.kernels);
}

/* ---- early stop ---- */

/* Three places; the row of the second one needs three tokens, the standby row two. */
static void check_stop(struct rig *rig, enum step_stop early_stop, uint32_t standbys,
                        const uint32_t *expected, uint32_t rounds)
{
    static const uint32_t wanted[] = {DECODED, 3, DECODED, 2};
    uint32_t whole[4][DECODED];
    for (uint32_t hasty = 0; hasty < 2; hasty++) {
        standby_prefill(rig);
        for (uint32_t i = 0; i < STANDBY_PLACES + standbys; i++) {
            standby_row(rig, i, &(struct standby_call){.wanted = wanted[i], .stop = UINT32_MAX});
        }
        step_header(&rig->step)->rows_active = STANDBY_PLACES;
        step_stop_early(&rig->step, hasty ? early_stop : STEP_STOP_LAST);
        kernels_run(rig->kernels, &rig->step);
        for (uint32_t i = 0; i < STANDBY_PLACES + standbys; i++) {
            uint32_t produced = step_out(&rig->step, i)->produced;
            assert_int_equal(produced, hasty ? expected[i] : wanted[i]);
            if (hasty) {
                assert_memory_equal(step_out_tokens(&rig->step, i), whole[i], produced * 4);
            }
            memcpy(whole[i], step_out_tokens(&rig->step, i), sizeof whole[i]);
        }
        assert_int_equal(*step_rounds(&rig->step), hasty ? rounds : DECODED);
    }
}

static void test_run_ends_early_when_the_core_is_in_early_stop(void **state)
{
    (void)state;
    struct rig rig;
    start_plain(&rig, GGUF_F32);
    check_stop(&rig, STEP_STOP_ROUND, 0, (const uint32_t[]){1, 1, 1}, 1);
    check_stop(&rig, STEP_STOP_ROUND, 1, (const uint32_t[]){1, 1, 1, 0}, 1);
    check_stop(&rig, STEP_STOP_ROW, 0, (const uint32_t[]){3, 3, 3}, 3);
    check_stop(&rig, STEP_STOP_ROW, 1, (const uint32_t[]){5, 3, 5, 2}, 5);
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

/* ---- the naive forward pass in double ---- */

#define REF_TOKENS 20
#define REF_WIDTH  256

static double ref_weight(const struct gguf_tensor *tensor, uint64_t row, uint64_t column)
{
    return tiny_weight(tiny.bytes + tensor->offset, (enum gguf_type)tensor->type,
                       row * tensor->dims[0] + column);
}

/* NULL if this model has none. */
static const struct gguf_tensor *ref_tensor(int layer, const char *name)
{
    char full[GGUF_NAME_BYTES];
    const char *suffix = strchr(name, '.') != NULL ? "" : ".weight";
    if (layer >= 0) {
        snprintf(full, sizeof full, "blk.%d.%s%s", layer, name, suffix);
    } else {
        snprintf(full, sizeof full, "%s%s", name, suffix);
    }
    return gguf_tensor_find(&tiny.gguf, full);
}

static void ref_product(double *y, int layer, const char *name, const double *x)
{
    const struct gguf_tensor *tensor = ref_tensor(layer, name);
    for (uint64_t o = 0; o < tensor->dims[1]; o++) {
        y[o] = 0;
        for (uint64_t i = 0; i < tensor->dims[0]; i++) {
            bool rounds = tensor->type == GGUF_BF16;
            float bfloat = kernels_float_of_bfloat(kernels_bfloat_of((float)x[i]));
            y[o] += (rounds ? bfloat : x[i]) * ref_weight(tensor, o, i);
        }
    }
}

static void ref_bias(double *y, int layer, const char *name)
{
    const struct gguf_tensor *tensor = ref_tensor(layer, name);
    for (uint64_t i = 0; tensor != NULL && i < tensor->dims[0]; i++) {
        y[i] += ref_weight(tensor, 0, i);
    }
}

static void ref_norm(double *y, int layer, const char *name, const double *x)
{
    const struct gguf_tensor *tensor = ref_tensor(layer, name);
    uint64_t dim = tensor->dims[0];
    double sum = 0;
    for (uint64_t i = 0; i < dim; i++) {
        sum += x[i] * x[i];
    }
    for (uint64_t i = 0; i < dim; i++) {
        y[i] = x[i] / sqrt(sum / (double)dim + tiny.gguf.shape.norm_epsilon) *
               ref_weight(tensor, 0, i);
    }
}

static void ref_head_norms(double *v, int layer, const char *name, uint32_t heads)
{
    const struct model_shape *s = &tiny.gguf.shape;
    for (uint32_t h = 0; ref_tensor(layer, name) != NULL && h < heads; h++) {
        ref_norm(v + h * s->head_dim, layer, name, v + h * s->head_dim);
    }
}

static void ref_rope(double *v, uint32_t heads, uint32_t position)
{
    const struct model_shape *s = &tiny.gguf.shape;
    const struct gguf_tensor *factors = ref_tensor(-1, "rope_freqs");
    bool adjacent = s->family->rope_pairs == ROPE_ADJACENT;
    for (uint32_t h = 0; h < heads; h++) {
        double *head = v + h * s->head_dim;
        for (uint32_t i = 0; i < s->rope_dim / 2; i++) {
            double *x = adjacent ? &head[2 * i] : &head[i];
            double *y = adjacent ? &head[2 * i + 1] : &head[i + s->rope_dim / 2];
            double angle = position / s->rope_scale * pow(s->rope_base, -2.0 * i / s->rope_dim);
            angle /= factors ? ref_weight(factors, 0, i) : 1;
            double a = *x, b = *y;
            *x = a * cos(angle) - b * sin(angle);
            *y = a * sin(angle) + b * cos(angle);
        }
    }
}

static double ref_keys[2][REF_TOKENS][REF_WIDTH], ref_values[2][REF_TOKENS][REF_WIDTH];

static void ref_attend(double *out, const double *q, uint32_t layer, uint32_t position)
{
    const struct model_shape *s = &tiny.gguf.shape;
    for (uint32_t h = 0; h < s->heads; h++) {
        uint32_t kv = h / (s->heads / s->kv_heads) * s->head_dim;
        double weights[REF_TOKENS], total = 0;
        for (uint32_t t = 0; t <= position; t++) {
            double score = 0;
            for (uint32_t d = 0; d < s->head_dim; d++) {
                score += q[h * s->head_dim + d] * ref_keys[layer][t][kv + d];
            }
            weights[t] = exp(score / sqrt(s->head_dim));
            total += weights[t];
        }
        for (uint32_t d = 0; d < s->head_dim; d++) {
            double *sum = &out[h * s->head_dim + d];
            *sum = 0;
            for (uint32_t t = 0; t <= position; t++) {
                *sum += weights[t] / total * ref_values[layer][t][kv + d];
            }
        }
    }
}

static void ref_qkv(double *q, double *k, double *v, int layer, const double *n)
{
    const struct model_shape *s = &tiny.gguf.shape;
    ref_product(q, layer, "attn_q", n);
    ref_product(k, layer, "attn_k", n);
    ref_product(v, layer, "attn_v", n);
    ref_bias(q, layer, "attn_q.bias");
    ref_bias(k, layer, "attn_k.bias");
    ref_bias(v, layer, "attn_v.bias");
    ref_head_norms(q, layer, "attn_q_norm", s->heads);
    ref_head_norms(k, layer, "attn_k_norm", s->kv_heads);
}

static void ref_forward(double *logits, uint32_t token, uint32_t position)
{
    const struct model_shape *s = &tiny.gguf.shape;
    double x[REF_WIDTH], n[REF_WIDTH], q[REF_WIDTH], a[REF_WIDTH], y[REF_WIDTH], g[REF_WIDTH];
    for (uint32_t i = 0; i < s->dim; i++) {
        x[i] = ref_weight(ref_tensor(-1, "token_embd"), token, i);
    }
    for (uint32_t l = 0; l < s->layers; l++) {
        ref_norm(n, (int)l, "attn_norm", x);
        ref_qkv(q, ref_keys[l][position], ref_values[l][position], (int)l, n);
        ref_rope(q, s->heads, position);
        ref_rope(ref_keys[l][position], s->kv_heads, position);
        ref_attend(a, q, l, position);
        ref_product(y, (int)l, "attn_output", a);
        for (uint32_t i = 0; i < s->dim; i++) {
            x[i] += y[i];
        }
        ref_norm(n, (int)l, "ffn_norm", x);
        ref_product(g, (int)l, "ffn_gate", n);
        ref_product(y, (int)l, "ffn_up", n);
        for (uint32_t i = 0; i < s->ffn_dim; i++) {
            g[i] = g[i] / (1 + exp(-g[i])) * y[i];
        }
        ref_product(y, (int)l, "ffn_down", g);
        for (uint32_t i = 0; i < s->dim; i++) {
            x[i] += y[i];
        }
    }
    ref_norm(n, -1, "output_norm", x);
    ref_product(logits, -1, s->tied_output ? "token_embd" : "output", n);
}

/* Returns the largest difference. */
static double assert_logits_near(const struct rig *rig, const double *expected, double bound)
{
    double largest = 0;
    for (uint32_t i = 0; i < tiny.gguf.shape.vocab_tokens; i++) {
        double difference = fabs(expected[i] - (double)kernels_logits(rig->kernels, 0)[i]);
        assert_true(difference < bound);
        largest = largest > difference ? largest : difference;
    }
    return largest;
}

static void check_logits(double tolerance)
{
    double expected[REF_WIDTH];
    for (uint32_t t = 0; t < PROMPT_TOKENS; t++) {
        ref_forward(expected, prompt[t], t);
    }
    struct arena *arena = test_arena();
    struct kernels_settings settings = rig_settings(kernels_simd_best(), 1);
    struct rig rig;
    rig_start(&rig, &settings, tiny_weights(&tiny, arena), arena);
    rig_row(&rig, prompt, PROMPT_TOKENS, 0, 1);
    rig_blocks(&rig, 0, 0, 1);
    kernels_run(rig.kernels, &rig.step);
    assert_logits_near(&rig, expected, tolerance);
    kernels_stop(rig.kernels);
}

static void test_run_logits_match_naive_double(void **state)
{
    (void)state;
    const struct {
        enum gguf_type type;
        bool tied;
        double tolerance;   /* activations of eight bits are off by half a hundredth; of bfloats
                             * one in some hundred is rounded the other way, by a 256th */
        float rope_scale;
    } cases[] = {{GGUF_F32, false, 2e-4, 1}, {GGUF_F32, true, 2e-4, 1}, {GGUF_F16, false, 2e-4, 1},
                 {GGUF_BF16, false, 1e-2, 1}, {GGUF_Q8_0, false, 0.1, 1},
                 {GGUF_Q4_0, false, 0.1, 1}, {GGUF_Q4_K, false, 0.1, 1},
                 {GGUF_Q6_K, false, 0.1, 1}, {GGUF_F32, true, 2e-4, 4}};
    for (uint32_t family = 0; family < model_families_count; family++) {
        for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
            struct model_shape shape = tiny_shape(cases[c].type, cases[c].tied);
            shape.family = &model_families[family];
            shape.rope_scale = cases[c].rope_scale;
            tiny_make_shape(&tiny, &shape, cases[c].type, 11 + c);
            if (family == 0 || cases[c].tolerance < 1e-2) {     /* no family sees the type */
                check_logits(cases[c].tolerance);
            }
        }
    }
}

/* Halves round by 2^-11 at most; floats would pass the first bound, and not the second. */
static void test_run_halves_match_naive_double(void **state)
{
    (void)state;
    tiny_make(&tiny, GGUF_F32, false, 11);
    double expected[REF_WIDTH];
    for (uint32_t t = 0; t < PROMPT_TOKENS; t++) {
        ref_forward(expected, prompt[t], t);
    }
    struct arena *arena = test_arena();
    struct kernels_settings settings = rig_settings(kernels_simd_best(), 1);
    settings.kv_halves = true;
    struct rig rig;
    rig_start(&rig, &settings, tiny_weights(&tiny, arena), arena);
    rig_row(&rig, prompt, PROMPT_TOKENS, 0, 1);
    rig_blocks(&rig, 0, 0, 1);
    kernels_run(rig.kernels, &rig.step);
    double largest = assert_logits_near(&rig, expected, 5e-3);
    assert_true(largest > 1e-5);
    kernels_stop(rig.kernels);
}

/* Of keys, then of values, one channel is made so large that no half holds it. */
static void test_run_what_no_half_holds_fails_its_row(void **state)
{
    (void)state;
    static const char *const names[] = {"blk.0.attn_k.weight", "blk.1.attn_v.weight"};
    for (uint32_t i = 0; i < 4; i++) {
        struct arena *arena = test_arena();
        struct kernels_settings settings = rig_settings(kernels_simd_best(), 2);
        settings.kv_halves = i < 2;
        tiny_make(&tiny, GGUF_F32, false, 7);
        const struct gguf_tensor *tensor = gguf_tensor_find(&tiny.gguf, names[i % 2]);
        float *weights = (float *)(void *)(tiny.bytes + tensor->offset);
        for (uint64_t c = 0; c < tensor->dims[0]; c++) {
            weights[c] *= 1e6f;             /* of channel 0 of the first head */
        }
        struct rig rig;
        rig_start(&rig, &settings, tiny_weights(&tiny, arena), arena);
        rig_row(&rig, prompt, PROMPT_TOKENS, 0, DECODED);
        rig_blocks(&rig, 0, 0, 1);
        kernels_run(rig.kernels, &rig.step);
        assert_int_equal(step_out(&rig.step, 0)->result,
                         settings.kv_halves ? STEP_ROW_NOT_FINITE : STEP_ROW_OK);
        kernels_stop(rig.kernels);
    }
}

static void test_logits_of_a_row_are_its_own(void **state)
{
    (void)state;
    struct arena *arena = test_arena();
    struct kernels_settings settings = rig_settings(kernels_simd_best(), 1);
    struct rig rig;
    float alone[75];
    tiny_make(&tiny, GGUF_F32, false, 5);
    rig_start(&rig, &settings, tiny_weights(&tiny, arena), arena);
    rig_row(&rig, prompt, PROMPT_TOKENS, 0, 1);
    rig_blocks(&rig, 0, 0, 1);
    kernels_run(rig.kernels, &rig.step);
    memcpy(alone, kernels_logits(rig.kernels, 0), sizeof alone);
    rig_clear(&rig);
    rig_row(&rig, prompt + 1, 5, 0, 1);
    rig_blocks(&rig, 0, 8, 1);
    rig_row(&rig, prompt, PROMPT_TOKENS, 0, 1);
    rig_blocks(&rig, 1, 0, 1);
    kernels_run(rig.kernels, &rig.step);
    assert_memory_equal(kernels_logits(rig.kernels, 1), alone, sizeof alone);
    assert_memory_not_equal(kernels_logits(rig.kernels, 0), alone, sizeof alone);
    kernels_stop(rig.kernels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run_same_call_same_bits),
        cmocka_unit_test(test_run_mixed_types_same_bits),
        cmocka_unit_test(test_run_small_tiles_same_bits),
        cmocka_unit_test(test_run_stop_id_ends_its_row_only),
        cmocka_unit_test(test_run_not_finite_fails_its_row_only),
        cmocka_unit_test(test_run_digest_is_of_every_logit_of_the_row_that_wants_it),
        cmocka_unit_test(test_run_heartbeat_grows_each_layer),
        cmocka_unit_test(test_run_standbys_enter_where_rows_have_ended),
        cmocka_unit_test(test_run_standby_gets_the_place_of_a_failed_row),
        cmocka_unit_test(test_run_ends_early_when_the_core_is_in_early_stop),
        cmocka_unit_test(test_run_sampled_tokens_do_not_depend_on_batch_or_plan),
        cmocka_unit_test(test_run_logits_match_naive_double),
        cmocka_unit_test(test_logits_of_a_row_are_its_own),
        cmocka_unit_test(test_run_halves_match_naive_double),
        cmocka_unit_test(test_run_what_no_half_holds_fails_its_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
