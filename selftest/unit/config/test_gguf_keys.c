/* SPDX-License-Identifier: MIT */
/*
 * Goal: keys of a model file are of the right type and agree with each other, and vocabularies are
 * sound; else one line names the fault and its place.
 * Method: a small good model, or a small vocabulary, is written in memory; each test breaks one
 * thing in it.
 */
#include "selftest/unit/config/gguf_rig.h"

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

/* ---- the chat template ----------------------------------------------------------------------- */

#define CHATML(system)                                                                       \
    "{% for message in messages %}" system                                                   \
    "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}"   \
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
#define OWN(words) \
    "{% if loop.first and messages[0].role != 'system' %}" \
    "{{ '<|im_start|>system\\n" words "<|im_end|>\\n' }}{% endif %}"

static enum chat_verdict template_of(const char *template)
{
    gguf_file_begin(&file);
    gguf_file_spm_keys(&file);
    gguf_file_text(&file, "tokenizer.chat_template", template);
    gguf_file_end(&file, 0);
    assert_status(STATUS_OK, scan_and_load());
    return gguf.chat.verdict;
}

static void test_scan_recognises_the_chat_template(void **state)
{
    assert_int_equal(template_of(CHATML("")), CHAT_KNOWN);
    assert_int_equal(gguf.chat.format.id, CHAT_CHATML);
    assert_int_equal(gguf.chat.template_bytes, sizeof CHATML("") - 1);
    assert_int_equal(template_of(CHATML(OWN("Hi."))), CHAT_KNOWN);
    assert_string_equal(gguf.chat.format.system, "Hi.");
    assert_int_equal(template_of(CHATML(OWN("\xff"))), CHAT_UNKNOWN);       /* not UTF-8 */
    assert_string_equal(gguf.chat.format.system, "");
    assert_int_equal(template_of("{{ \"\x1b[2J\" }}"), CHAT_UNKNOWN);
    assert_int_equal(template_of(""), CHAT_UNKNOWN);
}

static void test_scan_serves_without_a_chat_template_that_it_can_read(void **state)
{
    static char huge[CHAT_TEMPLATE_BYTES_MAX + 2];
    memset(huge, ' ', CHAT_TEMPLATE_BYTES_MAX + 1);
    assert_int_equal(template_of(huge), CHAT_UNKNOWN);
    gguf_file_begin(&file);
    gguf_file_spm_keys(&file);
    gguf_file_u32(&file, "tokenizer.chat_template", 7);
    gguf_file_end(&file, 0);
    assert_status(STATUS_OK, scan_and_load());
    assert_int_equal(gguf.chat.verdict, CHAT_UNKNOWN);
    gguf_file_begin(&file);
    gguf_file_spm_keys(&file);
    gguf_file_end(&file, 0);
    assert_status(STATUS_OK, scan_and_load());
    assert_int_equal(gguf.chat.verdict, CHAT_ABSENT);
    assert_int_equal(gguf.chat.format.id, CHAT_PLAIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scan_huge_lengths_are_refused),
        cmocka_unit_test(test_scan_wrong_types_are_refused),
        cmocka_unit_test(test_scan_key_twice_is_refused),
        cmocka_unit_test(test_scan_bad_alignment_is_refused),
        cmocka_unit_test(test_scan_bad_relations_are_refused),
        cmocka_unit_test(test_scan_contradictions_of_sizes_are_refused),
        cmocka_unit_test(test_scan_flags_are_bools),
        cmocka_unit_test(test_load_bad_tokens_are_refused),
        cmocka_unit_test(test_load_scores_that_are_no_numbers_are_refused),
        cmocka_unit_test(test_load_arrays_of_other_lengths_are_refused),
        cmocka_unit_test(test_load_bad_merges_are_refused),
        cmocka_unit_test(test_load_file_that_changed_is_refused),
        cmocka_unit_test(test_scan_other_tokenizers_are_refused_by_name),
        cmocka_unit_test(test_scan_recognises_the_chat_template),
        cmocka_unit_test(test_scan_serves_without_a_chat_template_that_it_can_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
