/* SPDX-License-Identifier: MIT
 *
 * Goal: of what a round samples the same counts on the device as in the CPU engine
 * (kernels/round/round.c): tokens, digests, what is told of drafts; nothing else changes.
 * Method: random rounds with drafts that agree for a while, stop ids, and logits that are not
 * finite; a twin that goes along the draft as place_sample() does.
 */
#include "selftest/unit/cuda/gpu_rig.h"

#include "config/base/fnv.h"
#include "config/base/step.h"

enum { ROWS = 6, STEPS = 12, DRAFTS = 5, PLACES = ROWS * (1 + DRAFTS), VOCAB = 9, STOP = 3 };

struct scene {
    struct gpu_settle args;
    struct gpu_row *rows;
    struct gpu_out *outs;
    uint32_t *tokens;
    struct gpu_place *places;
    float *logits;
};
static struct scene scene;

static void scene_make(void)
{
    scene.rows = memset(rig_take(ROWS * sizeof *scene.rows), 0, ROWS * sizeof *scene.rows);
    scene.outs = memset(rig_take(ROWS * sizeof *scene.outs), 0, ROWS * sizeof *scene.outs);
    scene.tokens = rig_take(ROWS * STEPS * sizeof *scene.tokens);
    scene.places = rig_take(PLACES * sizeof *scene.places);
    scene.logits = rig_floats(PLACES * VOCAB);
    scene.args = (struct gpu_settle){
        .logits = rig_address(scene.logits),
        .places = rig_address(scene.places),
        .rows = rig_address(scene.rows),
        .outs = rig_address(scene.outs),
        .out_tokens = rig_address(scene.tokens),
        .logits_stride = VOCAB,
        .own_count = ROWS,
        .vocab_tokens = VOCAB,
        .steps_max = STEPS,
    };
}

static void out_random(struct gpu_out *out, uint32_t produced)
{
    *out = (struct gpu_out){.produced = produced, .digest = produced == 0 ? 0 : 77,
                            .drafted = rig_random(9), .agreed = rig_random(9),
                            .refused = rig_random(9)};
}

/* Its own place is r; some have ended, some have fewer tokens of a draft than places for them. */
static void row_random(uint32_t r)
{
    struct gpu_row *row = &scene.rows[r];
    uint32_t fed = rig_random(DRAFTS + 1), produced = rig_random(STEPS - DRAFTS);
    bool samples = rig_random(6) > 0;
    row->drafts = rig_random(2) * DRAFTS;
    row->draft_place = ROWS + r * DRAFTS;
    row->decode_steps = produced + 1 + fed + rig_random(STEPS - produced - fed);
    row->wants_digest = rig_random(2);
    row->stop_ids_count = rig_random(2);
    row->stop_ids[0] = STOP;
    out_random(&scene.outs[r], produced);
    for (uint32_t i = 0; i < STEPS; i++) {
        scene.tokens[r * STEPS + i] = 1 + rig_random(3);
    }
    for (uint32_t i = 0; i <= DRAFTS; i++) {
        uint32_t p = i == 0 ? r : row->draft_place + i - 1;
        bool is_fed = samples && i <= (row->drafts > 0 ? fed : 0);
        uint32_t guess = scene.tokens[r * STEPS + produced + i];
        scene.places[p] = (struct gpu_place){
            .row = is_fed ? r : GPU_NONE, .slot = is_fed ? p : GPU_NONE, .ahead = i,
            .token = rig_random(20) == 0 ? GPU_NONE : rig_random(4) == 0 ? 7 : guess};
    }
}

static bool twin_goes_on(const struct gpu_row *row, const struct gpu_out *out,
                         const uint32_t *tokens)
{
    return out->produced < row->decode_steps &&
           (row->stop_ids_count == 0 || tokens[out->produced - 1] != STOP);
}

/* A token of the row; false: a logit is not finite. */
static bool twin_sample(uint32_t r, uint32_t p, struct gpu_out *out, uint32_t *tokens)
{
    if (scene.places[p].token == GPU_NONE) {
        *out = (struct gpu_out){.result = GPU_ROW_NOT_FINITE};
        return false;
    }
    if (scene.rows[r].wants_digest != 0) {
        out->digest = fnv_add(out->produced == 0 ? FNV_START : out->digest,
                              scene.logits + p * VOCAB, VOCAB * sizeof(float));
    }
    tokens[out->produced++] = scene.places[p].token;
    return true;
}

static void twin_settle(uint32_t r, struct gpu_out *out, uint32_t *tokens)
{
    const struct gpu_row *row = &scene.rows[r];
    uint32_t draft[DRAFTS], count = 0, at = 0;
    while (count < row->drafts && scene.places[row->draft_place + count].slot != GPU_NONE) {
        draft[count] = tokens[out->produced + count];
        count++;
    }
    bool is_finite = twin_sample(r, r, out, tokens);
    while (is_finite && at < count && twin_goes_on(row, out, tokens) &&
           tokens[out->produced - 1] == draft[at]) {
        is_finite = twin_sample(r, row->draft_place + at++, out, tokens);
    }
    if (is_finite) {
        out->drafted += count;
        out->agreed += at;
        out->refused += at < count && tokens[out->produced - 1] != draft[at];
    }
}

static void test_settle_as_the_cpu_engine(void **state)
{
    (void)state;
    uint32_t counted = 0, agreed = 0, failed = 0;
    for (uint32_t i = 0; i < 2000; i++) {
        scene_make();
        for (uint32_t r = 0; r < ROWS; r++) {
            row_random(r);
        }
        struct gpu_out outs[ROWS];
        uint32_t tokens[ROWS * STEPS];
        memcpy(outs, scene.outs, sizeof outs);
        memcpy(tokens, scene.tokens, sizeof tokens);
        for (uint32_t r = 0; r < ROWS; r++) {
            if (scene.places[r].slot != GPU_NONE) {
                uint32_t before = outs[r].agreed;
                twin_settle(r, &outs[r], tokens + r * STEPS);
                failed += outs[r].result == GPU_ROW_NOT_FINITE;
                agreed += outs[r].agreed > before;
                counted++;
            }
        }
        struct gpu_place places[PLACES];
        memcpy(places, scene.places, sizeof places);
        RIG_LAUNCH(settle, &scene.args);
        for (uint32_t r = 0; r < ROWS; r++) {
            assert_int_equal(scene.outs[r].result, outs[r].result);
            assert_int_equal(scene.outs[r].produced, outs[r].produced);
            assert_true(scene.outs[r].digest == outs[r].digest);
            assert_int_equal(scene.outs[r].drafted, outs[r].drafted);
            assert_int_equal(scene.outs[r].agreed, outs[r].agreed);
            assert_int_equal(scene.outs[r].refused, outs[r].refused);
        }
        assert_memory_equal(scene.tokens, tokens, sizeof tokens);
        assert_memory_equal(scene.places, places, sizeof places);
        rig_teardown(NULL);
    }
    assert_true(counted > 8000 && agreed > 1000 && failed > 100);
}

/* A batch has more rows than the thread block has CUDA threads. */
static void test_settle_more_rows_than_threads(void **state)
{
    (void)state;
    enum { MANY = 2 * GPU_ROUND_THREADS + 3 };
    struct gpu_row *rows = memset(rig_take(MANY * sizeof *rows), 0, MANY * sizeof *rows);
    struct gpu_out *outs = memset(rig_take(MANY * sizeof *outs), 0, MANY * sizeof *outs);
    uint32_t *tokens = rig_take(MANY * sizeof *tokens);
    struct gpu_place *places = rig_take(MANY * sizeof *places);
    for (uint32_t r = 0; r < MANY; r++) {
        rows[r].decode_steps = 1;
        places[r] = (struct gpu_place){.row = r, .slot = r, .token = r + 5};
    }
    const struct gpu_settle args = {
        .logits = rig_address(tokens), .places = rig_address(places), .rows = rig_address(rows),
        .outs = rig_address(outs), .out_tokens = rig_address(tokens), .own_count = MANY,
        .vocab_tokens = VOCAB, .steps_max = 1};
    RIG_LAUNCH(settle, &args);
    for (uint32_t r = 0; r < MANY; r++) {
        assert_int_equal(outs[r].produced, 1);
        assert_int_equal(tokens[r], r + 5);
    }
}

static const struct CMUnitTest tests[] = {
    RIG_TEST(test_settle_as_the_cpu_engine),
    RIG_TEST(test_settle_more_rows_than_threads),
};

rig_main(tests)
