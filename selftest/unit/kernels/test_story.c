/* SPDX-License-Identifier: MIT
 *
 * Goal: a trained model tells the same story as with its authors' code: file, packing, forward
 * pass, sampling and vocabulary fit together. Method: ../shared/models/stories260K.gguf, greedy
 * from BOS alone, against the text recorded beside it. Skipped with a message if that folder is
 * missing.
 */
#define TEST_ARENA_BYTES (32u << 20)
#include "selftest/unit/test.h"

#include <unistd.h>

#include "config/vocab/vocab.h"
#include "selftest/unit/kernels/tiny_model.h"

#define MODEL_PATH "../shared/models/stories260K.gguf"
#define STORY_PATH "../shared/models/stories260K.expected.txt"
#define STORY_BYTES_MAX 2048
#define TOKENS_MAX 200

static struct gguf gguf;
static struct vocab vocab;
static char expected[STORY_BYTES_MAX], told[STORY_BYTES_MAX * 2];

static uint32_t story_read(void)
{
    FILE *file = fopen(STORY_PATH, "rb");
    assert_non_null(file);
    uint32_t bytes = (uint32_t)fread(expected, 1, sizeof expected, file);
    fclose(file);
    return bytes;
}

static struct kernels_weights *model_load(struct arena *arena)
{
    struct gguf_source source;
    struct config_error error;
    static struct kernels_loading loading;
    assert_status(STATUS_OK, gguf_source_open(&source, MODEL_PATH, &error));
    assert_status(STATUS_OK, gguf_scan(&gguf, &source, 1 << 20, &error));
    assert_status(STATUS_OK, vocab_load(&vocab, &gguf, &source, arena, &error));
    kernels_loading_begin(&loading, &gguf, &source, false, arena);
    assert_status(STATUS_OK, kernels_loading_finish(&loading, NULL, &error));
    gguf_source_close(&source);
    return loading.weights;
}

static void tell(struct rig *rig, uint32_t *tokens)
{
    uint32_t token = gguf.vocab.bos_id;
    for (uint32_t position = 0; position < TOKENS_MAX; position += 8) {
        rig_clear(rig);
        rig_row(rig, &token, 1, position, 8);
        rig_blocks(rig, 0, 3, 5);
        kernels_run(rig->kernels, &rig->step);
        assert_int_equal(step_out(&rig->step, 0)->produced, 8);
        memcpy(tokens + position, step_out_tokens(&rig->step, 0), 8 * sizeof *tokens);
        token = tokens[position + 7];
    }
}

static void test_tell_from_bos_story_begins_as_recorded(void **state)
{
    (void)state;
    if (access(MODEL_PATH, R_OK) != 0) {
        print_message("skipped: no %s\n", MODEL_PATH);
        skip();
    }
    uint32_t expected_bytes = story_read();
    for (uint32_t threads = 1; threads <= 2; threads++) {
        struct arena *arena = test_arena();
        struct kernels_weights *weights = model_load(arena);
        struct kernels_settings settings = rig_settings(kernels_simd_best(), threads);
        settings.context_tokens = 256;
        settings.blocks_per_call = 32;
        struct rig rig;
        rig_start(&rig, &settings, weights, arena);
        uint32_t tokens[TOKENS_MAX];
        tell(&rig, tokens);
        kernels_stop(rig.kernels);
        uint32_t bytes = 0;
        for (uint32_t i = 0; i < TOKENS_MAX; i++) {
            bytes += vocab_decode(&vocab, tokens[i], i == 0, told + bytes,
                                  (uint32_t)sizeof told - bytes);
        }
        assert_true(bytes >= expected_bytes);
        assert_memory_equal(told, expected, expected_bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tell_from_bos_story_begins_as_recorded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
