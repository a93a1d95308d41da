/* SPDX-License-Identifier: MIT */
/*
 * Goal: a file of each family is read as what it is, and whatever would make the engine compute
 * something else than the model's authors did is refused by name.
 * Method: a small good model of each family; keys are added, and its tensors spoilt one by one.
 */
#define TEST_ARENA_BYTES (128u << 10)
#include "selftest/unit/test.h"

#include <stdio.h>

#include "config/model/gguf.h"
#include "selftest/fake/gguf_file.h"

/* Said here a second time, so that the table and its test check each other. */
static const struct {
    const char *name;
    enum rope_pairs pairs;
    bool qkv_bias, qk_norm;
    uint32_t head_dim, tensors;
} families[] = {
    {"llama", ROPE_ADJACENT, false, false, 4, 12},
    {"qwen2", ROPE_HALVES, true, false, 4, 15},
    {"qwen3", ROPE_HALVES, false, true, 2, 14},
};
#define FAMILIES (sizeof families / sizeof families[0])

static struct gguf_file file, plain;
static struct gguf gguf;
static struct config_error error;

static enum status scan(void)
{
    struct gguf_source source;
    gguf_source_memory(&source, file.bytes, file.count, "test");
    memset(&error, 0, sizeof error);
    return gguf_scan(&gguf, &source, 1 << 20, &error);
}

static void assert_refused(const char *words)
{
    assert_status(STATUS_CONFIG_MODEL, scan());
    if (strstr(error.text, words) == NULL) {
        print_error("expected '%s' in '%s'\n", words, error.text);
        fail();
    }
}

/* More keys come before those of a good model: begin, any keys, end. */
static void more_begin(const char *family)
{
    gguf_file_family(&plain, family);
    gguf_file_begin(&file);
    file.keys = plain.keys;
    file.tensors = plain.tensors;
}

static void more_end(void)
{
    gguf_file_raw(&file, plain.bytes + 24, plain.count - 24);
    gguf_file_end(&file, 64);
}

static const char *key_of(const char *family, const char *name)
{
    static char key[64];
    snprintf(key, sizeof key, "%s.%s", family, name);
    return key;
}

/* Every `from` becomes `to`, which is as long. */
static void replace_all(const char *from, const char *to)
{
    uint32_t bytes = (uint32_t)strlen(from);
    assert_int_equal(strlen(to), bytes);
    for (uint32_t at = 0; at + bytes <= file.count; at++) {
        if (memcmp(file.bytes + at, from, bytes) == 0) {
            memcpy(file.bytes + at, to, bytes);
        }
    }
}

/* ---- the families ---- */

static void test_scan_each_family_is_what_it_is(void **state)
{
    (void)state;
    assert_int_equal(model_families_count, FAMILIES);
    for (uint32_t i = 0; i < FAMILIES; i++) {
        gguf_file_family(&file, families[i].name);
        assert_status(STATUS_OK, scan());
        const struct model_family *family = gguf.shape.family;
        assert_string_equal(family->name, families[i].name);
        assert_int_equal(family->rope_pairs, families[i].pairs);
        assert_int_equal(family->qkv_bias, families[i].qkv_bias);
        assert_int_equal(family->qk_norm, families[i].qk_norm);
        assert_int_equal(gguf.shape.head_dim, families[i].head_dim);
        assert_int_equal(gguf.shape.rope_dim, families[i].head_dim);
        assert_true(gguf.shape.rope_scale == 1.0f);
        assert_int_equal(gguf.tensors_count, families[i].tensors);
    }
}

static void test_find_takes_whole_names_only(void **state)
{
    (void)state;
    assert_non_null(model_family_find("qwen2.block_count", 5));
    assert_null(model_family_find("qwen2.block_count", 4));
    assert_null(model_family_find("qwen2moe", 8));
    assert_null(model_family_find("", 0));
}

static void test_scan_other_families_are_refused_by_name(void **state)
{
    (void)state;
    gguf_file_family(&file, "gemma");
    assert_refused("general.architecture is 'gemma', expected one of: llama qwen2 qwen3");
    gguf_file_family(&file, "qwen2moe");
    assert_refused("general.architecture is 'qwen2moe', expected one of");
}

static void test_scan_keys_of_two_families_are_refused(void **state)
{
    (void)state;
    more_begin("llama");
    gguf_file_u32(&file, "qwen3.block_count", 1);
    more_end();
    assert_refused("llama.block_count stands beside keys of qwen3");
    gguf_file_family(&file, "llama");
    memcpy(gguf_file_after_key(&file, "general.architecture") + 12, "qwen2", 5);
    assert_refused("general.architecture is 'qwen2', expected 'llama' as in the other keys");
}

static void test_scan_a_family_is_before_its_own_keys_only(void **state)
{
    (void)state;
    more_begin("llama");
    gguf_file_u32(&file, "block_count", 2);
    gguf_file_u32(&file, ".block_count", 3);
    gguf_file_text(&file, "llama.general.name", "x");
    more_end();
    assert_status(STATUS_OK, scan());
    assert_int_equal(gguf.shape.layers, 1);
    assert_string_equal(gguf.model_name, "small");
}

static void test_scan_architecture_may_come_last(void **state)
{
    (void)state;
    gguf_file_family(&plain, "qwen3");
    gguf_file_begin(&file);
    uint32_t pair = 8 + 20 + 4 + 8 + 5;         /* general.architecture, the first one */
    uint32_t behind = (uint32_t)(gguf_file_after_key(&plain, "tokenizer.ggml.eos_token_id") -
                                 plain.bytes) + 8;
    gguf_file_raw(&file, plain.bytes + 24 + pair, behind - 24 - pair);
    gguf_file_raw(&file, plain.bytes + 24, pair);
    gguf_file_raw(&file, plain.bytes + behind, plain.count - behind);
    file.keys = plain.keys;
    file.tensors = plain.tensors;
    gguf_file_end(&file, 0);
    assert_memory_not_equal(file.bytes + 24, plain.bytes + 24, pair);
    assert_status(STATUS_OK, scan());
    assert_string_equal(gguf.shape.family->name, "qwen3");
}

/* ---- tensors ---- */

/* A tensor of a family's file, which is written anew and as it should be. */
static struct gguf_tensor tensor_of_family(uint32_t family, uint32_t tensor)
{
    gguf_file_family(&file, families[family].name);
    assert_status(STATUS_OK, scan());
    return gguf.tensors[tensor];
}

static void test_scan_each_tensor_of_each_family_is_needed(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < FAMILIES; i++) {
        for (uint32_t t = 0; t < families[i].tensors; t++) {
            char words[128];
            struct gguf_tensor tensor = tensor_of_family(i, t);
            gguf_file_after_tensor(&file, tensor.name)[-1] = 'z';
            bool may_be_tied = strcmp(tensor.name, "output.weight") == 0;
            snprintf(words, sizeof words, may_be_tied ? "tensor output.weighz is unknown"
                                                      : "tensor %s is missing", tensor.name);
            assert_refused(words);
        }
    }
}

static void test_scan_each_tensor_of_each_family_has_its_shape(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < FAMILIES; i++) {
        for (uint32_t t = 0; t < families[i].tensors; t++) {
            char words[128];
            struct gguf_tensor tensor = tensor_of_family(i, t);
            gguf_file_after_tensor(&file, tensor.name)[4] -= 1;
            snprintf(words, sizeof words, "tensor %s is %u x %u x 1 x 1, expected %u x %u",
                     tensor.name, (uint32_t)tensor.dims[0] - 1, (uint32_t)tensor.dims[1],
                     (uint32_t)tensor.dims[0], (uint32_t)tensor.dims[1]);
            assert_refused(words);
        }
    }
}

/* Norms and biases are F32. */
static void test_scan_each_vector_of_each_family_is_float(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < FAMILIES; i++) {
        for (uint32_t t = 0; t < families[i].tensors; t++) {
            char words[128];
            struct gguf_tensor tensor = tensor_of_family(i, t);
            uint8_t *type = gguf_file_after_tensor(&file, tensor.name) + 4 + 8 * tensor.dims_count;
            snprintf(words, sizeof words, "tensor %s has type F16, expected F32", tensor.name);
            *type = GGUF_F16;
            if (tensor.dims[1] == 1) {
                assert_refused(words);
            } else {
                assert_status(STATUS_OK, scan());
            }
        }
    }
}

static void test_scan_heads_of_odd_dimensions_are_refused(void **state)
{
    (void)state;
    more_begin("llama");
    gguf_file_u32(&file, "llama.attention.key_length", 5);
    more_end();
    assert_refused("a head has 5 dimensions, expected an even number, 2 to 1024");
}

static void test_scan_tensors_of_another_family_are_refused(void **state)
{
    (void)state;
    gguf_file_family(&file, "qwen2");
    replace_all("qwen2", "qwen3");
    assert_refused("tensor blk.0.attn_q_norm.weight is missing");
    gguf_file_family(&file, "qwen2");
    replace_all("qwen2", "llama");
    assert_refused("tensor blk.0.attn_q.bias is unknown, expected those of a plain llama model");
    gguf_file_family(&file, "qwen3");
    replace_all("qwen3", "llama");
    assert_refused("tensor blk.0.attn_q_norm.weight is unknown");
}

/* ---- what changes the computation ---- */

static void test_scan_what_the_engine_cannot_run_is_refused_by_name(void **state)
{
    (void)state;
    static const char *const types[] = {"yarn", "longrope", "llama3", ""};
    for (uint32_t i = 0; i < FAMILIES; i++) {
        const char *name = families[i].name;
        for (uint32_t t = 0; t < sizeof types / sizeof types[0]; t++) {
            char words[80];
            more_begin(name);
            gguf_file_text(&file, key_of(name, "rope.scaling.type"), types[t]);
            more_end();
            snprintf(words, sizeof words,
                     "%s.rope.scaling.type is '%s', expected 'none' or 'linear'", name, types[t]);
            assert_refused(words);
        }
        more_begin(name);
        gguf_file_u32(&file, key_of(name, "expert_count"), 8);
        more_end();
        assert_refused(key_of(name, "expert_count is 8, expected 0: no mixture of experts"));
        more_begin(name);
        gguf_file_u32(&file, key_of(name, "attention.sliding_window"), 31);
        more_end();
        assert_refused(key_of(name, "attention.sliding_window is 31, expected none below"));
        more_begin(name);
        gguf_file_flag(&file, key_of(name, "attention.causal"), false);
        more_end();
        assert_refused(key_of(name, "attention.causal is false, expected true"));
        more_begin(name);
        gguf_file_f32(&file, key_of(name, "rope.scaling.attn_factor"), 0.5f);
        more_end();
        assert_refused(key_of(name, "rope.scaling.attn_factor is 0.5, expected 1"));
    }
}

static void test_scan_extensions_that_change_nothing_are_taken(void **state)
{
    (void)state;
    more_begin("qwen2");
    gguf_file_u32(&file, "qwen2.expert_count", 0);
    gguf_file_u32(&file, "qwen2.attention.sliding_window", 32);
    gguf_file_flag(&file, "qwen2.attention.causal", true);
    gguf_file_f32(&file, "qwen2.rope.scaling.attn_factor", 1.0f);
    more_end();
    assert_status(STATUS_OK, scan());
}

static void test_scan_scale_of_positions_is_taken(void **state)
{
    (void)state;
    const struct {
        const char *type;
        float factor, scale_linear;     /* below 0: no such key */
        float expected;
    } cases[] = {
        {"linear", 4, -1, 4}, {NULL, 4, -1, 4}, {"none", 4, -1, 1},
        {"linear", -1, 8, 8}, {NULL, 4, 8, 4},  {"linear", 0, 8, 1},
        {"linear", -1, -1, 1}, {NULL, 0.5f, -1, 0.5f},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        more_begin("qwen3");
        if (cases[i].type != NULL) {
            gguf_file_text(&file, "qwen3.rope.scaling.type", cases[i].type);
        }
        if (cases[i].factor >= 0) {
            gguf_file_f32(&file, "qwen3.rope.scaling.factor", cases[i].factor);
        }
        if (cases[i].scale_linear >= 0) {
            gguf_file_f32(&file, "qwen3.rope.scale_linear", cases[i].scale_linear);
        }
        more_end();
        assert_status(STATUS_OK, scan());
        assert_true(gguf.shape.rope_scale == cases[i].expected);
    }
}

static void test_scan_bad_scale_of_positions_is_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"rope.scaling.factor", "rope.scale_linear"};
    for (uint32_t i = 0; i < 2; i++) {
        char words[80];
        more_begin("llama");
        gguf_file_f32(&file, key_of("llama", names[i]), -2.0f);
        more_end();
        snprintf(words, sizeof words, "llama.%s is negative, expected more than 0", names[i]);
        assert_refused(words);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scan_each_family_is_what_it_is),
        cmocka_unit_test(test_find_takes_whole_names_only),
        cmocka_unit_test(test_scan_other_families_are_refused_by_name),
        cmocka_unit_test(test_scan_keys_of_two_families_are_refused),
        cmocka_unit_test(test_scan_a_family_is_before_its_own_keys_only),
        cmocka_unit_test(test_scan_architecture_may_come_last),
        cmocka_unit_test(test_scan_each_tensor_of_each_family_is_needed),
        cmocka_unit_test(test_scan_each_tensor_of_each_family_has_its_shape),
        cmocka_unit_test(test_scan_each_vector_of_each_family_is_float),
        cmocka_unit_test(test_scan_heads_of_odd_dimensions_are_refused),
        cmocka_unit_test(test_scan_tensors_of_another_family_are_refused),
        cmocka_unit_test(test_scan_what_the_engine_cannot_run_is_refused_by_name),
        cmocka_unit_test(test_scan_extensions_that_change_nothing_are_taken),
        cmocka_unit_test(test_scan_scale_of_positions_is_taken),
        cmocka_unit_test(test_scan_bad_scale_of_positions_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
