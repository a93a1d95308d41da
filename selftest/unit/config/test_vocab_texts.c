/* SPDX-License-Identifier: MIT */
/*
 * Goal: any text becomes the tokens that the models were trained with, and comes back the same.
 * Method: random texts against naive tokenizers (a new search for the best pair each time, the text
 * never cut into pieces); long texts that are encoded and decoded, with the embedded vocabulary and
 * made-up ones; where they lie beside the repository, the same with published vocabularies, and
 * their expected ids.
 */
#include "selftest/unit/config/vocab_rig.h"

#include <unistd.h>

static uint32_t expected[TOKENS_MAX];

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

/* The order in which symbols i and i + 1 merge, and the result; UINT64_MAX: never. `ends[i]` is the
 * end of symbol i in the text. */
static uint64_t naive_order(const uint8_t *text, const uint32_t *ends, const uint32_t *ids,
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

/* The naive tokenizer: symbols in an array, with a new search for the best pair each time. */
static void naive_merge(const uint8_t *text, uint32_t *ends, uint32_t *ids, uint32_t *count)
{
    for (;;) {
        uint64_t best = UINT64_MAX;
        uint32_t at = 0, best_into = 0;
        for (uint32_t i = 0; i + 1 < *count; i++) {
            uint32_t into = 0;
            uint64_t order = naive_order(text, ends, ids, i, &into);
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
static uint32_t naive_encode_spm(const char *text, uint32_t bytes, uint32_t *out)
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
    naive_merge(marked, ends, ids, &count);
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

static uint32_t naive_encode_bpe(const char *text, uint32_t bytes, uint32_t *out)
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
        naive_merge(word, ends, ids, &symbols);
        memcpy(out + out_count, ids, symbols * sizeof *ids);
        out_count += symbols;
        at += count;
    }
    return out_count;
}

static bool has_user_token(const char *text, uint32_t bytes)
{
    static uint32_t spans[4096];
    const struct vocab_input input = {.text = text, .bytes = bytes};
    return vocab_special_mark(&vocab, &input, spans);
}

static void check_against_naive(const char *text, uint32_t bytes)
{
    uint32_t count = vocab.info.kind == VOCAB_SPM ? naive_encode_spm(text, bytes, expected)
                                                  : naive_encode_bpe(text, bytes, expected);
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

static void test_encode_random_texts_as_the_naive_tokenizers_do(void **state)
{
    char text[1024];
    for (uint32_t kind = 0; kind < 2; kind++) {
        load_kind(kind);
        for (uint32_t round = 0; round < 3000; round++) {
            uint32_t bytes = random_text(text, sizeof text);
            if (!has_user_token(text, bytes)) {
                check_against_naive(text, bytes);
            }
        }
    }
}

/* Single words of lengths around those at which the tree of orders gets another level. */
static void test_encode_long_words_as_the_naive_tokenizers_do(void **state)
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
                check_against_naive(text, lengths[i]);
            }
        }
    }
}

/* Encoded texts decode to themselves, with special tokens and without. */
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
                continue;           /* the mark decodes as a space; texts have prefixes */
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

#define PUBLISHED "../shared/vocab"

static void load_path(const char *path)
{
    struct gguf_source source;
    assert_status(STATUS_OK, gguf_source_open(&source, path, &error));
    load(&source);
    gguf_source_close(&source);
}

static void load_published(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, PUBLISHED "/%s.gguf", name);
    load_path(path);
}

static void check_published(const char *name)
{
    static const char separator[] = "\n__ggml_vocab_test__\n";
    static char texts[16384], answers[16384];
    char path[128];
    uint32_t cases = 0;
    load_published(name);
    snprintf(path, sizeof path, PUBLISHED "/%s.gguf.inp", name);
    uint32_t texts_bytes = read_whole(path, texts, sizeof texts);
    snprintf(path, sizeof path, PUBLISHED "/%s.gguf.out", name);
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

static void skip_without_published(void)
{
    if (access(PUBLISHED, R_OK) != 0) {
        print_message("skipped: no " PUBLISHED ": only the ids of others' tokenizers, or their "
                      "vocabularies, can prove this\n");
        skip();
    }
}

static void test_encode_published_vocabularies_as_expected(void **state)
{
    skip_without_published();
    for (uint32_t i = 0; i < PUBLISHED_COUNT; i++) {
        check_published(published[i]);
    }
}

/* ---- long texts ------------------------------------------------------------------------------ */

#define ENGLISH_BYTES (3u << 20)
#define RANDOM_BYTES  (1u << 20)

static char long_text[ENGLISH_BYTES];

/* The licences of every Debian installation, repeated with other capital letters each time: the
 * tests have no book of their own. */
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

/* Characters of one to four bytes, without surrogates and without those that a vocabulary cannot
 * give back: for SPM the mark that stands for a space, for falcon characters with unknown bytes. */
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

/* In pieces that fit the scratch, cut anywhere. */
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

static void check_long_texts(void)
{
    if (make_english()) {
        check_round_trip(ENGLISH_BYTES);
    }
    check_round_trip(make_characters());
}

static void test_decode_long_texts_gives_them_back(void **state)
{
    static const char *const kinds[] = {"gpt-2", "llama-bpe", "qwen2"};
    load_path("appliance/embedded.gguf");
    check_long_texts();
    for (uint32_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        load_words(kinds[i]);
        check_long_texts();
    }
}

static void test_decode_long_texts_of_published_vocabularies_gives_them_back(void **state)
{
    skip_without_published();
    for (uint32_t i = 0; i < PUBLISHED_COUNT; i++) {
        load_published(published[i]);
        check_long_texts();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encode_random_texts_as_the_naive_tokenizers_do),
        cmocka_unit_test(test_encode_long_words_as_the_naive_tokenizers_do),
        cmocka_unit_test(test_decode_random_texts_gives_them_back),
        cmocka_unit_test(test_encode_published_vocabularies_as_expected),
        cmocka_unit_test(test_decode_long_texts_gives_them_back),
        cmocka_unit_test(test_decode_long_texts_of_published_vocabularies_gives_them_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
