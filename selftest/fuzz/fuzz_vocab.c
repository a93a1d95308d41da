/* SPDX-License-Identifier: MIT */
/*
 * Goal: no text breaks the tokenizers. They do not crash, give no token outside the vocabulary and
 * no control token that was not asked for; byte-level BPE gives every text back.
 * Method: six tiny vocabularies are built once. The first byte of the input chooses a vocabulary,
 * whether special tokens are parsed, and whether the text is encoded again into too little room.
 * The rest is the text.
 */
#include <stdio.h>
#include <string.h>

#include "config/base/assert.h"
#include "config/vocab/merge.h"
#include "selftest/fake/gguf_file.h"
#include "selftest/fuzz/dictionary.h"

#define ARENA_BYTES (256u << 10)
#define TEXT_BYTES  4096
#define TOKENS_MAX  (4 * (TEXT_BYTES + 1))
#define KINDS       6
#define MARK        "\xe2\x96\x81"    /* U+2581 */

static _Alignas(ARENA_ALIGN_BYTES) uint8_t memory[KINDS][ARENA_BYTES];
static struct vocab vocabs[KINDS];
static uint64_t scratch_memory[10 * TEXT_BYTES];

static void load(uint32_t index, struct gguf_file *file)
{
    static struct gguf gguf;
    struct gguf_source source;
    struct config_error error;
    struct arena arena;
    gguf_file_end(file, 0);
    gguf_source_memory(&source, file->bytes, file->count, "fuzz");
    arena_init(&arena, memory[index], ARENA_BYTES);
    ASSERT(gguf_scan(&gguf, &source, 1 << 20, &error) == STATUS_OK);
    ASSERT(vocab_load(&vocabs[index], &gguf, &source, &arena, &error) == STATUS_OK);
}

/* Pieces that join across spaces and in two ways, byte tokens for half of the bytes. */
static void load_spm(struct gguf_file *file)
{
    static const char *texts[160] = {
        "<unk>", "<s>", "</s>", MARK, "a", "b", "ab",    "aa",  MARK "\x61", "b" MARK,
        "<s",    "s",   ">",    "<",  "<|x|>", "aab", "\xc3\xa9", "a" MARK "\x61",
    };
    static float scores[160] = {0, 0, 0, -5, -6, -7, -1, -2, -2, -1, -4, -4, -4, -4, 0, -3, -8, 1};
    static int32_t types[160] = {2, 3, 3};
    static char byte_texts[128][8];
    for (uint32_t i = 3; i < 18; i++) {
        types[i] = i == 14 ? VOCAB_TOKEN_USER : VOCAB_TOKEN_NORMAL;
    }
    for (uint32_t i = 0; i < 128; i++) {
        snprintf(byte_texts[i], sizeof byte_texts[i], "<0x%02X>", 2 * i);
        texts[18 + i] = byte_texts[i];
        types[18 + i] = VOCAB_TOKEN_BYTE;
    }
    gguf_file_begin(file);
    gguf_file_text(file, "tokenizer.ggml.model", "llama");
    gguf_file_texts(file, "tokenizer.ggml.tokens", texts, 146);
    gguf_file_f32s(file, "tokenizer.ggml.scores", scores, 146);
    gguf_file_i32s(file, "tokenizer.ggml.token_type", types, 146);
    load(0, file);
}

static void load_bpe(uint32_t index, const char *pre, struct gguf_file *file)
{
    static const char *const more[] = {"ab", "aa", "aab", "\xc4\xa0\x61", "<|end|>", "  ", "xyz"};
    static const char *const merges[] = {"a b", "a a", "a ab", "\xc4\xa0 a", "aa b"};
    static const char *texts[263];
    static char byte_texts[256][4];
    static int32_t types[263];
    for (uint32_t i = 0; i < 263; i++) {
        uint32_t code = i < 256 ? vocab_bpe_code((uint8_t)i) : 0;
        if (i < 256) {
            snprintf(byte_texts[i], sizeof byte_texts[i], "%c%c",
                     code < 0x80 ? (int)code : (int)(0xc0 | code >> 6),
                     code < 0x80 ? 0 : (int)(0x80 | (code & 0x3f)));
        }
        texts[i] = i < 256 ? byte_texts[i] : more[i - 256];
        types[i] = i == 260 ? VOCAB_TOKEN_CONTROL : i == 261 ? VOCAB_TOKEN_USER : 1;
    }
    gguf_file_begin(file);
    gguf_file_text(file, "tokenizer.ggml.model", "gpt2");
    gguf_file_text(file, "tokenizer.ggml.pre", pre);
    gguf_file_texts(file, "tokenizer.ggml.tokens", texts, 263);
    gguf_file_i32s(file, "tokenizer.ggml.token_type", types, 263);
    gguf_file_texts(file, "tokenizer.ggml.merges", merges, 5);
    load(index, file);
}

static void check_tokens(const struct vocab *vocab, const uint32_t *tokens, uint32_t count,
                         bool parse_special)
{
    for (uint32_t i = 0; i < count; i++) {
        ASSERT(tokens[i] < vocab->info.tokens);
        ASSERT(parse_special || vocab->kinds[tokens[i]] != VOCAB_TOKEN_CONTROL);
    }
}

static void check_back(const struct vocab *vocab, const uint32_t *tokens, uint32_t count,
                       const uint8_t *text, uint32_t bytes)
{
    static char back[8 * TEXT_BYTES];
    uint32_t used = 0;
    for (uint32_t i = 0; i < count; i++) {
        ASSERT(sizeof back - used >= vocab->info.token_bytes_max);
        used += vocab_decode(vocab, tokens[i], i == 0, back + used, GGUF_TOKEN_BYTES_MAX);
    }
    ASSERT(used == bytes && memcmp(back, text, bytes) == 0);
}

static void load_all(void)
{
    static struct gguf_file file;
    if (vocabs[0].info.kind == VOCAB_NONE) {
        load_spm(&file);
        load_bpe(1, "gpt-2", &file);
        load_bpe(2, "llama-bpe", &file);
        load_bpe(3, "qwen2", &file);
        load_bpe(4, "deepseek-coder", &file);
        load_bpe(5, "falcon", &file);
    }
}

static enum status encode(const struct vocab *vocab, const struct vocab_input *input,
                          struct vocab_output *output)
{
    struct vocab_scratch scratch;
    ASSERT(vocab_scratch_bytes(input->bytes) <= sizeof scratch_memory);
    vocab_scratch_init(&scratch, scratch_memory, input->bytes);
    return vocab_encode(vocab, &scratch, input, output);
}

/* Too little room costs the tokens that have none, and nothing else: they are counted. */
static void check_little_room(const struct vocab *vocab, const struct vocab_input *input,
                              const struct vocab_output *whole)
{
    static uint32_t tokens[TEXT_BYTES / 2 + 1];
    uint32_t room = input->bytes / 2;
    struct vocab_output output = {.tokens = tokens, .max = room};
    tokens[room] = UINT32_MAX;
    enum status status = encode(vocab, input, &output);
    ASSERT(status == (whole->count > room ? STATUS_BUSY_SPACE : STATUS_OK));
    ASSERT(output.count == whole->count);
    uint32_t kept = whole->count < room ? whole->count : room;
    ASSERT(memcmp(tokens, whole->tokens, kept * sizeof *tokens) == 0);
    ASSERT(tokens[room] == UINT32_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static uint32_t tokens[TOKENS_MAX];
    load_all();
    if (count < 1 || count - 1 > TEXT_BYTES) {
        return 0;
    }
    const struct vocab *vocab = &vocabs[bytes[0] % KINDS];
    bool parse_special = (bytes[0] & 0x80) != 0;
    uint32_t text_bytes = (uint32_t)count - 1;
    const struct vocab_input input = {
        .text = (const char *)bytes + 1, .bytes = text_bytes, .parse_special = parse_special};
    struct vocab_output output = {.tokens = tokens, .max = TOKENS_MAX};
    ASSERT(encode(vocab, &input, &output) == STATUS_OK);
    check_tokens(vocab, tokens, output.count, parse_special);
    ASSERT(text_bytes <= vocab_text_bytes_max(&vocab->info, output.count));
    if (vocab->info.kind == VOCAB_BPE && !parse_special) {
        check_back(vocab, tokens, output.count, bytes + 1, text_bytes);
    }
    if ((bytes[0] & 0x40) != 0) {
        check_little_room(vocab, &input, &output);
    }
    return 0;
}

/* Texts of several bytes: results of merges, and special tokens. */
void dictionary_write(void)
{
    load_all();
    for (uint32_t i = 0; i < KINDS; i++) {
        for (uint32_t token = 0; token < vocabs[i].info.tokens; token++) {
            const uint32_t *first = &vocabs[i].text_first[token];
            if (first[1] - first[0] > 1 && vocabs[i].kinds[token] != VOCAB_TOKEN_BYTE) {
                dictionary_word(vocabs[i].text + first[0], first[1] - first[0]);
            }
        }
    }
}
