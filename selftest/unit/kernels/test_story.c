/* SPDX-License-Identifier: MIT
 *
 * Goal: a trained model tells what it was trained to tell: file, packing, forward pass, sampling
 * and vocabulary fit together. Method: the embedded model answers a question of its training data;
 * where it lies beside the repository, stories260K.gguf of others tells the story that its authors'
 * code has told, which is recorded beside it.
 */
#define TEST_ARENA_BYTES (32u << 20)
#include "selftest/unit/kernels/trained.h"

#define STORY_TEXT  "../shared/models/stories260K.expected.txt"
#define STORY_BYTES_MAX 2048
#define QUESTION_BYTES_MAX 64
#define TOKENS_MAX 200

static struct vocab vocab;
static char expected[STORY_BYTES_MAX], told[STORY_BYTES_MAX * 2];

static uint32_t story_read(void)
{
    FILE *file = fopen(STORY_TEXT, "rb");
    assert_non_null(file);
    uint32_t bytes = (uint32_t)fread(expected, 1, sizeof expected, file);
    fclose(file);
    return bytes;
}

/* BOS, then the text. */
static uint32_t prompt_make(const char *text, uint32_t *prompt)
{
    static uint64_t memory[8 * QUESTION_BYTES_MAX];
    struct vocab_scratch scratch;
    assert_true(vocab_scratch_bytes(QUESTION_BYTES_MAX) <= sizeof memory);
    vocab_scratch_init(&scratch, memory, QUESTION_BYTES_MAX);
    struct vocab_input input = {.text = text, .bytes = (uint32_t)strlen(text)};
    struct vocab_output output = {.tokens = prompt + 1, .max = QUESTION_BYTES_MAX};
    prompt[0] = trained_gguf.vocab.bos_id;
    assert_status(STATUS_OK, vocab_encode(&vocab, &scratch, &input, &output));
    return 1 + output.count;
}

/* The text that greedily follows the prompt, in `told`; returns its bytes. */
static uint32_t tell(struct rig *rig, const uint32_t *prompt, uint32_t count, uint32_t tokens_count)
{
    uint32_t position = 0, bytes = 0, last = 0;
    while (tokens_count > 0) {
        rig_clear(rig);
        rig_row(rig, position == 0 ? prompt : &last, position == 0 ? count : 1, position, 8);
        rig_blocks(rig, 0, 3, 5);
        kernels_run(rig->kernels, &rig->step);
        assert_int_equal(step_out(&rig->step, 0)->produced, 8);
        const uint32_t *tokens = step_out_tokens(&rig->step, 0);
        for (uint32_t i = 0; i < 8; i++) {
            bytes += vocab_decode(&vocab, tokens[i], bytes == 0, told + bytes,
                                  (uint32_t)sizeof told - bytes);
        }
        position += (position == 0 ? count : 1) + 7;
        last = tokens[7];
        tokens_count -= 8;
    }
    return bytes;
}

/* What the model says after BOS and the text, with each number of threads. */
static void expect_begin(const char *path, const char *text, uint32_t tokens_count,
                         const char *words, uint32_t words_bytes)
{
    for (uint32_t threads = 1; threads <= 2; threads++) {
        struct arena *arena = test_arena();
        struct kernels_weights *weights = trained_load(path, &vocab, arena);
        struct kernels_settings settings = rig_settings(kernels_simd_best(), threads);
        settings.context_tokens = 256;
        settings.blocks_per_call = 32;
        struct rig rig;
        rig_start(&rig, &settings, weights, arena);
        uint32_t prompt[1 + QUESTION_BYTES_MAX];
        uint32_t bytes = tell(&rig, prompt, prompt_make(text, prompt), tokens_count);
        kernels_stop(rig.kernels);
        assert_true(bytes >= words_bytes);
        assert_memory_equal(told, words, words_bytes);
    }
}

static void test_tell_after_question_is_the_trained_answer(void **state)
{
    static const char answer[] = "Bees make honey";
    (void)state;
    expect_begin(TRAINED_EMBEDDED, "What do bees make?", 8, answer, sizeof answer - 1);
}

static void test_tell_from_bos_story_begins_as_recorded(void **state)
{
    (void)state;
    trained_need(TRAINED_STORIES);
    uint32_t expected_bytes = story_read();
    expect_begin(TRAINED_STORIES, "", TOKENS_MAX, expected, expected_bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tell_after_question_is_the_trained_answer),
        cmocka_unit_test(test_tell_from_bos_story_begins_as_recorded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
