/* SPDX-License-Identifier: MIT */
/*
 * Goal: weights that are those of the file have no faults. A bit that differs is found where it is,
 * in any tensor of any type, padding included; so is a file that has changed.
 * Method: the tiny models, a flip in each panel.
 */
#include "selftest/unit/test.h"

#include "selftest/post/weights.h"
#include "selftest/unit/kernels/tiny_model.h"

static struct tiny tiny;

static struct post_reader *make_reader_of(uint32_t family, enum gguf_type type, bool tied)
{
    struct arena *arena = test_arena();
    struct memory_plan plan = {.rows_count = 0};
    struct model_shape shape = tiny_shape(type, tied);
    shape.family = &model_families[family];
    tiny_make_shape(&tiny, &shape, type, 3);
    struct kernels_weights *weights = tiny_weights(&tiny, arena);
    uint64_t before = arena->used_bytes;
    post_reader_plan_memory(&plan, &weights->shape);
    struct post_reader *reader = post_reader_init(arena, weights, &tiny.gguf, &tiny.source);
    assert_int_equal(arena->used_bytes - before, memory_plan_bytes(&plan, MEMORY_SELFTEST));
    return reader;
}

static struct post_reader *make_reader(enum gguf_type type, bool tied)
{
    return make_reader_of(0, type, tied);
}

/* Of every panel of every tensor. */
static uint64_t faults_count(struct post_reader *reader)
{
    struct post_faults faults = {.count = 0};
    struct post_tensor tensor;
    for (uint32_t i = 0; post_tensor_at(reader->weights, i, &tensor); i++) {
        for (uint32_t panel = 0; panel < post_panels_count(&tensor); panel++) {
            post_panel_compare(reader, &tensor, panel, &faults);
        }
    }
    return faults.count;
}

static void test_list_has_every_tensor_of_the_file(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2 * model_families_count; i++) {
        struct post_reader *reader = make_reader_of(i / 2, GGUF_F32, i % 2);
        assert_int_equal(post_tensors_count(reader->weights), tiny.gguf.tensors_count);
        struct post_tensor tensor;
        for (uint32_t t = 0; post_tensor_at(reader->weights, t, &tensor); t++) {
            const struct gguf_tensor *file = gguf_tensor_find(&tiny.gguf, tensor.name);
            assert_non_null(file);
            assert_int_equal(file->dims[0], tensor.columns);
        }
        assert_int_equal(faults_count(reader), 0);
    }
}

/* Padding is part of it. */
static void test_panels_are_all_that_was_planned(void **state)
{
    (void)state;
    struct post_reader *reader = make_reader(GGUF_F32, false);
    struct memory_plan plan = {.rows_count = 0};
    struct post_tensor tensor;
    uint64_t bytes = sizeof(struct kernels_weights) + 2 * sizeof(struct kernels_layer);
    kernels_weights_plan_memory(&plan, &tiny.gguf, false);
    for (uint32_t i = 0; post_tensor_at(reader->weights, i, &tensor); i++) {
        uint64_t count = 0;
        post_panel_words(&tensor, 0, &count);
        bytes += post_panels_count(&tensor) * count * sizeof(uint64_t);
    }
    uint64_t planned = 0;
    for (uint32_t i = 0; i < plan.rows_count; i++) {
        planned += plan.rows[i].count * plan.rows[i].size_bytes;
    }
    assert_int_equal(bytes, planned);
}

static void test_flip_in_each_panel_is_found(void **state)
{
    (void)state;
    static const enum gguf_type types[] = {GGUF_F32, GGUF_F16, GGUF_Q8_0};
    for (uint32_t t = 0; t < 6; t++) {
        struct post_reader *reader = make_reader(types[t / 2], t % 2);
        struct post_tensor tensor;
        assert_int_equal(faults_count(reader), 0);
        for (uint32_t i = 0; post_tensor_at(reader->weights, i, &tensor); i++) {
            for (uint32_t panel = 0; panel < post_panels_count(&tensor); panel++) {
                struct post_faults faults = {.count = 0};
                uint64_t count = 0;
                uint64_t *words = post_panel_words(&tensor, panel, &count);
                uint64_t *word = &words[panel == 0 ? count - 1 : splitmix_at(i, panel) % count];
                *word ^= UINT64_C(1) << (i + panel) % 64;
                post_panel_compare(reader, &tensor, panel, &faults);
                *word ^= UINT64_C(1) << (i + panel) % 64;
                assert_int_equal(faults.count, 1);
                assert_ptr_equal(faults.kept[0].word, word);
                assert_int_equal(post_fault_bit(&faults.kept[0]), (i + panel) % 64);
                assert_non_null(strstr(faults.kept[0].where, tensor.name));
            }
        }
        assert_int_equal(faults_count(reader), 0);
    }
}

static void test_file_that_has_changed_is_found(void **state)
{
    (void)state;
    struct post_reader *reader = make_reader(GGUF_F16, false);
    const struct gguf_tensor *file = gguf_tensor_find(&tiny.gguf, "blk.1.ffn_down.weight");
    tiny.bytes[file->offset + 5] ^= 1;
    assert_int_equal(faults_count(reader), 1);
    tiny.bytes[file->offset + 5] ^= 1;
    reader->source.size_bytes = file->offset;
    assert_true(faults_count(reader) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list_has_every_tensor_of_the_file),
        cmocka_unit_test(test_panels_are_all_that_was_planned),
        cmocka_unit_test(test_flip_in_each_panel_is_found),
        cmocka_unit_test(test_file_that_has_changed_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
