/* SPDX-License-Identifier: MIT */
/*
 * Goal: whatever a model file holds, the reader gives consistent numbers, or one line that names
 * the fault and its place.
 * Method: a small good model is written in memory; each test breaks one thing in it. Every prefix
 * and every changed byte of it is tried as well. Keys have a file of their own: test_gguf_keys.c.
 */
#include "selftest/unit/config/gguf_rig.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* A good model with 1 to 3 of these in a tensor's description changed. */
static void model_with_tensor(const char *name, uint64_t columns, uint64_t rows, uint32_t type)
{
    gguf_file_model(&file);
    uint8_t *at = gguf_file_after_tensor(&file, name);
    set_u64(at + 4, columns);
    set_u64(at + 12, rows);
    set_u32(at + 20, type);
}

/* ---- good files ------------------------------------------------------------------------------ */

static void test_scan_good_model_gives_shape(void **state)
{
    gguf_file_model(&file);
    assert_status(STATUS_OK, scan_and_load());
    const struct model_shape *shape = &gguf.shape;
    assert_true(gguf.has_model);
    assert_string_equal(gguf.model_name, "small");
    assert_int_equal(shape->layers, 1);
    assert_int_equal(shape->dim, 8);
    assert_int_equal(shape->heads, 2);
    assert_int_equal(shape->kv_heads, 1);
    assert_int_equal(shape->head_dim, 4);
    assert_int_equal(shape->ffn_dim, 8);
    assert_int_equal(shape->vocab_tokens, 6);
    assert_int_equal(shape->context_tokens, 32);
    assert_int_equal(shape->rope_dim, 4);
    assert_true(shape->rope_base == 10000.0f && shape->norm_epsilon == 1e-5f);
    assert_false(shape->tied_output);
    assert_false(shape->has_rope_factors);
    const struct gguf_tensor *tensor = gguf_tensor_find(&gguf, "blk.0.ffn_down.weight");
    assert_non_null(tensor);
    assert_int_equal(tensor->bytes, 8 * 8 * 4);
    assert_int_equal(tensor->offset + tensor->bytes, file.count);
    assert_int_equal(gguf.data_offset % 32, 0);
    assert_null(gguf_tensor_find(&gguf, "blk.1.ffn_down.weight"));
}

static void test_scan_vocabulary_only_file_has_no_model(void **state)
{
    gguf_file_begin(&file);
    gguf_file_text(&file, "general.architecture", "gpt2");
    gguf_file_bpe_keys(&file);
    gguf_file_end(&file, 0);
    assert_status(STATUS_OK, scan_and_load());
    assert_false(gguf.has_model);
    assert_int_equal(gguf.vocab.kind, VOCAB_BPE);
    assert_int_equal(gguf.vocab.merges, 2);
    assert_int_equal(gguf.vocab.eos_id, 5);
    assert_int_equal(gguf.vocab.bos_id, GGUF_NO_TOKEN);
    assert_false(gguf.vocab.add_bos);
}

static void test_scan_tied_output_and_rope_factors_are_optional(void **state)
{
    gguf_file_model(&file);
    /* Without its own output, and 2 values of another tensor's name: same length, other meaning. */
    uint8_t *name = gguf_file_after_tensor(&file, "output.weight") - strlen("output.weight");
    memcpy(name, "output.weighs", 13);
    assert_refused("tensor output.weighs is unknown");
    gguf_file_begin(&file);
    gguf_file_spm_keys(&file);
    gguf_file_tensor(&file, "token_embd.weight",
                     &(struct gguf_file_tensor){.columns = 8, .rows = 6});
    gguf_file_end(&file, 192);
    assert_refused("general.architecture is '', expected one of: llama qwen2 qwen3");
}

static void test_scan_unknown_keys_and_templates_are_ignored(void **state)
{
    static const char *const texts[] = {"x", "", "yz"};
    gguf_file_begin(&file);
    gguf_file_text(&file, "general.architecture", "llama");
    gguf_file_text(&file, "tokenizer.chat_template", "{% for m in messages %}{{ m }}{% endfor %}");
    gguf_file_texts(&file, "some.other.texts", texts, 3);
    gguf_file_u32(&file, "", 7);
    gguf_file_spm_keys(&file);
    gguf_file_end(&file, 0);
    assert_status(STATUS_OK, scan_and_load());
}

static void test_scan_embedded_model_is_good(void **state)
{
    struct gguf_source source;
    assert_status(STATUS_OK, gguf_source_open(&source, "appliance/embedded.gguf", &error));
    assert_status(STATUS_OK, gguf_scan(&gguf, &source, 64 << 20, &error));
    assert_int_equal(gguf.shape.dim, 128);
    assert_int_equal(gguf.shape.vocab_tokens, 1024);
    struct memory_plan plan = {0};
    vocab_plan_memory(&plan, &gguf.vocab);
    assert_status(STATUS_OK, vocab_load(&vocab, &gguf, &source, test_arena(), &error));
    gguf_source_close(&source);
}

static void test_scan_shared_models_are_good(void **state)
{
    static const char *const paths[] = {"../shared/models/stories260K.gguf",
                                        "../shared/models/llama-2-tiny-random.gguf"};
    for (uint32_t i = 0; i < 2; i++) {
        struct gguf_source source;
        if (access(paths[i], R_OK) != 0) {
            print_message("skipped: no %s: only files of others can prove this\n", paths[i]);
            skip();
        }
        assert_status(STATUS_OK, gguf_source_open(&source, paths[i], &error));
        assert_status(STATUS_OK, gguf_scan(&gguf, &source, 64 << 20, &error));
        assert_true(gguf.has_model);
        assert_int_equal(gguf.vocab.kind, VOCAB_SPM);
        gguf_source_close(&source);
    }
}

/* ---- damage everywhere ----------------------------------------------------------------------- */

static void test_scan_every_prefix_is_refused(void **state)
{
    gguf_file_model(&file);
    uint32_t whole = file.count;
    for (uint32_t count = 0; count < whole; count++) {
        file.count = count;
        assert_refused("test: offset ");
    }
    file.count = whole;
    assert_status(STATUS_OK, scan_and_load());
}

static void test_scan_every_changed_byte_is_survived(void **state)
{
    static const uint8_t changes[] = {0x01, 0x80, 0xff, 0x7f};
    gguf_file_model(&file);
    uint32_t whole = 2200 < file.count ? 2200 : file.count;
    for (uint32_t at = 0; at < whole; at++) {
        for (uint32_t i = 0; i < 4; i++) {
            file.bytes[at] ^= changes[i];
            enum status status = scan_and_load();
            assert_true(status == STATUS_OK || status == STATUS_CONFIG_MODEL);
            file.bytes[at] ^= changes[i];
        }
    }
}

/* ---- preamble -------------------------------------------------------------------------------- */

static void test_scan_wrong_magic_and_version_are_refused(void **state)
{
    gguf_file_model(&file);
    file.bytes[0] = 'g';
    assert_refused("expected 'GGUF'");
    gguf_file_model(&file);
    file.bytes[4] = 2;
    assert_refused("has version 2, expected 3");
    set_u32(file.bytes + 4, 0x03000000);
    assert_refused("is big-endian");
}

static void test_scan_huge_counts_are_refused(void **state)
{
    static const uint64_t counts[] = {UINT64_MAX, UINT64_C(1) << 63, UINT64_C(1) << 32, 65537};
    for (uint32_t i = 0; i < 4; i++) {
        gguf_file_model(&file);
        set_u64(file.bytes + 8, counts[i]);
        assert_refused("tensors, expected at most");
        gguf_file_model(&file);
        set_u64(file.bytes + 16, counts[i]);
        assert_refused("keys, expected at most");
    }
}

static void test_scan_header_above_limit_is_refused(void **state)
{
    struct gguf_source source;
    gguf_file_model(&file);
    gguf_source_memory(&source, file.bytes, file.count, "test");
    assert_status(STATUS_CONFIG_MODEL, gguf_scan(&gguf, &source, 500, &error));
    assert_non_null(strstr(error.text, "limits.vocabulary_bytes"));
}

/* ---- tensors --------------------------------------------------------------------------------- */

static void test_scan_bad_dimensions_are_refused(void **state)
{
    static const uint64_t sizes[] = {0, UINT64_MAX, UINT64_C(1) << 63, UINT64_C(1) << 41};
    for (uint32_t i = 0; i < 4; i++) {
        model_with_tensor("output.weight", sizes[i], 6, 0);
        assert_refused("dimension 0 of tensor output.weight");
        model_with_tensor("output.weight", 8, sizes[i], 0);
        assert_refused("dimension 1 of tensor output.weight");
    }
    model_with_tensor("output.weight", UINT64_C(1) << 32, UINT64_C(1) << 32, 0);
    assert_refused("dimension 1 of tensor output.weight");
    model_with_tensor("token_embd.weight", 8, 5, 0);
    assert_refused("token_embd.weight has 5 rows, expected one for each of the 6 tokens");
    for (uint32_t count = 0; count < 9; count += 5) {
        gguf_file_model(&file);
        set_u32(gguf_file_after_tensor(&file, "output.weight"), count);
        assert_refused(count == 0 ? "has 0 dimensions" : "has 5 dimensions");
    }
}

static void test_scan_other_tensor_types_are_refused_by_name(void **state)
{
    model_with_tensor("output.weight", 8, 6, 13);
    assert_refused("tensor output.weight has type Q5_K (13), "
                   "expected one of F32 F16 Q4_0 Q8_0 Q4_K Q6_K BF16");
    model_with_tensor("output.weight", 8, 6, 0xfffffff0);
    assert_refused("has type unknown (4294967280)");
    model_with_tensor("output.weight", 8, 6, GGUF_Q8_0);
    assert_refused("8 values of type Q8_0, expected a multiple of 32");
    model_with_tensor("output.weight", 32, 6, GGUF_Q6_K);
    assert_refused("32 values of type Q6_K, expected a multiple of 256");
    model_with_tensor("output.weight", 32, 6, GGUF_Q8_0);       /* 204 bytes, 192 are its own */
    assert_refused("tensors output.weight and blk.0.attn_norm.weight overlap");
    model_with_tensor("output.weight", 8, 6, GGUF_F16);
    assert_status(STATUS_OK, scan());
}

static void test_scan_bad_extents_are_refused(void **state)
{
    static const struct {
        uint64_t offset;
        const char *words;
    } rows[] = {
        {1, "expected a multiple of 32"},
        {0, "overlap"},
        {160, "tensors token_embd.weight and output.weight overlap"},
        {1 << 20, "expected an end within the file"},
        {UINT64_MAX - 31, "expected an end within the file"},
        {UINT64_C(1) << 63, "expected an end within the file"},
    };
    for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gguf_file_model(&file);
        set_u64(gguf_file_after_tensor(&file, "output.weight") + 24, rows[i].offset);
        assert_refused(rows[i].words);
    }
}

static void test_scan_bad_names_are_refused(void **state)
{
    gguf_file_model(&file);
    uint8_t *name = gguf_file_after_tensor(&file, "blk.0.attn_v.weight") - 19;
    name[11] = 'k';
    assert_refused("tensor blk.0.attn_k.weight appears twice");
    name[11] = '\n';
    assert_refused("holds the byte 0x0a");
    set_u64(name - 8, 64);
    assert_refused("name has 64 bytes, expected 1 to 63");
    set_u64(name - 8, 0);
    assert_refused("name has 0 bytes");
}

/* ---- sources --------------------------------------------------------------------------------- */

static void test_open_what_is_no_file_is_refused(void **state)
{
    struct gguf_source source;
    char fifo[64];
    snprintf(fifo, sizeof fifo, "%s/fifo", test_folder());
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_status(STATUS_CONFIG_MODEL, gguf_source_open(&source, "/no/such/file", &error));
    assert_non_null(strstr(error.text, "/no/such/file: cannot be opened: No such file"));
    assert_status(STATUS_CONFIG_MODEL, gguf_source_open(&source, "/tmp", &error));
    assert_non_null(strstr(error.text, "is not a regular file"));
    assert_status(STATUS_CONFIG_MODEL, gguf_source_open(&source, "/dev/null", &error));
    assert_status(STATUS_CONFIG_MODEL, gguf_source_open(&source, fifo, &error));
    assert_int_equal(source.fd, -1);
}

static void test_read_file_that_shrank_is_refused(void **state)
{
    char path[64];
    struct gguf_source source;
    snprintf(path, sizeof path, "%s/shrinks", test_folder());
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    gguf_file_model(&file);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, file.bytes, file.count), file.count);
    assert_status(STATUS_OK, gguf_source_open(&source, path, &error));
    assert_status(STATUS_OK, gguf_scan(&gguf, &source, 1 << 20, &error));
    assert_int_equal(ftruncate(fd, 100), 0);
    assert_status(STATUS_CONFIG_MODEL, vocab_load(&vocab, &gguf, &source, test_arena(), &error));
    assert_non_null(strstr(error.text, "the file became shorter"));
    uint8_t bytes[8];
    assert_status(STATUS_CONFIG_MODEL, gguf_read(&source, UINT64_MAX, bytes, 8, &error));
    assert_status(STATUS_CONFIG_MODEL, gguf_read(&source, 8, bytes, UINT64_MAX, &error));
    gguf_source_close(&source);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scan_good_model_gives_shape),
        cmocka_unit_test(test_scan_vocabulary_only_file_has_no_model),
        cmocka_unit_test(test_scan_tied_output_and_rope_factors_are_optional),
        cmocka_unit_test(test_scan_unknown_keys_and_templates_are_ignored),
        cmocka_unit_test(test_scan_embedded_model_is_good),
        cmocka_unit_test(test_scan_shared_models_are_good),
        cmocka_unit_test(test_scan_every_prefix_is_refused),
        cmocka_unit_test(test_scan_every_changed_byte_is_survived),
        cmocka_unit_test(test_scan_wrong_magic_and_version_are_refused),
        cmocka_unit_test(test_scan_huge_counts_are_refused),
        cmocka_unit_test(test_scan_header_above_limit_is_refused),
        cmocka_unit_test(test_scan_bad_dimensions_are_refused),
        cmocka_unit_test(test_scan_other_tensor_types_are_refused_by_name),
        cmocka_unit_test(test_scan_bad_extents_are_refused),
        cmocka_unit_test(test_scan_bad_names_are_refused),
        cmocka_unit_test(test_open_what_is_no_file_is_refused),
        cmocka_unit_test(test_read_file_that_shrank_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
