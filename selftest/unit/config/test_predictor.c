/* SPDX-License-Identifier: MIT */
/*
 * Goal: whatever the file of a predictor holds, it gives classes in which every number is finite
 * and in its range, or one line that names the fault and its place.
 * Method: a small good file is written in memory; each test breaks one thing in it. Every prefix
 * and every changed byte of it is tried as well.
 */
#define TEST_ARENA_BYTES (64u << 10)
#include "selftest/unit/test.h"

#include <math.h>
#include <stdio.h>

#include "config/model/predictor.h"
#include "selftest/fake/gguf_file.h"

static struct gguf_file file;
static struct gguf gguf;
static struct predictor predictor;
static struct config_error error;

static enum status measure_and_load(void)
{
    struct gguf_source source;
    struct memory_plan plan = {0};
    gguf_source_memory(&source, file.bytes, file.count, "test");
    TRY(predictor_measure(&predictor, &source, &gguf, &error));
    predictor_plan_memory(&plan, &predictor);
    struct arena *arena = test_arena();
    enum status status = predictor_load(&predictor, &source, arena, &error);
    assert_true(arena->used_bytes == memory_plan_bytes(&plan, MEMORY_MODEL));
    return status;
}

static void assert_refused(const char *words)
{
    memset(&error, 0, sizeof error);
    assert_status(STATUS_CONFIG_MODEL, measure_and_load());
    if (strstr(error.text, words) == NULL) {
        print_error("expected '%s' in '%s'\n", words, error.text);
        fail();
    }
    assert_true(strncmp(error.text, "test: offset ", 13) == 0);
}

/* The good file, with `bytes` put at `at` bytes after the name of a key. */
static void change(const char *key, uint32_t at, const void *bytes, uint32_t count)
{
    gguf_file_predictor(&file);
    memcpy(gguf_file_after_key(&file, key) + at, bytes, count);
}

static void change_u32(const char *key, uint32_t at, uint32_t value)
{
    change(key, at, &value, sizeof value);
}

static void change_f32(const char *key, uint32_t at, float value)
{
    change(key, at, &value, sizeof value);
}

enum {
    AT_VALUE = 4,                   /* after a key: its type, then the value */
    AT_COUNT = 8,                   /* of an array: its type and the elements' come first */
    AT_ELEMENTS = 16,
};

static void test_load_good_file_gives_classes(void **state)
{
    (void)state;
    gguf_file_predictor(&file);
    assert_status(STATUS_OK, measure_and_load());
    assert_int_equal(predictor.count, 3);
    assert_int_equal(predictor.samples, 300);
    const struct predictor_class *class = &predictor.classes[2];
    assert_int_equal(class->name_bytes, 6);
    assert_memory_equal(class->name, "search", 6);
    assert_int_equal(class->samples, 100);
    assert_true(class->mean == 10 && class->low == 8 && class->high == 12);
    assert_true(class->weights[0] == 0 && class->weights[PREDICTOR_WEIGHTS - 1] == 11);
    assert_true(predictor.classes[0].weights[PREDICTOR_WEIGHTS - 1] == 9);
}

static void test_load_without_predictor_takes_nothing(void **state)
{
    (void)state;
    struct memory_plan plan = {0};
    struct gguf_source source;
    struct predictor none = {0};
    gguf_source_memory(&source, NULL, 0, "test");
    predictor_plan_memory(&plan, &none);
    assert_int_equal(plan.rows_count, 0);
    assert_status(STATUS_OK, predictor_load(&none, &source, test_arena(), &error));
    assert_null(none.classes);
}

static void test_measure_other_file_is_refused(void **state)
{
    (void)state;
    gguf_file_model(&file);
    assert_refused("general.architecture is 'llama', expected 'predictor'");
    gguf_file_begin(&file);
    gguf_file_end(&file, 0);
    assert_refused("general.architecture is 'missing', expected 'predictor'");
    file.count = 3;
    assert_refused("the file ends within the magic");
}

static void test_measure_long_file_is_refused(void **state)
{
    (void)state;
    struct gguf_source source;
    gguf_source_memory(&source, file.bytes, 8u << 20, "test");
    source.size_bytes++;
    assert_status(STATUS_CONFIG_MODEL, predictor_measure(&predictor, &source, &gguf, &error));
    assert_string_equal(error.text, "test: offset 8388608: the file has 8388609 bytes, expected at "
                                    "most 8388608");
}

static void test_measure_other_numbers_are_refused(void **state)
{
    (void)state;
    change_u32("predictor.version", AT_VALUE, 2);
    assert_refused("predictor.version is 2, expected 1");
    change_u32("predictor.buckets", AT_VALUE, 512);
    assert_refused("predictor.buckets is 512, expected 1024");
    change_u32("predictor.tokens", AT_VALUE, 4096);
    assert_refused("predictor.tokens is 4096, expected 1024");
    change("predictor.version", 0, "\x6", 1);
    assert_refused("predictor.version is f32, expected an integer");
    gguf_file_predictor(&file);
    gguf_file_after_key(&file, "predictor.version")[-1] = 'x';
    assert_refused("predictor.version is missing, expected 1");
}

static void write_numbers(void)
{
    gguf_file_begin(&file);
    gguf_file_text(&file, "general.architecture", "predictor");
    gguf_file_u32(&file, "predictor.version", PREDICTOR_VERSION);
    gguf_file_u32(&file, "predictor.buckets", PREDICTOR_BUCKETS);
    gguf_file_u32(&file, "predictor.tokens", PREDICTOR_TOKENS);
}

/* A file of other arrays. */
static void write_arrays(uint32_t names, uint32_t samples, uint32_t lows)
{
    static const char *const texts[] = {"a", "b", "c", "d"};
    static const int32_t ones[] = {1, 1, 1, 1};
    static const float values[] = {1, 1, 1, 1};
    write_numbers();
    gguf_file_texts(&file, "predictor.classes", texts, names);
    gguf_file_i32s(&file, "predictor.samples", ones, samples);
    gguf_file_f32s(&file, "predictor.means", values, 2);
    gguf_file_f32s(&file, "predictor.lows", values, lows);
    gguf_file_f32s(&file, "predictor.highs", values, 2);
}

static void write_tensor(const char *name, uint64_t columns, uint64_t rows, uint32_t type)
{
    write_arrays(2, 2, 2);
    gguf_file_tensor(&file, name, &(struct gguf_file_tensor){
        .type = type, .columns = columns, .rows = rows});
    gguf_file_end(&file, 3 * PREDICTOR_WEIGHTS * sizeof(float));
}

/* A file of one class. */
static void write_class(const char *name)
{
    static const int32_t one = 1;
    static const float value = 1;
    write_numbers();
    gguf_file_texts(&file, "predictor.classes", &name, 1);
    gguf_file_i32s(&file, "predictor.samples", &one, 1);
    gguf_file_f32s(&file, "predictor.means", &value, 1);
    gguf_file_f32s(&file, "predictor.lows", &value, 1);
    gguf_file_f32s(&file, "predictor.highs", &value, 1);
    gguf_file_tensor(&file, "predictor.weights", &(struct gguf_file_tensor){
        .columns = PREDICTOR_WEIGHTS, .rows = 1});
    gguf_file_end(&file, PREDICTOR_WEIGHTS * sizeof(float));
}

static void test_measure_bad_names_are_refused(void **state)
{
    (void)state;
    change("predictor.classes", AT_ELEMENTS + 8, "ch t", 4);
    assert_refused("predictor.classes[0] holds the byte 0x20");
    change("predictor.classes", AT_ELEMENTS + 8, "zhat", 4);
    assert_refused("predictor.classes[1] is 'code', expected each name once, in ascending order");
    change("predictor.classes", AT_ELEMENTS + 8, "code", 4);
    assert_refused("predictor.classes[1] is 'code', expected each name once, in ascending order");
    write_class("");
    assert_refused("predictor.classes[0] has 0 bytes, expected 1 to 32");
    write_class("123456789.123456789.123456789.123");
    assert_refused("predictor.classes[0] has 33 bytes, expected 1 to 32");
    write_class("123456789.123456789.123456789.12");
    assert_status(STATUS_OK, measure_and_load());
    assert_int_equal(predictor.classes[0].name_bytes, CALL_CLASS_BYTES);
}

static void test_measure_arrays_of_other_lengths_are_refused(void **state)
{
    (void)state;
    write_arrays(2, 1, 2);
    gguf_file_end(&file, 0);
    assert_refused("predictor.samples has 1 elements, expected one for each of the 2 classes");
    write_arrays(2, 2, 3);
    gguf_file_end(&file, 0);
    assert_refused("predictor.lows has 3 elements, expected one for each of the 2 classes");
    write_arrays(0, 2, 2);
    gguf_file_end(&file, 0);
    assert_refused("predictor.classes has 0 names, expected 1 to 1024");
    gguf_file_predictor(&file);
    gguf_file_after_key(&file, "predictor.highs")[-1] = 'x';
    assert_refused("predictor.highs has 0 elements");
}

static void test_measure_more_classes_than_there_can_be_is_refused(void **state)
{
    (void)state;
    static const char *texts[BOUND_PREDICTOR_CLASSES + 1];
    for (uint32_t i = 0; i <= BOUND_PREDICTOR_CLASSES; i++) {
        texts[i] = "a";
    }
    write_numbers();
    gguf_file_texts(&file, "predictor.classes", texts, BOUND_PREDICTOR_CLASSES + 1);
    gguf_file_end(&file, 0);
    assert_refused("predictor.classes has 1025 names, expected 1 to 1024");
}

static void test_measure_other_tensors_are_refused(void **state)
{
    (void)state;
    write_tensor("predictor.weights", PREDICTOR_WEIGHTS, 2, GGUF_F32);
    assert_status(STATUS_OK, measure_and_load());
    write_tensor("predictor.weight", PREDICTOR_WEIGHTS, 2, GGUF_F32);
    assert_refused("has 1 tensors, the first of them 'predictor.weight', expected "
                   "predictor.weights alone");
    write_tensor("predictor.weights", PREDICTOR_WEIGHTS - 1, 2, GGUF_F32);
    assert_refused("predictor.weights is 1025 x 2 x 1 x 1 of F32, expected 1026 x 2 of F32");
    write_tensor("predictor.weights", PREDICTOR_WEIGHTS, 3, GGUF_F32);
    assert_refused("predictor.weights is 1026 x 3 x 1 x 1 of F32");
    write_tensor("predictor.weights", PREDICTOR_WEIGHTS, 2, GGUF_F16);
    assert_refused("of F16, expected 1026 x 2 of F32");
    write_arrays(2, 2, 2);
    gguf_file_end(&file, 0);
    assert_refused("has 0 tensors");
}

static void test_measure_bad_numbers_of_classes_are_refused(void **state)
{
    (void)state;
    change_u32("predictor.samples", AT_ELEMENTS + 4, 0);
    assert_refused("predictor.samples[1] is 0, expected 1 or more");
    change_u32("predictor.samples", AT_ELEMENTS, UINT32_MAX);
    assert_refused("predictor.samples[0] is -1, expected 1 or more");
    change_f32("predictor.lows", AT_ELEMENTS, -0.5f);
    assert_refused("predictor.lows of a class is -0.5, expected 0 to 43");
    change_f32("predictor.highs", AT_ELEMENTS, 43.5f);
    assert_refused("predictor.highs of a class is 43.5, expected 8 to 43");
    change_f32("predictor.highs", AT_ELEMENTS, NAN);
    assert_refused("nan, expected 8 to 43");
    change_f32("predictor.means", AT_ELEMENTS + 8, 12.5f);
    assert_refused("predictor.means of a class is 12.5, expected 8 to 12");
}

static void test_measure_weight_that_is_not_finite_is_refused(void **state)
{
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (uint32_t i = 0; i < 3; i++) {
        gguf_file_predictor(&file);
        assert_status(STATUS_OK, measure_and_load());
        uint64_t offset = predictor.weights_offset + (PREDICTOR_WEIGHTS + 7) * sizeof(float);
        memcpy(file.bytes + offset, &bad[i], sizeof bad[i]);
        assert_refused("weight 7 of class 1 is not a number, expected a finite one");
    }
}

static void test_load_file_that_has_changed_is_checked_again(void **state)
{
    (void)state;
    struct gguf_source source;
    const float nothing = NAN;
    gguf_file_predictor(&file);
    gguf_source_memory(&source, file.bytes, file.count, "test");
    assert_status(STATUS_OK, predictor_measure(&predictor, &source, &gguf, &error));
    memcpy(file.bytes + predictor.weights_offset, &nothing, sizeof nothing);
    assert_status(STATUS_CONFIG_MODEL, predictor_load(&predictor, &source, test_arena(), &error));
    gguf_source_memory(&source, file.bytes, 100, "test");
    assert_status(STATUS_CONFIG_MODEL, predictor_load(&predictor, &source, test_arena(), &error));
}

/* What was accepted is sound, whatever the file was. */
static void assert_sound(void)
{
    assert_true(predictor.count >= 1 && predictor.count <= BOUND_PREDICTOR_CLASSES);
    for (uint32_t i = 0; i < predictor.count; i++) {
        const struct predictor_class *class = &predictor.classes[i];
        assert_true(class->name_bytes >= 1 && class->name_bytes <= CALL_CLASS_BYTES);
        assert_true(class->samples >= 1);
        assert_true(class->low >= 0 && class->low <= class->mean);
        assert_true(class->mean <= class->high && class->high <= PREDICTOR_LOG_MAX);
        for (uint32_t w = 0; w < PREDICTOR_WEIGHTS; w++) {
            assert_true(isfinite(class->weights[w]));
        }
    }
}

static void test_measure_every_prefix_and_every_changed_byte_is_safe(void **state)
{
    (void)state;
    gguf_file_predictor(&file);
    uint32_t whole = file.count;
    assert_status(STATUS_OK, measure_and_load());
    uint32_t header = (uint32_t)gguf.data_offset;
    uint32_t end = header + GGUF_FILE_CLASSES * PREDICTOR_WEIGHTS * sizeof(float);
    for (uint32_t count = 0; count < end; count += count < header ? 1 : 97) {
        file.count = count;
        assert_status(STATUS_CONFIG_MODEL, measure_and_load());
    }
    file.count = whole;
    for (uint32_t at = 0; at < header; at++) {
        for (uint32_t bit = 0; bit < 8; bit++) {
            file.bytes[at] ^= (uint8_t)(1u << bit);
            if (measure_and_load() == STATUS_OK) {
                assert_sound();
            }
            file.bytes[at] ^= (uint8_t)(1u << bit);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load_good_file_gives_classes),
        cmocka_unit_test(test_load_without_predictor_takes_nothing),
        cmocka_unit_test(test_measure_other_file_is_refused),
        cmocka_unit_test(test_measure_long_file_is_refused),
        cmocka_unit_test(test_measure_other_numbers_are_refused),
        cmocka_unit_test(test_measure_bad_names_are_refused),
        cmocka_unit_test(test_measure_arrays_of_other_lengths_are_refused),
        cmocka_unit_test(test_measure_more_classes_than_there_can_be_is_refused),
        cmocka_unit_test(test_measure_other_tensors_are_refused),
        cmocka_unit_test(test_measure_bad_numbers_of_classes_are_refused),
        cmocka_unit_test(test_measure_weight_that_is_not_finite_is_refused),
        cmocka_unit_test(test_load_file_that_has_changed_is_checked_again),
        cmocka_unit_test(test_measure_every_prefix_and_every_changed_byte_is_safe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
