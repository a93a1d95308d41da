/* SPDX-License-Identifier: MIT */
#pragma once
/* What: small vocabularies of both kinds, and what they encode. */
#define TEST_ARENA_BYTES (24u << 20)
#include "selftest/unit/test.h"

#include <stdio.h>

#include "config/vocab/merge.h"
#include "config/vocab/unicode.h"
#include "selftest/fake/gguf_file.h"

#define TEXT_MAX   70000
#define TOKENS_MAX (4 * TEXT_MAX)
#define MARK       "\xe2\x96\x81"   /* U+2581 */

static struct gguf_file file;
static struct gguf gguf;
static struct vocab vocab;
static struct config_error error;
static struct vocab_scratch scratch;
static uint64_t scratch_memory[8 * TEXT_MAX];
static uint32_t tokens[TOKENS_MAX];
static uint32_t tokens_count;

static inline void load(struct gguf_source *source)
{
    struct memory_plan plan = {0};
    struct arena *arena = test_arena();
    assert_status(STATUS_OK, gguf_scan(&gguf, source, 64 << 20, &error));
    vocab_plan_memory(&plan, &gguf.vocab);
    assert_true(memory_plan_bytes(&plan, MEMORY_MODEL) <= arena->size_bytes);
    assert_status(STATUS_OK, vocab_load(&vocab, &gguf, source, arena, &error));
    assert_true(arena->used_bytes == memory_plan_bytes(&plan, MEMORY_MODEL));
    assert_true(vocab_scratch_bytes(TEXT_MAX) <= sizeof scratch_memory);
    vocab_scratch_init(&scratch, scratch_memory, TEXT_MAX);
}

static inline void load_file(void)
{
    struct gguf_source source;
    gguf_file_end(&file, 0);
    gguf_source_memory(&source, file.bytes, file.count, "test");
    load(&source);
}

struct piece {
    const char *text;
    float score;
    int32_t type;
};

/* Tokens from 3 on are byte tokens if `bytes`; the pieces follow. */
static inline void load_spm(bool bytes, bool prefix, const struct piece *pieces, uint32_t count)
{
    static char byte_texts[256][8];
    static const char *texts[300];
    static float scores[300];
    static int32_t types[300];
    static const struct piece first[] = {{"<unk>", 0, 2}, {"<s>", 0, 3}, {"</s>", 0, 3}};
    uint32_t used = 0;
    for (uint32_t i = 0; i < 3; i++, used++) {
        texts[used] = first[i].text;
        types[used] = first[i].type;
        scores[used] = 0;
    }
    for (uint32_t i = 0; bytes && i < 256; i++, used++) {
        snprintf(byte_texts[i], sizeof byte_texts[i], "<0x%02X>", i);
        texts[used] = byte_texts[i];
        types[used] = VOCAB_TOKEN_BYTE;
        scores[used] = 0;
    }
    for (uint32_t i = 0; i < count; i++, used++) {
        texts[used] = pieces[i].text;
        types[used] = pieces[i].type;
        scores[used] = pieces[i].score;
    }
    gguf_file_begin(&file);
    gguf_file_text(&file, "tokenizer.ggml.model", "llama");
    gguf_file_texts(&file, "tokenizer.ggml.tokens", texts, used);
    gguf_file_f32s(&file, "tokenizer.ggml.scores", scores, used);
    gguf_file_i32s(&file, "tokenizer.ggml.token_type", types, used);
    gguf_file_flag(&file, "tokenizer.ggml.add_space_prefix", prefix);
    load_file();
}

/* Byte tokens b are 3 + b, piece i is 259 + i. */
#define BYTE(b)  (3u + (b))
#define PIECE(i) (259u + (i))

static const struct piece letters[] = {
    {MARK, -10, 1},   {"a", -11, 1},     {"b", -12, 1},  {"c", -13, 1}, {"ab", -2, 1},
    {"bc", -1, 1},    {MARK "a", -3, 1}, {"abc", -9, 1}, {"aa", -4, 1}, {"<", -20, 1},
    {"s", -20, 1},    {">", -20, 1},     {"<s", -5, 1},  {"b" MARK "a", -1, 5}, {"<|x|>", 0, 4},
    {"<|x|><", 0, 3},
};
#define LETTERS_COUNT (sizeof letters / sizeof letters[0])

struct bpe {
    const char *pre;
    const char *const *texts;       /* [count]: of the tokens after those of the 256 bytes */
    const int32_t *types;           /* [count] */
    uint32_t count;
    const char *const *merges;
    uint32_t merges_count;
};

static inline void load_bpe(const struct bpe *bpe)
{
    static char byte_texts[256][4];
    static const char *all[300];
    static int32_t all_types[300];
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t code = vocab_bpe_code((uint8_t)i);
        snprintf(byte_texts[i], sizeof byte_texts[i], "%c%c",
                 code < 0x80 ? (int)code : (int)(0xc0 | code >> 6),
                 code < 0x80 ? 0 : (int)(0x80 | (code & 0x3f)));
        all[i] = byte_texts[i];
        all_types[i] = 1;
    }
    for (uint32_t i = 0; i < bpe->count; i++) {
        all[256 + i] = bpe->texts[i];
        all_types[256 + i] = bpe->types[i];
    }
    gguf_file_begin(&file);
    gguf_file_text(&file, "tokenizer.ggml.model", "gpt2");
    gguf_file_text(&file, "tokenizer.ggml.pre", bpe->pre);
    gguf_file_texts(&file, "tokenizer.ggml.tokens", all, 256 + bpe->count);
    gguf_file_i32s(&file, "tokenizer.ggml.token_type", all_types, 256 + bpe->count);
    gguf_file_texts(&file, "tokenizer.ggml.merges", bpe->merges, bpe->merges_count);
    load_file();
}

static const char *const words[] = {"\xc4\xa0\x61", "ab",     "\xc4\xa0\x61\x62", "bc",
                                    "abc",          "<|end|>", "aa",               "  ",
                                    "xyz",          "<|end"};
static const int32_t word_types[] = {1, 1, 1, 1, 1, 3, 1, 4, 1, 3};
static const char *const word_merges[] = {"b c", "\xc4\xa0 a", "a b", "\xc4\xa0\x61 b", "a bc",
                                          "a a", "ab c"};
enum { WORD_SPACE_A = 256, WORD_AB, WORD_SPACE_AB, WORD_BC, WORD_ABC, WORD_END, WORD_AA,
       WORD_SPACES, WORD_XYZ, WORD_HALF_END };

static inline void load_words(const char *pre)
{
    load_bpe(&(struct bpe){.pre = pre, .texts = words, .types = word_types, .count = 10,
                           .merges = word_merges, .merges_count = 7});
}

static inline enum status encode_bytes(const void *text, size_t bytes, bool parse_special)
{
    const struct vocab_input input = {
        .text = text, .bytes = (uint32_t)bytes, .parse_special = parse_special};
    struct vocab_output output = {.tokens = tokens, .max = TOKENS_MAX};
    enum status status = vocab_encode(&vocab, &scratch, &input, &output);
    tokens_count = output.count;
    assert_true(vocab_text_bytes_max(&vocab.info, tokens_count) >= bytes);
    return status;
}

static inline void assert_tokens(const uint32_t *ids, uint32_t count)
{
    bool same = tokens_count == count && memcmp(tokens, ids, count * sizeof *ids) == 0;
    for (uint32_t i = 0; !same && i < tokens_count && i < 40; i++) {
        print_error("got %u, expected %u\n", tokens[i], i < count ? ids[i] : GGUF_NO_TOKEN);
    }
    assert_int_equal(tokens_count, count);
    assert_true(same);
}

/* The text gives these ids. */
#define assert_encodes(text, parse, ...)                                          \
    do {                                                                          \
        const uint32_t ids_[] = {__VA_ARGS__};                                    \
        assert_status(STATUS_OK, encode_bytes(text, sizeof(text) - 1, parse));    \
        assert_tokens(ids_, sizeof ids_ / sizeof ids_[0]);                        \
    } while (0)
