/* SPDX-License-Identifier: MIT */
/*
 * Goal: text becomes the tokens that its vocabulary defines, within the limits, and tokens become
 * their bytes.
 * Method: small vocabularies with known answers. test_vocab_texts.c has random and long texts.
 */
#include "selftest/unit/config/vocab_rig.h"

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

/* What a text that goes on another one gives. */
static void encode_inner(const char *text, bool parse_special)
{
    const struct vocab_input input = {.text = text, .bytes = (uint32_t)strlen(text),
                                      .parse_special = parse_special, .no_space_prefix = true};
    struct vocab_output output = {.tokens = tokens, .max = TOKENS_MAX};
    assert_status(STATUS_OK, vocab_encode(&vocab, &scratch, &input, &output));
    tokens_count = output.count;
}

static void test_encode_spm_text_that_goes_on_has_no_prefix(void **state)
{
    load_spm(true, true, letters, LETTERS_COUNT);
    encode_inner("a", false);
    assert_tokens((const uint32_t[]){PIECE(1)}, 1);
    encode_inner(" a", false);
    assert_tokens((const uint32_t[]){PIECE(6)}, 1);
    encode_inner("a<s>b", true);                        /* after a special token as ever */
    assert_tokens((const uint32_t[]){PIECE(1), 1, PIECE(0), PIECE(2)}, 4);
    encode_inner("<s>b", true);
    assert_tokens((const uint32_t[]){1, PIECE(0), PIECE(2)}, 3);
    assert_encodes("a", false, PIECE(6));               /* the next text has it again */
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

/* A text in parts of these lengths, special tokens asked for. */
static void assert_parts(const char *text, const uint32_t *parts, uint32_t count,
                         const uint32_t *ids, uint32_t ids_count)
{
    const struct vocab_input input = {.text = text, .bytes = (uint32_t)strlen(text),
                                      .parse_special = true, .parts = (const uint8_t *)parts,
                                      .parts_count = count};
    struct vocab_output output = {.tokens = tokens, .max = TOKENS_MAX};
    assert_status(STATUS_OK, vocab_encode(&vocab, &scratch, &input, &output));
    tokens_count = output.count;
    assert_tokens(ids, ids_count);
}
#define PARTS(text, lengths, ...)                                                       \
    do {                                                                                \
        const uint32_t parts_[] = {TEST_LIST lengths}, ids_[] = {__VA_ARGS__};          \
        assert_parts(text, parts_, sizeof parts_ / 4, ids_, sizeof ids_ / 4);           \
    } while (0)
#define TEST_LIST(...) __VA_ARGS__

static void test_encode_quoted_parts_have_no_special_tokens(void **state)
{
    load_spm(true, false, letters, LETTERS_COUNT);
    PARTS("<s><s>", (3, 3), 1, PIECE(12), PIECE(11));
    PARTS("<s><s>", (0, 3, 3), PIECE(12), PIECE(11), 1);
    PARTS("<s>", (1, 2), PIECE(12), PIECE(11));             /* none across the end of a part */
    PARTS("<s>", (2, 0, 1), PIECE(12), PIECE(11));
    PARTS("<|x|>", (5), PIECE(14));
    PARTS("<|x|>", (0, 5), PIECE(9), BYTE('|'), BYTE('x'), BYTE('|'), PIECE(11));   /* markup */
    load_words("gpt-2");
    PARTS("a   b", (0, 5), 'a', WORD_SPACES, ' ', 'b');     /* no markup: a word as any other */
}

/* Where a part ends, a word may go on. */
static void test_encode_parts_do_not_divide_words(void **state)
{
    load_words("gpt-2");
    PARTS("abc", (1, 1, 1), WORD_ABC);
    PARTS("abc", (0, 2, 0, 1), WORD_ABC);
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

/* Encodes `bytes` of the text into a room of `max` tokens; `count` says how many there were. */
static enum status encode_into(const char *text, uint32_t bytes, uint32_t max, uint32_t *count)
{
    struct vocab_output output = {.tokens = tokens, .max = max};
    enum status status = vocab_encode(&vocab, &scratch,
                                      &(struct vocab_input){.text = text, .bytes = bytes}, &output);
    *count = output.count;
    return status;
}

static void test_encode_without_room_is_refused(void **state)
{
    static char text[TEXT_MAX + 1];
    uint32_t count = 7;
    load_words("gpt-2");
    memset(text, 'x', sizeof text);
    assert_status(STATUS_BUSY_SPACE, encode_into(text, 10, 9, &count));
    assert_int_equal(count, 10);
    assert_status(STATUS_BUSY_SPACE, encode_into(text, 10, 2, &count));
    assert_int_equal(count, 10);
    assert_status(STATUS_OK, encode_into(text, 10, 10, &count));
    assert_int_equal(count, 10);
    assert_status(STATUS_BUSY_SPACE, encode_into(text, TEXT_MAX + 1, 9, &count));
    assert_status(STATUS_BUSY_SPACE, encode_into(text, 1, 0, &count));
    assert_status(STATUS_OK, encode_into(text, 0, 0, &count));
    assert_int_equal(count, 0);
}

/* encode_bytes() asserts for every text that it is not longer. */
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

static void test_control_text_is_that_of_tokens_that_end_nothing(void **state)
{
    uint32_t bytes;
    load_spm(true, false, letters, LETTERS_COUNT);
    const char *text = vocab_control_text(&vocab, PIECE(15), &bytes);
    assert_int_equal(bytes, 6);
    assert_memory_equal(text, "<|x|><", 6);
    for (uint32_t token = 0; token < vocab.info.tokens + 2; token++) {
        bool is_control = token == 1 || token == PIECE(15);
        assert_int_equal(vocab_control_text(&vocab, token, &bytes) != NULL,
                         is_control && token != vocab.info.bos_id && token != vocab.info.eos_id);
    }
}

static uint64_t digest_of(struct piece piece, bool prefix)
{
    struct piece pieces[LETTERS_COUNT];
    memcpy(pieces, letters, sizeof pieces);
    pieces[1] = piece;
    load_spm(true, prefix, pieces, LETTERS_COUNT);
    return vocab_digest(&vocab);
}

static void test_digest_tells_vocabularies_apart(void **state)
{
    const uint64_t own = digest_of(letters[1], true), others[] = {
        digest_of((struct piece){"A", -11, 1}, true), digest_of((struct piece){"a", -12, 1}, true),
        digest_of((struct piece){"a", -11, 4}, true), digest_of(letters[1], false)};
    assert_int_equal(digest_of(letters[1], true), own);
    for (uint32_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_int_not_equal(others[i], own);
    }
    load_words("gpt-2");
    uint64_t words_digest = vocab_digest(&vocab);
    load_words("llama-bpe");
    assert_int_not_equal(vocab_digest(&vocab), words_digest);
}

static void test_named_user_token_is_a_command(void **state)
{
    const char *const texts[] = {"<end>"};
    const int32_t types[] = {4};
    load_bpe(&(struct bpe){.pre = "gpt-2", .texts = texts, .types = types, .count = 1,
                           .merges = word_merges});
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

/* A token with the name of a byte is not a byte token: plain text never gives a command. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encode_spm_takes_best_score_first),
        cmocka_unit_test(test_encode_spm_space_is_a_mark),
        cmocka_unit_test(test_encode_spm_joins_across_a_space_where_a_token_does),
        cmocka_unit_test(test_encode_spm_unknown_characters_become_bytes),
        cmocka_unit_test(test_encode_invalid_utf8_is_data),
        cmocka_unit_test(test_encode_spm_text_never_gives_control_tokens),
        cmocka_unit_test(test_encode_spm_text_that_goes_on_has_no_prefix),
        cmocka_unit_test(test_encode_finds_longest_special_first),
        cmocka_unit_test(test_encode_bpe_takes_lowest_rank_first),
        cmocka_unit_test(test_encode_llama_bpe_takes_whole_words),
        cmocka_unit_test(test_encode_bpe_specials),
        cmocka_unit_test(test_encode_without_room_is_refused),
        cmocka_unit_test(test_text_bytes_max_is_reached_by_the_longest_token),
        cmocka_unit_test(test_encode_one_long_word_fits_the_scratch),
        cmocka_unit_test(test_orders_of_a_word_have_room_for_each_level),
        cmocka_unit_test(test_decode_gives_the_bytes_of_each_kind),
        cmocka_unit_test(test_control_text_is_that_of_tokens_that_end_nothing),
        cmocka_unit_test(test_digest_tells_vocabularies_apart),
        cmocka_unit_test(test_named_user_token_is_a_command),
        cmocka_unit_test(test_encode_quoted_parts_have_no_special_tokens),
        cmocka_unit_test(test_encode_parts_do_not_divide_words),
        cmocka_unit_test(test_encode_bytes_never_gives_commands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
