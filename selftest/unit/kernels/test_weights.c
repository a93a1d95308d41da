/* SPDX-License-Identifier: MIT
 *
 * Goal: a model is loaded whole, to the byte of the plan; numbers that are not finite are refused
 * with the tensor's name.
 * Method: the tiny model, spoilt in one place at a time.
 */
#include "selftest/unit/test.h"

#include "selftest/unit/kernels/tiny_model.h"

static struct tiny tiny;

static enum status load(struct config_error *error, uint64_t *digest, uint32_t *progress)
{
    static struct kernels_loading loading;
    kernels_loading_begin(&loading, &tiny.gguf, &tiny.source, false, test_arena());
    TRY(kernels_loading_finish(&loading, progress, error));
    *digest = loading.digest;
    return STATUS_OK;
}

static const struct gguf_tensor *tensor_named(const char *name)
{
    return gguf_tensor_find(&tiny.gguf, name);
}

static void test_load_good_model_progress_and_digest(void **state)
{
    (void)state;
    struct config_error error;
    uint64_t first, again, other;
    uint32_t progress = 0;
    tiny_make(&tiny, GGUF_F16, false, 3);
    assert_status(STATUS_OK, load(&error, &first, &progress));
    assert_int_equal(progress, 1000);
    assert_status(STATUS_OK, load(&error, &again, NULL));
    assert_true(first == again);
    tiny.bytes[tensor_named("output.weight")->offset] ^= 1;
    assert_status(STATUS_OK, load(&error, &other, NULL));
    assert_true(first != other);
}

static void test_load_in_parts_tells_after_each_tensor(void **state)
{
    (void)state;
    static struct kernels_loading loading;
    struct config_error error;
    uint64_t digest, done_bytes = 0;
    uint32_t parts = 0, progress = 0;
    tiny_make(&tiny, GGUF_F16, false, 3);
    assert_status(STATUS_OK, load(&error, &digest, NULL));
    kernels_loading_begin(&loading, &tiny.gguf, &tiny.source, false, test_arena());
    while (loading.done_bytes < loading.total_bytes) {
        assert_status(STATUS_OK, kernels_loading_next(&loading, &progress, &error));
        assert_true(loading.done_bytes > done_bytes);
        assert_int_equal(progress, loading.done_bytes * 1000 / loading.total_bytes);
        done_bytes = loading.done_bytes;
        parts++;
    }
    assert_int_equal(parts, tiny.gguf.tensors_count);
    assert_true(loading.digest == digest);
}

/* The plan is exact, and matrices of integers keep their type. */
static void test_load_as_bfloats_rounds_floats_only(void **state)
{
    (void)state;
    const enum gguf_type types[] = {GGUF_F32, GGUF_F16, GGUF_Q8_0};
    for (uint32_t t = 0; t < 3; t++) {
        tiny_make(&tiny, types[t], false, 3);
        struct memory_plan plan = {0};
        kernels_weights_plan_memory(&plan, &tiny.gguf, true);
        struct arena arena;
        assert_status(STATUS_OK, arena_map(&arena, memory_plan_bytes(&plan, MEMORY_WEIGHTS),
                                           false));
        static struct kernels_loading loading;
        struct config_error error;
        kernels_loading_begin(&loading, &tiny.gguf, &tiny.source, true, &arena);
        assert_status(STATUS_OK, kernels_loading_finish(&loading, NULL, &error));
        assert_true(arena.used_bytes == arena.size_bytes);
        const struct kernels_matrix *matrix = &loading.weights->layers[1].ffn_up;
        assert_int_equal(matrix->type, types[t] == GGUF_Q8_0 ? GGUF_Q8_0 : GGUF_BF16);
        assert_int_equal(matrix->file_type, types[t]);
    }
}

static void test_load_weights_lie_where_they_belong(void **state)
{
    (void)state;
    tiny_make(&tiny, GGUF_F32, true, 3);
    struct kernels_weights *weights = tiny_weights(&tiny, test_arena());
    float row[64];
    assert_ptr_equal(weights->output.panels, weights->token_embd.panels);
    kernels_matrix_row(&weights->layers[1].attn_k, 5, row);
    const struct gguf_tensor *tensor = tensor_named("blk.1.attn_k.weight");
    assert_memory_equal(row, tiny.bytes + tensor->offset + 5 * 42 * 4, 42 * 4);
    tensor = tensor_named("blk.1.ffn_norm.weight");
    assert_memory_equal(weights->layers[1].ffn_norm, tiny.bytes + tensor->offset, 42 * 4);
}

static void test_load_not_finite_refused(void **state)
{
    (void)state;
    const char *names[] = {"token_embd.weight", "blk.0.ffn_norm.weight", "rope_freqs.weight"};
    for (uint32_t i = 0; i < 3; i++) {
        struct config_error error;
        uint64_t digest;
        float bad = i == 0 ? NAN : INFINITY;
        tiny_make(&tiny, GGUF_F32, false, 3);
        memcpy(tiny.bytes + tensor_named(names[i])->offset + 4, &bad, 4);
        assert_status(STATUS_CONFIG_MODEL, load(&error, &digest, NULL));
        assert_non_null(strstr(error.text, names[i]));
        assert_non_null(strstr(error.text, "not finite"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load_good_model_progress_and_digest),
        cmocka_unit_test(test_load_in_parts_tells_after_each_tensor),
        cmocka_unit_test(test_load_as_bfloats_rounds_floats_only),
        cmocka_unit_test(test_load_weights_lie_where_they_belong),
        cmocka_unit_test(test_load_not_finite_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
