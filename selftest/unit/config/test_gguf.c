/* SPDX-License-Identifier: MIT */
/*
 * Goal: whatever a model file says, the reader either gives numbers that hold together or one line
 * that names what is wrong and where. Method: a small good model is written in memory; each test
 * breaks one thing in it. Every prefix and every changed byte of it is tried as well.
 */
#define TEST_ARENA_BYTES (128u << 10)
#include "selftest/unit/folder.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/model/gguf.h"
#include "config/vocab/vocab.h"
#include "selftest/fake/gguf_file.h"

static struct gguf_file file;
static struct gguf gguf;
static struct vocab vocab;
static struct config_error error;

static enum status scan(void)
{
    struct gguf_source source;
    gguf_source_memory(&source, file.bytes, file.count, "test");
    return gguf_scan(&gguf, &source, 1 << 20, &error);
}

static enum status scan_and_load(void)
{
    struct gguf_source source;
    struct memory_plan plan = {0};
    gguf_source_memory(&source, file.bytes, file.count, "test");
    TRY(gguf_scan(&gguf, &source, 1 << 20, &error));
    vocab_plan_memory(&plan, &gguf.vocab);
    struct arena *arena = test_arena();
    enum status status = vocab_load(&vocab, &gguf, &source, arena, &error);
    assert_true(arena->used_bytes == memory_plan_bytes(&plan, MEMORY_MODEL));
    return status;
}

/* The file is refused, and the message has the name, an offset and these words. */
static void assert_refused(const char *words)
{
    memset(&error, 0, sizeof error);
    assert_status(STATUS_CONFIG_MODEL, scan_and_load());
    if (strstr(error.text, words) == NULL) {
        print_error("expected '%s' in '%s'\n", words, error.text);
        fail();
    }
    assert_true(strncmp(error.text, "test: offset ", 13) == 0);
}

static void set_u32(uint8_t *at, uint32_t value) { memcpy(at, &value, sizeof value); }
static void set_u64(uint8_t *at, uint64_t value) { memcpy(at, &value, sizeof value); }

/* A good model with the value of one key changed. */
static void model_with(const char *key, uint32_t value)
{
    gguf_file_model(&file);
    set_u32(gguf_file_after_key(&file, key) + 4, value);
}

static struct gguf_file with_more;

/* Where keys are written that a good model is to have besides its own. */
static struct gguf_file *more_keys(void)
{
    gguf_file_model(&file);
    gguf_file_begin(&with_more);
    with_more.keys = file.keys;
    with_more.tensors = file.tensors;
    return &with_more;
}

static void model_with_more_keys(void)
{
    gguf_file_raw(&with_more, file.bytes + 24, file.count - 24);
    gguf_file_end(&with_more, 64);
    file = with_more;
}

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
            print_message("skipped: %s is not here\n", paths[i]);
            continue;
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

/* ---- keys ------------------------------------------------------------------------------------ */

static void test_scan_huge_lengths_are_refused(void **state)
{
    static const uint64_t lengths[] = {UINT64_MAX, UINT64_MAX - 7, UINT64_C(1) << 63,
                                       UINT64_C(1) << 62, UINT64_C(1) << 32, 100000};
    for (uint32_t i = 0; i < 6; i++) {
        gguf_file_model(&file);
        set_u64(gguf_file_after_key(&file, "general.name") + 4, lengths[i]);
        assert_refused("the file ends within general.name");
        gguf_file_model(&file);
        set_u64(gguf_file_after_key(&file, "tokenizer.ggml.tokens") + 8, lengths[i]);
        assert_refused("tokenizer.ggml.tokens has");
        gguf_file_model(&file);
        set_u64(gguf_file_after_key(&file, "tokenizer.ggml.scores") + 8, lengths[i]);
        assert_refused("tokenizer.ggml.scores has");
        gguf_file_model(&file);
        set_u64(file.bytes + 24, lengths[i]);
        assert_refused("a key has");
    }
}

static void test_scan_wrong_types_are_refused(void **state)
{
    gguf_file_model(&file);
    set_u32(gguf_file_after_key(&file, "tokenizer.ggml.scores") + 4, 1);
    assert_refused("tokenizer.ggml.scores is an array of i8, expected an array of f32");
    gguf_file_model(&file);
    set_u32(gguf_file_after_key(&file, "tokenizer.ggml.token_type") + 4, 9);
    assert_refused("is an array of type 9");
    gguf_file_model(&file);
    set_u32(gguf_file_after_key(&file, "tokenizer.ggml.tokens") + 4, 77);
    assert_refused("is an array of type 77");
    gguf_file_model(&file);
    set_u32(gguf_file_after_key(&file, "llama.block_count"), 6);
    assert_refused("llama.block_count is f32, expected an integer");
    gguf_file_model(&file);
    set_u32(gguf_file_after_key(&file, "llama.rope.freq_base"), 4);
    assert_refused("llama.rope.freq_base is u32, expected a finite f32");
    gguf_file_model(&file);
    set_u32(gguf_file_after_key(&file, "general.name"), 13);
    assert_refused("general.name has type 13");
    gguf_file_model(&file);
    set_u32(gguf_file_after_key(&file, "general.name"), 4);
    assert_refused("general.name is u32, expected a text");
    model_with("llama.block_count", 0xffffffff);
    set_u32(gguf_file_after_key(&file, "llama.block_count"), 5);
    assert_refused("llama.block_count is out of range");
}

static void test_scan_key_twice_is_refused(void **state)
{
    gguf_file_begin(&file);
    gguf_file_text(&file, "general.architecture", "llama");
    gguf_file_text(&file, "general.architecture", "llama");
    gguf_file_spm_keys(&file);
    gguf_file_end(&file, 0);
    assert_refused("general.architecture appears twice");
}

static void test_scan_bad_alignment_is_refused(void **state)
{
    static const uint32_t alignments[] = {0, 3, 48, 0x80000000u, 0xffffffffu};
    for (uint32_t i = 0; i < 5; i++) {
        model_with("general.alignment", alignments[i]);
        assert_refused("general.alignment is");
    }
}

/* ---- relations ------------------------------------------------------------------------------- */

static void test_scan_bad_relations_are_refused(void **state)
{
    static const struct {
        const char *key;
        uint32_t value;
        const char *words;
    } rows[] = {
        {"llama.block_count", 0, "llama.block_count is 0, expected 1 to 256"},
        {"llama.block_count", 2, "tensor blk.1.attn_norm.weight is missing"},
        {"llama.block_count", 257, "llama.block_count is 257"},
        {"llama.context_length", 0, "llama.context_length is 0"},
        {"llama.embedding_length", 0, "llama.embedding_length is 0"},
        {"llama.embedding_length", 16, "tensor token_embd.weight is 8 x 6"},
        {"llama.feed_forward_length", 32, "tensor blk.0.ffn_gate.weight is 8 x 8"},
        {"llama.feed_forward_length", 0xffffffff, "llama.feed_forward_length is 4294967295"},
        {"llama.attention.head_count", 0, "llama.attention.head_count is 0"},
        {"llama.attention.head_count", 3, "expected a divisor of the 3 heads"},
        {"llama.attention.head_count", 16, "expected a divisor of the embedding length 8"},
        {"llama.attention.head_count", 8, "a head has 1 dimensions"},
        {"llama.attention.head_count_kv", 0, "llama.attention.head_count_kv is 0"},
        {"llama.attention.head_count_kv", 3, "expected a divisor of the 2 heads"},
        {"llama.attention.head_count_kv", 2, "tensor blk.0.attn_k.weight is 8 x 4"},
        {"llama.rope.dimension_count", 0, "llama.rope.dimension_count is 0"},
        {"llama.rope.dimension_count", 6, "expected an even number of 2 to 4"},
        {"llama.rope.dimension_count", 3, "expected an even number of 2 to 4"},
        {"llama.attention.layer_norm_rms_epsilon", 0x7fc00000, "epsilon is not a number"},
        {"llama.attention.layer_norm_rms_epsilon", 0, "epsilon is out of range"},
        {"llama.rope.freq_base", 0x7f800000, "freq_base is not a number"},
        {"llama.rope.freq_base", 0xbf800000, "freq_base is not positive"},
        {"tokenizer.ggml.bos_token_id", 6, "bos_token_id is 6, expected less than the 6 tokens"},
    };
    for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        model_with(rows[i].key, rows[i].value);
        if (strstr(rows[i].words, "of the 3 heads") != NULL) {
            set_u32(gguf_file_after_key(&file, "llama.attention.head_count_kv") + 4, 2);
        }
        assert_refused(rows[i].words);
    }
}

static void test_scan_contradictions_of_sizes_are_refused(void **state)
{
    static const struct {
        const char *key;
        uint32_t number;
        const char *words;
    } rows[] = {
        {"llama.vocab_size", 7, "llama.vocab_size is 7"},
        {"llama.attention.value_length", 8, "llama.attention.value_length is 8"},
        {"llama.attention.key_length", 6, "tensor blk.0.attn_q.weight is 8 x 8"},
    };
    for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gguf_file_u32(more_keys(), rows[i].key, rows[i].number);
        model_with_more_keys();
        assert_refused(rows[i].words);
    }
}

static void test_scan_flags_are_bools(void **state)
{
    static const char key[] = "tokenizer.ggml.add_space_prefix";
    gguf_file_u32(more_keys(), key, 1);
    model_with_more_keys();
    assert_refused("tokenizer.ggml.add_space_prefix is u32, expected a bool");
    gguf_file_flag(more_keys(), key, true);
    model_with_more_keys();
    assert_status(STATUS_OK, scan_and_load());
    gguf_file_after_key(&file, key)[4] = 2;
    assert_refused("tokenizer.ggml.add_space_prefix is the byte 2, expected 0 or 1");
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

/* ---- vocabulary ------------------------------------------------------------------------------ */

static void vocabulary(const char *const *tokens, const int32_t *types, uint32_t count)
{
    static const float scores[8] = {0};
    gguf_file_begin(&file);
    gguf_file_text(&file, "tokenizer.ggml.model", "llama");
    gguf_file_texts(&file, "tokenizer.ggml.tokens", tokens, count);
    gguf_file_f32s(&file, "tokenizer.ggml.scores", scores, count);
    gguf_file_i32s(&file, "tokenizer.ggml.token_type", types, count);
    gguf_file_end(&file, 0);
}

static void test_load_bad_tokens_are_refused(void **state)
{
    static char longest[GGUF_TOKEN_BYTES_MAX + 2];
    const char *const twice[] = {"<unk>", "a", "a"};
    const char *const broken[] = {"<unk>", "a", "\xc3("};
    const char *const surrogate[] = {"<unk>", "a", "\xed\xa0\x80"};
    const char *const large[] = {"<unk>", "a", longest};
    const char *const empty[] = {"<unk>", "", ""};
    const int32_t types[] = {2, 1, 1}, byte[] = {2, 1, 6}, unknown[] = {2, 7, 1};
    memset(longest, 'x', GGUF_TOKEN_BYTES_MAX + 1);
    vocabulary(twice, types, 3);
    assert_refused("tokenizer.ggml.tokens[2] has the same text as another");
    vocabulary(broken, types, 3);
    assert_refused("tokenizer.ggml.tokens[2] is not UTF-8");
    vocabulary(surrogate, types, 3);
    assert_refused("tokenizer.ggml.tokens[2] is not UTF-8");
    vocabulary(large, types, 3);
    assert_refused("tokenizer.ggml.tokens[2] has 1025 bytes, expected at most 1024");
    vocabulary(twice, unknown, 3);
    set_u32(gguf_file_after_key(&file, "tokenizer.ggml.tokens") + 8, 0);
    assert_refused("test: offset ");
    vocabulary((const char *const[]){"<unk>", "a", "b"}, unknown, 3);
    assert_refused("tokenizer.ggml.token_type[1] is 7");
    vocabulary((const char *const[]){"<unk>", "a", "<0xG0>"}, byte, 3);
    assert_refused("tokenizer.ggml.tokens[2] is a byte token");
    vocabulary(empty, types, 3);
    assert_status(STATUS_OK, scan_and_load());
}

static void test_load_scores_that_are_no_numbers_are_refused(void **state)
{
    const char *const tokens[] = {"<unk>", "a", "b"};
    const int32_t types[] = {2, 1, 1};
    vocabulary(tokens, types, 3);
    set_u32(gguf_file_after_key(&file, "tokenizer.ggml.scores") + 16 + 4, 0x7fc00000);
    assert_refused("tokenizer.ggml.scores[1] is not a number");
}

static void test_load_arrays_of_other_lengths_are_refused(void **state)
{
    const char *const tokens[] = {"<unk>", "a"};
    const float scores[] = {0};
    gguf_file_begin(&file);
    gguf_file_text(&file, "tokenizer.ggml.model", "llama");
    gguf_file_texts(&file, "tokenizer.ggml.tokens", tokens, 2);
    gguf_file_f32s(&file, "tokenizer.ggml.scores", scores, 1);
    gguf_file_end(&file, 0);
    assert_refused("tokenizer.ggml.scores has 1 elements, expected one for each of the 2 tokens");
}

static void bpe_with_merges(const char *const *merges, uint32_t count, const char *pre)
{
    const char *const tokens[] = {"a", "b", "ab", "<|end|>"};
    const int32_t types[] = {1, 1, 1, 3};
    gguf_file_begin(&file);
    gguf_file_text(&file, "tokenizer.ggml.model", "gpt2");
    gguf_file_text(&file, "tokenizer.ggml.pre", pre);
    gguf_file_texts(&file, "tokenizer.ggml.tokens", tokens, 4);
    gguf_file_i32s(&file, "tokenizer.ggml.token_type", types, 4);
    if (merges != NULL) {
        gguf_file_texts(&file, "tokenizer.ggml.merges", merges, count);
    }
    gguf_file_end(&file, 0);
}

static void bpe_with(const char *merge, const char *pre)
{
    bpe_with_merges(&merge, 1, pre);
}

static void test_load_bad_merges_are_refused(void **state)
{
    static const char *const merges[] = {"",    " ",    "a",    "a ",      " a",   "a c",
                                         "b a", "ab a", "<|end| >", "a  b", "a b a"};
    for (uint32_t i = 0; i < sizeof merges / sizeof merges[0]; i++) {
        bpe_with(merges[i], "gpt-2");
        assert_refused("tokenizer.ggml.merges[0]");
    }
    bpe_with_merges(NULL, 0, "gpt-2");
    assert_refused("tokenizer.ggml.merges is missing, expected an array of texts");
    bpe_with("a b", "gpt-2");
    assert_status(STATUS_OK, scan_and_load());
    bpe_with_merges((const char *const[]){"a b", "a b"}, 2, "gpt-2");
    assert_status(STATUS_OK, scan_and_load());
}

/* Between the scan, which plans the memory, and the load, which fills it. */
static void test_load_file_that_changed_is_refused(void **state)
{
    static const char *const keys[] = {"tokenizer.ggml.tokens", "tokenizer.ggml.merges"};
    for (uint32_t i = 0; i < 2; i++) {
        struct gguf_source source;
        bpe_with("a b", "gpt-2");
        gguf_source_memory(&source, file.bytes, file.count, "test");
        assert_status(STATUS_OK, gguf_scan(&gguf, &source, 1 << 20, &error));
        set_u64(gguf_file_after_key(&file, keys[i]) + 16, UINT64_MAX);
        assert_status(STATUS_CONFIG_MODEL,
                      vocab_load(&vocab, &gguf, &source, test_arena(), &error));
        assert_non_null(strstr(error.text, "has changed since the file was checked"));
    }
}

static void test_scan_other_tokenizers_are_refused_by_name(void **state)
{
    bpe_with("a b", "tekken");
    assert_refused("tokenizer.ggml.pre is 'tekken', expected 'gpt-2', 'llama-bpe', 'qwen2', "
                   "'deepseek-coder' or 'falcon'");
    gguf_file_begin(&file);
    gguf_file_text(&file, "tokenizer.ggml.model", "be\x1b[2Jrt");
    gguf_file_end(&file, 0);
    assert_refused("tokenizer.ggml.model is 'be?[2Jrt', expected 'llama' or 'gpt2'");
    gguf_file_begin(&file);
    gguf_file_end(&file, 0);
    assert_refused("tokenizer.ggml.model is 'missing'");
}

/* ---- sources --------------------------------------------------------------------------------- */

static void test_open_what_is_no_file_is_refused(void **state)
{
    struct gguf_source source;
    char fifo[64];
    snprintf(fifo, sizeof fifo, "%s/fifo", test_folder());
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_status(STATUS_CONFIG_MODEL, gguf_source_open(&source, "/no/such/file", &error));
    assert_non_null(strstr(error.text, "/no/such/file: offset 0: cannot be opened"));
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
        cmocka_unit_test(test_scan_huge_lengths_are_refused),
        cmocka_unit_test(test_scan_wrong_types_are_refused),
        cmocka_unit_test(test_scan_key_twice_is_refused),
        cmocka_unit_test(test_scan_bad_alignment_is_refused),
        cmocka_unit_test(test_scan_bad_relations_are_refused),
        cmocka_unit_test(test_scan_contradictions_of_sizes_are_refused),
        cmocka_unit_test(test_scan_flags_are_bools),
        cmocka_unit_test(test_scan_bad_dimensions_are_refused),
        cmocka_unit_test(test_scan_other_tensor_types_are_refused_by_name),
        cmocka_unit_test(test_scan_bad_extents_are_refused),
        cmocka_unit_test(test_scan_bad_names_are_refused),
        cmocka_unit_test(test_load_bad_tokens_are_refused),
        cmocka_unit_test(test_load_scores_that_are_no_numbers_are_refused),
        cmocka_unit_test(test_load_arrays_of_other_lengths_are_refused),
        cmocka_unit_test(test_load_bad_merges_are_refused),
        cmocka_unit_test(test_load_file_that_changed_is_refused),
        cmocka_unit_test(test_scan_other_tokenizers_are_refused_by_name),
        cmocka_unit_test(test_open_what_is_no_file_is_refused),
        cmocka_unit_test(test_read_file_that_shrank_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
