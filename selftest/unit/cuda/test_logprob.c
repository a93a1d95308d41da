/* SPDX-License-Identifier: MIT
 *
 * Goal: the device's log probabilities are those of kernels_logprobs(), bit for bit, for rows that
 * ask; others write nothing.
 * Method: random logits, flat, steep and with many equal ones, vocabularies of odd sizes; the CPU's
 * function as the twin.
 */
#include "selftest/unit/cuda/gpu_rig.h"

#include "config/base/step.h"
#include "kernels/logprob.h"

enum { VOCAB_MAX = 1000, STEPS = 5, PLACES = 3, ROWS = 4 };

struct scene {
    struct gpu_logprob args;
    struct gpu_row *rows;
    struct gpu_out *outs;
    struct gpu_place *places;
    struct gpu_entry *entries;
    float *logits;
};
static struct scene scene;

/* Places of rows 3 and 0, which is two tokens into a draft, and 1, which does not sample. */
static void scene_make(uint32_t vocab)
{
    const struct gpu_place places[PLACES] = {
        {.row = 3, .slot = 1}, {.row = 0, .slot = 0, .ahead = 2}, {.row = 1, .slot = GPU_NONE}};
    uint64_t stride = vocab + 5;
    scene.rows = memset(rig_take(ROWS * sizeof *scene.rows), 0, ROWS * sizeof *scene.rows);
    scene.outs = memset(rig_take(ROWS * sizeof *scene.outs), 0, ROWS * sizeof *scene.outs);
    scene.places = rig_copy(places, sizeof places);
    scene.entries = rig_take(ROWS * STEPS * GPU_ENTRIES_MAX * sizeof *scene.entries);
    scene.logits = rig_floats((PLACES - 1) * stride + vocab);
    scene.args = (struct gpu_logprob){
        .logits = rig_address(scene.logits),
        .places = rig_address(scene.places),
        .rows = rig_address(scene.rows),
        .outs = rig_address(scene.outs),
        .entries = rig_address(scene.entries),
        .logits_stride = stride,
        .places_count = PLACES,
        .vocab_tokens = vocab,
        .steps_max = STEPS,
    };
    for (uint32_t r = 0; r < ROWS; r++) {
        scene.rows[r].entries = rig_random(gpu_smaller(vocab, 20) + 1) + 1;
        scene.outs[r].produced = rig_random(STEPS - 2);
    }
    for (uint32_t p = 0; p < PLACES; p++) {
        scene.places[p].token = rig_random(vocab);
    }
}

static void logits_random(uint32_t vocab)
{
    uint32_t kind = rig_random(3);
    for (uint64_t i = 0; i < (PLACES - 1) * scene.args.logits_stride + vocab; i++) {
        float x = rig_number();
        scene.logits[i] = kind == 0 ? x : kind == 1 ? 30 * x : floorf(3 * x);
    }
}

/* Where the place's token has its entries. */
static const struct gpu_entry *entries_of(uint32_t place)
{
    const struct gpu_place *at = &scene.places[place];
    return scene.entries + at->row * STEPS * GPU_ENTRIES_MAX +
           (scene.outs[at->row].produced + at->ahead) * scene.rows[at->row].entries;
}

static void check_place(uint32_t place)
{
    const uint32_t count = scene.rows[scene.places[place].row].entries;
    static float weights[VOCAB_MAX + 8];
    static uint32_t ranking[VOCAB_MAX];
    struct kernels_sampler sampler = {&kernels_ops_plain, scene.args.vocab_tokens, weights,
                                      ranking};
    struct call_logprob wanted[GPU_ENTRIES_MAX];
    kernels_logprobs(&sampler, scene.logits + place * scene.args.logits_stride,
                     scene.places[place].token, wanted, count);
    assert_memory_equal(entries_of(place), wanted, count * sizeof wanted[0]);
}

static void test_logprobs_are_the_cpus(void **state)
{
    (void)state;
    const uint32_t vocabs[] = {1, 2, 31, 256, 257, VOCAB_MAX};
    for (uint32_t i = 0; i < 60; i++) {
        uint32_t vocab = vocabs[i % 6];
        scene_make(vocab);
        logits_random(vocab);
        RIG_LAUNCH(logprob, &scene.args);
        check_place(0);
        check_place(1);
        rig_teardown(NULL);
    }
}

/* A row that does not ask, one that is not finite, and one whose place does not sample. */
static void test_other_rows_write_nothing(void **state)
{
    (void)state;
    scene_make(300);
    logits_random(300);
    scene.rows[3].entries = 0;
    scene.places[1].token = GPU_NONE;
    RIG_LAUNCH(logprob, &scene.args);
    for (uint32_t i = 0; i < ROWS * STEPS * GPU_ENTRIES_MAX; i++) {
        assert_int_equal(scene.entries[i].token, UINT32_MAX);
    }
}

static const struct CMUnitTest tests[] = {
    RIG_TEST(test_logprobs_are_the_cpus),
    RIG_TEST(test_other_rows_write_nothing),
};

rig_main(tests)
