/* SPDX-License-Identifier: MIT */
/*
 * Goal: text becomes the tokens that the models were trained with, whatever the text is, and comes
 * back the same. Method: small vocabularies with known answers; random texts against dumb
 * tokenizers (the best pair is searched anew each time, the text is never cut into pieces); and,
 * where they lie beside the repository, the published vocabularies with their expected ids.
 */
#define TEST_ARENA_BYTES (24u << 20)
#include "selftest/unit/test.h"

#include <stdio.h>
#include <unistd.h>

#include "config/vocab/unicode.h"
#include "config/vocab/merge.h"
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
static uint32_t tokens[TOKENS_MAX], expected[TOKENS_MAX];
static uint32_t tokens_count;

static void load(struct gguf_source *source)
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

static void load_file(void)
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

/* 3.. are byte tokens if `bytes`; then the pieces. */
static void load_spm(bool bytes, bool prefix, const struct piece *pieces, uint32_t count)
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

/* All 256 bytes, then `texts`. */
static void load_bpe(const char *pre, const char *const *texts, const int32_t *types,
                     uint32_t count, const char *const *merges, uint32_t merges_count)
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
    for (uint32_t i = 0; i < count; i++) {
        all[256 + i] = texts[i];
        all_types[256 + i] = types[i];
    }
    gguf_file_begin(&file);
    gguf_file_text(&file, "tokenizer.ggml.model", "gpt2");
    gguf_file_text(&file, "tokenizer.ggml.pre", pre);
    gguf_file_texts(&file, "tokenizer.ggml.tokens", all, 256 + count);
    gguf_file_i32s(&file, "tokenizer.ggml.token_type", all_types, 256 + count);
    gguf_file_texts(&file, "tokenizer.ggml.merges", merges, merges_count);
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

static void load_words(const char *pre) { load_bpe(pre, words, word_types, 10, word_merges, 7); }

static enum status encode_bytes(const void *text, size_t bytes, bool parse_special)
{
    enum status status = vocab_encode(&vocab, &scratch, text, (uint32_t)bytes, parse_special,
                                      tokens, TOKENS_MAX, &tokens_count);
    assert_true(vocab_text_bytes_max(&vocab.info, tokens_count) >= bytes);
    return status;
}

static void assert_tokens(const uint32_t *ids, uint32_t count)
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

/* ---- SentencePiece ------------------------------------------------------------------------- */

static void test_encode_spm_takes_best_score_first(void **state)
{
    load_spm(true, false, letters, LETTERS_COUNT);
    assert_encodes("ab", false, PIECE(4));
    assert_encodes("abc", false, PIECE(7));         /* "bc" first, then "a" + "bc" */
    assert_encodes("aaa", false, PIECE(8), PIECE(1));   /* of equals the leftmost */
    assert_encodes("aaaa", false, PIECE(8), PIECE(8));
    assert_encodes("cab", false, PIECE(3), PIECE(4));
}

static void test_encode_spm_space_is_a_mark(void **state)
{
    load_spm(true, true, letters, LETTERS_COUNT);
    assert_encodes("a", false, PIECE(6));
    assert_encodes(" a", false, PIECE(0), PIECE(6));
    assert_encodes("a a", false, PIECE(6), PIECE(6));
    assert_encodes(MARK "a", false, PIECE(0), PIECE(6));
    assert_encodes(" ", false, PIECE(0), PIECE(0));
    load_spm(true, false, letters, LETTERS_COUNT);
    assert_encodes(" ", false, PIECE(0));
    assert_encodes("b a", false, PIECE(13));
}

static void test_encode_spm_joins_across_a_space_where_a_token_does(void **state)
{
    const struct piece pieces[] = {{MARK, -1, 1}, {"a", -1, 1}, {"a" MARK, -1, 1},
                                   {"a" MARK "a", -1, 1}};
    load_spm(true, false, pieces, 4);
    assert_encodes("a a", false, PIECE(3));
    assert_encodes("a a a", false, PIECE(3), PIECE(0), PIECE(1));
}

static void test_encode_spm_unknown_characters_become_bytes(void **state)
{
    load_spm(true, true, letters, LETTERS_COUNT);
    assert_encodes("\n", false, PIECE(0), BYTE('\n'));
    assert_encodes("a\xc3\xa9", false, PIECE(6), BYTE(0xc3), BYTE(0xa9));
    assert_encodes("\0", false, PIECE(0), BYTE(0));
    load_spm(false, false, letters, LETTERS_COUNT);
    assert_encodes("a\xc3\xa9", false, 4, 0, 0);        /* <unk> for each byte */
}

static void test_encode_invalid_utf8_is_data(void **state)
{
    load_spm(true, false, letters, LETTERS_COUNT);
    assert_encodes("\xe2\x96" "a", false, BYTE(0xe2), BYTE(0x96), PIECE(1));
    assert_encodes("\xff\xc0\x80", false, BYTE(0xff), BYTE(0xc0), BYTE(0x80));
    assert_encodes("a\xf0\x9f\x98", false, PIECE(1), BYTE(0xf0), BYTE(0x9f), BYTE(0x98));
    load_words("gpt-2");
    assert_encodes("\xe2\x96" "ab", false, 0xe2, 0x96, WORD_AB);
}

static void test_encode_spm_text_never_gives_control_tokens(void **state)
{
    load_spm(true, false, letters, LETTERS_COUNT);
    assert_encodes("<s>", false, PIECE(12), PIECE(11)); /* "<s" + ">" would be token 1 */
    assert_encodes("<s>", true, 1);
    assert_encodes("a<s>b", true, PIECE(1), 1, PIECE(2));
    assert_encodes("<0x4>", false, PIECE(9), BYTE('0'), BYTE('x'), BYTE('4'), PIECE(11));
    load_spm(true, true, letters, LETTERS_COUNT);
    assert_encodes("a<s>b", true, PIECE(6), 1, PIECE(0), PIECE(2)); /* a prefix for each text */
}

static void test_encode_finds_longest_special_first(void **state)
{
    load_spm(true, false, letters, LETTERS_COUNT);
    assert_encodes("<|x|>", false, PIECE(14));          /* user-defined: always */
    assert_encodes("<|x|><", false, PIECE(14), PIECE(9));
    assert_encodes("<|x|><", true, PIECE(15));
    assert_encodes("<|x|><s>", true, PIECE(15), PIECE(10), PIECE(11));
    assert_encodes("a<|x|>b<|x|>", true, PIECE(1), PIECE(14), PIECE(2), PIECE(14));
    assert_encodes("<|x|", true, PIECE(9), BYTE('|'), BYTE('x'), BYTE('|'));
}

/* ---- byte-level BPE ------------------------------------------------------------------------- */

static void test_encode_bpe_takes_lowest_rank_first(void **state)
{
    load_words("gpt-2");
    assert_encodes("abc", false, WORD_ABC);
    assert_encodes("ab", false, WORD_AB);
    assert_encodes(" ab", false, WORD_SPACE_AB);
    assert_encodes("aaa", false, WORD_AA, 'a');
    assert_encodes("a ab", false, 'a', WORD_SPACE_AB);
    assert_encodes("xyz", false, 'x', 'y', 'z');        /* no merge leads there */
    assert_encodes("\n\t\xc3\xa9", false, '\n', '\t', 0xc3, 0xa9);
}

static void test_encode_llama_bpe_takes_whole_words(void **state)
{
    load_words("llama-bpe");
    assert_encodes("xyz", false, WORD_XYZ);
    assert_encodes("xyz xyz", false, WORD_XYZ, ' ', 'x', 'y', 'z');
}

static void test_encode_bpe_specials(void **state)
{
    load_words("gpt-2");
    assert_encodes("<|end|>", false, '<', '|', 'e', 'n', 'd', '|', '>');
    assert_encodes("a<|end|>b", true, 'a', WORD_END, 'b');
    assert_encodes("<|end<|end|>", true, WORD_HALF_END, WORD_END);
    assert_encodes("a   b", false, 'a', WORD_SPACES, ' ', 'b');     /* user-defined: always */
}

/* ---- limits --------------------------------------------------------------------------------- */

static void test_encode_without_room_is_refused(void **state)
{
    static char text[TEXT_MAX + 1];
    uint32_t count = 7;
    load_words("gpt-2");
    memset(text, 'x', sizeof text);
    assert_status(STATUS_BUSY_SPACE,
                  vocab_encode(&vocab, &scratch, text, 10, false, tokens, 9, &count));
    assert_int_equal(count, 9);
    assert_status(STATUS_OK, vocab_encode(&vocab, &scratch, text, 10, false, tokens, 10, &count));
    assert_int_equal(count, 10);
    assert_status(STATUS_BUSY_SPACE,
                  vocab_encode(&vocab, &scratch, text, TEXT_MAX + 1, false, tokens, 9, &count));
    assert_status(STATUS_BUSY_SPACE,
                  vocab_encode(&vocab, &scratch, text, 1, false, tokens, 0, &count));
    assert_status(STATUS_OK, vocab_encode(&vocab, &scratch, text, 0, false, tokens, 0, &count));
    assert_int_equal(count, 0);
}

/* That no text is longer, encode_bytes() asserts of every one in this file. */
static void test_text_bytes_max_is_reached_by_the_longest_token(void **state)
{
    static char text[600];
    load_spm(true, false, letters, LETTERS_COUNT);
    assert_int_equal(vocab.info.token_bytes_max, strlen("<|x|><"));
    for (uint32_t i = 0; i < sizeof text; i++) {
        text[i] = "<|x|><"[i % 6];
    }
    assert_status(STATUS_OK, encode_bytes(text, sizeof text, true));
    assert_true(vocab_text_bytes_max(&vocab.info, tokens_count) == sizeof text);
    vocab.info = (struct gguf_vocab_info){.kind = VOCAB_NONE};
    assert_true(vocab_text_bytes_max(&vocab.info, UINT32_MAX) == 0);
}

static void test_encode_one_long_word_fits_the_scratch(void **state)
{
    static char text[TEXT_MAX];
    memset(text, 'a', sizeof text);
    load_words("gpt-2");
    assert_status(STATUS_OK, encode_bytes(text, sizeof text, false));
    assert_int_equal(tokens_count, TEXT_MAX / 2);
    load_spm(true, true, letters, LETTERS_COUNT);
    assert_status(STATUS_OK, encode_bytes(text, sizeof text, false));
    assert_int_equal(tokens_count, 1 + TEXT_MAX / 2);   /* "_a", "aa"..., and one "a" */
    memset(text, ' ', sizeof text);
    assert_status(STATUS_OK, encode_bytes(text, sizeof text, false));
    assert_int_equal(tokens_count, 1 + TEXT_MAX);
}

static void test_orders_of_a_word_have_room_for_each_level(void **state)
{
    assert_int_equal(vocab_orders_count(1), 1);
    assert_int_equal(vocab_orders_count(8), 8);
    assert_int_equal(vocab_orders_count(9), 16 + 2);
    assert_int_equal(vocab_orders_count(64), 64 + 8);
    assert_int_equal(vocab_orders_count(65), 72 + 16 + 2);
    assert_int_equal(vocab_orders_count(1u << 30),
                     (1u << 30) + (1u << 27) + (1u << 24) + (1u << 21) + (1u << 18) + (1u << 15) +
                         (1u << 12) + (1u << 9) + (1u << 6) + 8);
}

/* ---- decode --------------------------------------------------------------------------------- */

static void assert_decodes(uint32_t token, bool first, const char *text)
{
    char bytes[GGUF_TOKEN_BYTES_MAX];
    uint32_t count = vocab_decode(&vocab, token, first, bytes, sizeof bytes);
    assert_int_equal(count, strlen(text));
    assert_memory_equal(bytes, text, count);
}

static void test_decode_gives_the_bytes_of_each_kind(void **state)
{
    load_spm(true, true, letters, LETTERS_COUNT);
    assert_decodes(0, false, "");
    assert_decodes(1, false, "");
    assert_decodes(BYTE('A'), false, "A");
    assert_decodes(BYTE(0xff), false, "\xff");
    assert_decodes(PIECE(6), false, " a");
    assert_decodes(PIECE(6), true, "a");
    assert_decodes(PIECE(13), true, "b a");
    assert_decodes(PIECE(14), false, "<|x|>");
    load_spm(true, false, letters, LETTERS_COUNT);
    assert_decodes(PIECE(6), true, " a");
    load_words("gpt-2");
    assert_decodes(WORD_SPACE_AB, true, " ab");
    assert_decodes('\n', false, "\n");
    assert_decodes(0xad, false, "\xad");
    assert_decodes(WORD_SPACES, false, "  ");
    assert_decodes(WORD_END, false, "");
}

static void test_named_user_token_is_a_command(void **state)
{
    const char *const texts[] = {"<end>"};
    const int32_t types[] = {4};
    load_bpe("gpt-2", texts, types, 1, word_merges, 0);
    assert_encodes("<end>", false, 256);
    gguf_file_u32(&file, "tokenizer.ggml.eos_token_id", 256);
    load_file();
    assert_encodes("<end>", false, '<', 'e', 'n', 'd', '>');
    assert_encodes("<end>", true, 256);
    assert_decodes(256, false, "");
}

static void set_type(uint32_t token, int32_t type)
{
    uint8_t *types = gguf_file_after_key(&file, "tokenizer.ggml.token_type") + 16;
    memcpy(types + 4 * token, &type, sizeof type);
}

/* What is called like a byte is not one because of that: a command never comes of plain text. */
static void test_encode_bytes_never_gives_commands(void **state)
{
    const struct piece pieces[] = {{"a", 0, 1}, {"<0x41>", 0, 3}, {"B", 0, 3}};
    load_words("gpt-2");
    set_type('a', VOCAB_TOKEN_CONTROL);
    set_type(0xff, VOCAB_TOKEN_USER);           /* the character U+00FF, in any text */
    load_file();
    assert_encodes("ab", false, 'b');
    assert_encodes("b\xff", false, 'b');
    assert_encodes("b\xc3\xbf", false, 'b', 0xff);
    load_spm(false, false, pieces, 3);
    assert_encodes("AaB", false, 0, 3, 0);
}

/* ---- random texts --------------------------------------------------------------------------- */

static uint64_t random_state;

static uint32_t random_below(uint32_t bound)
{
    random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % bound);
}

static uint32_t random_text(char *text, uint32_t max)
{
    static const char *const parts[] = {
        "a",     "b",   "c",    " ",    "  ",  "ab", "abc", " a",      "\n",    "\xc3\xa9",
        MARK,    "<",   "s",    ">",    "12",  "'s", "b a", "<|end|>", "\r\n ", "\xf0\x9f\x98\x80",
        "<|x|>", "<s>", "\xff", "aaaa",
    };
    uint32_t used = 0, pieces = random_below(40);
    for (uint32_t i = 0; i < pieces; i++) {
        const char *part = parts[random_below(sizeof parts / sizeof parts[0])];
        if (used + strlen(part) > max) {
            break;
        }
        memcpy(text + used, part, strlen(part));
        used += (uint32_t)strlen(part);
    }
    return used;
}

/* How early symbols i and i + 1 merge, and into what; UINT64_MAX: never. `ends[i]` is where symbol
 * i of the text ends. */
static uint64_t order_dumb(const uint8_t *text, const uint32_t *ends, const uint32_t *ids,
                           uint32_t i, uint32_t *into)
{
    if (vocab.info.kind == VOCAB_SPM) {
        uint32_t first = i == 0 ? 0 : ends[i - 1];
        *into = vocab_find(&vocab, text + first, ends[i + 1] - first);
        bool plain = *into != GGUF_NO_TOKEN && vocab_is_plain(&vocab, *into);
        return plain ? vocab.orders[*into] : UINT64_MAX;
    }
    for (uint32_t rank = 0; rank < vocab.info.merges; rank++) {
        if (vocab.rules[rank].left == ids[i] && vocab.rules[rank].right == ids[i + 1]) {
            *into = vocab.rules[rank].into;
            return rank;
        }
    }
    return UINT64_MAX;
}

/* The dumb tokenizer: symbols in an array, the best pair searched anew each time. */
static void merge_dumb(const uint8_t *text, uint32_t *ends, uint32_t *ids, uint32_t *count)
{
    for (;;) {
        uint64_t best = UINT64_MAX;
        uint32_t at = 0, best_into = 0;
        for (uint32_t i = 0; i + 1 < *count; i++) {
            uint32_t into = 0;
            uint64_t order = order_dumb(text, ends, ids, i, &into);
            if (order < best) {
                best = order;
                at = i;
                best_into = into;
            }
        }
        if (best == UINT64_MAX) {
            return;
        }
        memmove(ends + at, ends + at + 1, (*count - at - 1) * sizeof *ends);
        ids[at] = best_into;
        memmove(ids + at + 1, ids + at + 2, (*count - at - 2) * sizeof *ids);
        --*count;
    }
}

/* SPM over a whole text without special tokens. */
static uint32_t encode_spm_dumb(const char *text, uint32_t bytes, uint32_t *out)
{
    static uint8_t marked[4096];
    static uint32_t ends[4096], ids[4096];
    uint32_t used = 0, count = 0, out_count = 0;
    for (uint32_t at = 0; at < bytes;) {
        uint32_t code = 0, length = unicode_decode((const uint8_t *)text + at, bytes - at, &code);
        memcpy(marked + used, code == ' ' ? MARK : text + at, code == ' ' ? 3 : length);
        used += code == ' ' ? 3 : length;
        uint32_t first = count == 0 ? 0 : ends[count - 1];
        ids[count] = vocab_find(&vocab, marked + first, used - first);
        ends[count++] = used;
        at += length;
    }
    merge_dumb(marked, ends, ids, &count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t first = i == 0 ? 0 : ends[i - 1];
        if (ids[i] != GGUF_NO_TOKEN && vocab_is_plain(&vocab, ids[i])) {
            out[out_count++] = ids[i];
            continue;
        }
        for (uint32_t at = first; at < ends[i]; at++) {
            out[out_count++] = BYTE(marked[at]);
        }
    }
    return out_count;
}

static uint32_t encode_bpe_dumb(const char *text, uint32_t bytes, uint32_t *out)
{
    static uint32_t ends[4096], ids[4096];
    uint32_t out_count = 0;
    for (uint32_t at = 0; at < bytes;) {
        const uint8_t *word = (const uint8_t *)text + at;
        uint32_t count = vocab_split(vocab.info.pre, word, bytes - at), symbols = count;
        for (uint32_t i = 0; i < count; i++) {
            ends[i] = i + 1;
            ids[i] = word[i];
        }
        merge_dumb(word, ends, ids, &symbols);
        memcpy(out + out_count, ids, symbols * sizeof *ids);
        out_count += symbols;
        at += count;
    }
    return out_count;
}

static bool has_user_token(const char *text, uint32_t bytes)
{
    static uint32_t spans[4096];
    return vocab_special_mark(&vocab, &vocab.user, (const uint8_t *)text, bytes, spans);
}

static void check_against_dumb(const char *text, uint32_t bytes)
{
    uint32_t count = vocab.info.kind == VOCAB_SPM ? encode_spm_dumb(text, bytes, expected)
                                                  : encode_bpe_dumb(text, bytes, expected);
    assert_status(STATUS_OK, encode_bytes(text, bytes, false));
    assert_tokens(expected, count);
}

static void load_kind(uint32_t kind)
{
    random_state = kind;
    if (kind == 0) {
        load_spm(true, false, letters, LETTERS_COUNT);
    } else {
        load_words("gpt-2");
    }
}

static void test_encode_random_texts_as_the_dumb_tokenizers_do(void **state)
{
    char text[1024];
    for (uint32_t kind = 0; kind < 2; kind++) {
        load_kind(kind);
        for (uint32_t round = 0; round < 3000; round++) {
            uint32_t bytes = random_text(text, sizeof text);
            if (!has_user_token(text, bytes)) {
                check_against_dumb(text, bytes);
            }
        }
    }
}

/* One word each, of every length around those where the tree of orders has one level more. */
static void test_encode_long_words_as_the_dumb_tokenizers_do(void **state)
{
    static const uint32_t lengths[] = {7, 8, 9, 63, 64, 65, 66, 72, 500, 511, 512, 513, 520, 521};
    char text[1024];
    for (uint32_t kind = 0; kind < 2; kind++) {
        load_kind(kind);
        for (uint32_t round = 0; round < 20; round++) {
            for (uint32_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
                for (uint32_t at = 0; at < lengths[i]; at++) {
                    text[at] = (char)('a' + random_below(3));
                }
                check_against_dumb(text, lengths[i]);
            }
        }
    }
}

/* Decoding what was encoded gives the text again, with specials and without. */
static void test_decode_random_texts_gives_them_back(void **state)
{
    char text[1024], back[8192];
    for (uint32_t kind = 0; kind < 3; kind++) {
        random_state = 100 + kind;
        if (kind == 0) {
            load_spm(true, true, letters, LETTERS_COUNT);
        } else {
            load_words(kind == 1 ? "gpt-2" : "llama-bpe");
        }
        for (uint32_t round = 0; round < 2000; round++) {
            uint32_t bytes = random_text(text, sizeof text), used = 0;
            bool marked = memmem(text, bytes, MARK, 3) != NULL || has_user_token(text, bytes);
            if (kind == 0 && marked) {
                continue;           /* the mark comes back as a space; texts have prefixes */
            }
            assert_status(STATUS_OK, encode_bytes(text, bytes, false));
            for (uint32_t i = 0; i < tokens_count; i++) {
                used += vocab_decode(&vocab, tokens[i], i == 0, back + used, GGUF_TOKEN_BYTES_MAX);
            }
            assert_int_equal(used, bytes);
            assert_memory_equal(back, text, bytes);
        }
    }
}

/* ---- published vocabularies ----------------------------------------------------------------- */

static uint32_t read_whole(const char *path, char *bytes, uint32_t max)
{
    FILE *stream = fopen(path, "rb");
    assert_non_null(stream);
    size_t count = fread(bytes, 1, max, stream);
    assert_true(count < max);
    fclose(stream);
    bytes[count] = '\0';
    return (uint32_t)count;
}

/* One line of ids. */
static uint32_t parse_ids(char **line, uint32_t *ids)
{
    uint32_t count = 0;
    while (**line != '\n' && **line != '\0') {
        char *end = NULL;
        unsigned long id = strtoul(*line, &end, 10);
        if (end == *line) {
            (*line)++;
            continue;
        }
        ids[count++] = (uint32_t)id;
        *line = end;
    }
    *line += **line == '\n';
    return count;
}

static bool load_published(const char *name)
{
    char path[128];
    struct gguf_source source;
    snprintf(path, sizeof path, "../shared/vocab/%s.gguf", name);
    if (access(path, R_OK) != 0) {
        print_message("skipped: %s is not here\n", path);
        return false;
    }
    assert_status(STATUS_OK, gguf_source_open(&source, path, &error));
    load(&source);
    gguf_source_close(&source);
    return true;
}

static void check_published(const char *name)
{
    static const char separator[] = "\n__ggml_vocab_test__\n";
    static char texts[16384], answers[16384];
    char path[128];
    uint32_t cases = 0;
    if (!load_published(name)) {
        return;
    }
    snprintf(path, sizeof path, "../shared/vocab/%s.gguf.inp", name);
    uint32_t texts_bytes = read_whole(path, texts, sizeof texts);
    snprintf(path, sizeof path, "../shared/vocab/%s.gguf.out", name);
    (void)read_whole(path, answers, sizeof answers);
    char *text = texts, *answer = answers;
    while (*answer != '\0') {
        uint32_t left = texts_bytes - (uint32_t)(text - texts);
        char *end = memmem(text, left, separator, sizeof separator - 1);
        uint32_t bytes = end != NULL ? (uint32_t)(end - text) : left;
        uint32_t count = parse_ids(&answer, expected);
        assert_status(STATUS_OK, encode_bytes(text, bytes, false));
        assert_tokens(expected, count);
        cases++;
        text += end != NULL ? bytes + sizeof separator - 1 : bytes;
    }
    assert_int_equal(cases, 46);
}

static const char *const published[] = {
    "ggml-vocab-llama-spm", "vocab-llama-bpe", "vocab-qwen2", "ggml-vocab-gpt-2",
    "ggml-vocab-deepseek-coder", "ggml-vocab-falcon",
};
#define PUBLISHED_COUNT (sizeof published / sizeof published[0])

static void test_encode_published_vocabularies_as_expected(void **state)
{
    for (uint32_t i = 0; i < PUBLISHED_COUNT; i++) {
        check_published(published[i]);
    }
}

/* ---- long texts ------------------------------------------------------------------------------ */

#define ENGLISH_BYTES (3u << 20)
#define RANDOM_BYTES  (1u << 20)

static char long_text[ENGLISH_BYTES];

/* The tests have no book with them: the licences that Debian has in every installation, again and
 * again, with other letters capital each time. */
static bool make_english(void)
{
    static const char folder[] = "/usr/share/common-licenses/";
    static const char *const names[] = {"GPL-3", "LGPL-2.1", "MPL-2.0", "Apache-2.0", "GFDL-1.3"};
    char path[64];
    uint32_t used = 0;
    random_state = 1;
    for (uint32_t i = 0; used < ENGLISH_BYTES; i++) {
        snprintf(path, sizeof path, "%s%s", folder, names[i % 5]);
        FILE *stream = fopen(path, "rb");
        if (stream == NULL) {
            print_message("skipped: %s is not here\n", path);
            return false;
        }
        size_t count = fread(long_text + used, 1, ENGLISH_BYTES - used, stream);
        fclose(stream);
        assert_true(count > 0);
        for (uint32_t end = used + (uint32_t)count; used < end; used++) {
            bool small = long_text[used] >= 'a' && long_text[used] <= 'z';
            long_text[used] ^= small && random_below(64) == 0 ? 0x20 : 0;
        }
    }
    return true;
}

/* Characters of one to four bytes, but no surrogates; nor those that a vocabulary cannot give back:
 * of SPM the mark that stands for a space, of falcon what has a byte that it does not know. */
static uint32_t make_characters(void)
{
    static const uint32_t ends[] = {0x80, 0x800, 0xd800, 0x110000};
    uint32_t used = 0;
    random_state = 2;
    while (used + 4 <= RANDOM_BYTES) {
        uint32_t length = 1 + random_below(4);
        uint32_t first = length == 1 ? 0 : length == 4 ? 0x10000 : ends[length - 2];
        uint32_t code = first + random_below(ends[length - 1] - first);
        bool known = vocab.info.kind == VOCAB_BPE || code != 0x2581;
        for (uint32_t i = length; i-- > 0; code >>= 6) {
            uint32_t lead = length == 1 ? code : ((0xf00u >> length) & 0xff) | code;
            long_text[used + i] = (char)(i > 0 ? 0x80 | (code & 0x3f) : lead);
            known &= vocab.byte_token[(uint8_t)long_text[used + i]] != GGUF_NO_TOKEN;
        }
        used += known ? length : 0;
    }
    return used;
}

/* In pieces that the scratch has room for, cut anywhere. */
static void check_round_trip(uint32_t bytes)
{
    static char back[TEXT_MAX + GGUF_TOKEN_BYTES_MAX];
    for (uint32_t at = 0, piece; at < bytes; at += piece) {
        uint32_t used = 0;
        piece = 1 + random_below(TEXT_MAX);
        piece = piece < bytes - at ? piece : bytes - at;
        assert_status(STATUS_OK, encode_bytes(long_text + at, piece, false));
        for (uint32_t i = 0; i < tokens_count; i++) {
            assert_true(sizeof back - used >= GGUF_TOKEN_BYTES_MAX);
            used += vocab_decode(&vocab, tokens[i], i == 0, back + used, GGUF_TOKEN_BYTES_MAX);
        }
        assert_int_equal(used, piece);
        assert_memory_equal(back, long_text + at, piece);
    }
}

static void test_decode_long_texts_gives_them_back(void **state)
{
    for (uint32_t i = 0; i < PUBLISHED_COUNT; i++) {
        if (!load_published(published[i])) {
            continue;
        }
        if (make_english()) {
            check_round_trip(ENGLISH_BYTES);
        }
        check_round_trip(make_characters());
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encode_spm_takes_best_score_first),
        cmocka_unit_test(test_encode_spm_space_is_a_mark),
        cmocka_unit_test(test_encode_spm_joins_across_a_space_where_a_token_does),
        cmocka_unit_test(test_encode_spm_unknown_characters_become_bytes),
        cmocka_unit_test(test_encode_invalid_utf8_is_data),
        cmocka_unit_test(test_encode_spm_text_never_gives_control_tokens),
        cmocka_unit_test(test_encode_finds_longest_special_first),
        cmocka_unit_test(test_encode_bpe_takes_lowest_rank_first),
        cmocka_unit_test(test_encode_llama_bpe_takes_whole_words),
        cmocka_unit_test(test_encode_bpe_specials),
        cmocka_unit_test(test_encode_without_room_is_refused),
        cmocka_unit_test(test_text_bytes_max_is_reached_by_the_longest_token),
        cmocka_unit_test(test_encode_one_long_word_fits_the_scratch),
        cmocka_unit_test(test_orders_of_a_word_have_room_for_each_level),
        cmocka_unit_test(test_decode_gives_the_bytes_of_each_kind),
        cmocka_unit_test(test_named_user_token_is_a_command),
        cmocka_unit_test(test_encode_bytes_never_gives_commands),
        cmocka_unit_test(test_encode_random_texts_as_the_dumb_tokenizers_do),
        cmocka_unit_test(test_encode_long_words_as_the_dumb_tokenizers_do),
        cmocka_unit_test(test_decode_random_texts_gives_them_back),
        cmocka_unit_test(test_encode_published_vocabularies_as_expected),
        cmocka_unit_test(test_decode_long_texts_gives_them_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
