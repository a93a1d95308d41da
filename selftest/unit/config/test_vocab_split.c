/* SPDX-License-Identifier: MIT */
/*
 * Goal: words end where the models' own expressions end them. Method: known texts; and random
 * ones, over which the published expressions are run as they are, one after the other over the
 * whole text, by a matcher that backtracks and knows nothing of words.
 */
#include "selftest/unit/test.h"

#include "config/vocab/unicode.h"
#include "config/vocab/merge.h"

#define IDEOGRAPHIC_SPACE "\xe3\x80\x80"    /* U+3000 */

static void assert_splits(enum vocab_pre pre, const char *text, const char *marked)
{
    char got[256];
    uint32_t at = 0, used = 0, count = (uint32_t)strlen(text);
    while (at < count) {
        uint32_t bytes = vocab_split(pre, (const uint8_t *)text + at, count - at);
        assert_true(used + bytes + 1 < sizeof got);
        memcpy(got + used, text + at, bytes);
        got[used + bytes] = '#';
        used += bytes + 1;
        at += bytes;
    }
    got[used] = '\0';
    assert_string_equal(got, marked);
}

static void test_split_gpt2_follows_its_expression(void **state)
{
    const enum vocab_pre pre = VOCAB_PRE_GPT2;
    assert_splits(pre, "Hello world", "Hello# world#");
    assert_splits(pre, "it's we'll I'M 'tis", "it#'s# we#'ll# I#'#M# '#tis#");
    assert_splits(pre, "a1b22 3333", "a#1#b#22# 3333#");
    assert_splits(pre, "a  b   ", "a# # b#   #");
    assert_splits(pre, "a\n\n b", "a#\n\n# b#");
    assert_splits(pre, " ...!?a", " ...!?#a#");
    assert_splits(pre, "\xc3\xa9t \xe4\xb8\xad\xc2\xbd", "\xc3\xa9t# \xe4\xb8\xad#\xc2\xbd#");
    assert_splits(pre, "a\xe3\x80\x80" "b", "a#\xe3\x80\x80#b#");
    assert_splits(pre, "\t\ta", "\t#\t#a#");
    assert_splits(pre, "'", "'#");
    assert_splits(pre, "'r", "'#r#");
}

static void test_split_llama_follows_its_expression(void **state)
{
    const enum vocab_pre pre = VOCAB_PRE_LLAMA_BPE;
    assert_splits(pre, "Hello world", "Hello# world#");
    assert_splits(pre, "it's we'll I'M 'TIS", "it#'s# we#'ll# I#'M# '#TIS#");
    assert_splits(pre, "a1b22 3333", "a#1#b#22# #333#3#");
    assert_splits(pre, "a  b   ", "a# # b#   #");
    assert_splits(pre, "a \n \n  b", "a# \n \n# # b#");
    assert_splits(pre, " ...!?\n\n\na", " ...!?\n\n\n#a#");
    assert_splits(pre, "(a) \ta", "(a#)# #\ta#");
    assert_splits(pre, "\xc2\xbd\xc2\xbd\xc2\xbd\xc2\xbd", "\xc2\xbd\xc2\xbd\xc2\xbd#\xc2\xbd#");
    assert_splits(pre, "\xff" "a\xff", "\xff" "a#\xff#");
    assert_splits(pre, "\r\n", "\r\n#");
}

static void test_split_qwen2_takes_single_digits(void **state)
{
    const enum vocab_pre pre = VOCAB_PRE_QWEN2;
    assert_splits(pre, "a1b22 3333", "a#1#b#2#2# #3#3#3#3#");
    assert_splits(pre, "I'M (a) \n\n x", "I#'M# (#a#)# \n\n# x#");
}

static void test_split_deepseek_coder_follows_its_expressions(void **state)
{
    const enum vocab_pre pre = VOCAB_PRE_DEEPSEEK_CODER;
    assert_splits(pre, "Hello world", "Hello# world#");
    assert_splits(pre, "it's \t'tis", "it#'#s# #\t'#tis#");
    assert_splits(pre, "a1b22 3", "a#1#b#2#2# #3#");
    assert_splits(pre, "a\n\r\n  b \n", "a#\n#\r#\n# # b# #\n#");
    assert_splits(pre, "x$$ += 2;", "x#$$ += #2#;#");
    assert_splits(pre, "a \xe4\xb8\xad\xe6\x96\x87z", "a# #\xe4\xb8\xad\xe6\x96\x87#z#");
    assert_splits(pre, " \xe2\x80\x99.", " #\xe2\x80\x99#.#");          /* U+2019 is in the range */
    assert_splits(pre, IDEOGRAPHIC_SPACE IDEOGRAPHIC_SPACE "\xe4\xb8\xad",
                  IDEOGRAPHIC_SPACE "#" IDEOGRAPHIC_SPACE "\xe4\xb8\xad#");
    assert_splits(pre, "\xff\xfe$1", "\xff\xfe$#1#");
}

static void test_split_falcon_follows_its_expressions(void **state)
{
    const enum vocab_pre pre = VOCAB_PRE_FALCON;
    assert_splits(pre, "Hello world", "Hello# world#");
    assert_splits(pre, "it's $a+=b;", "it#'#s# #$#a#+=#b#;#");
    assert_splits(pre, "a  .  b ", "a#  #.# # b# #");
    assert_splits(pre, " 123 12 12345", " #123# 12# #123#45#");
    assert_splits(pre, "12\xc2\xbd" "1234", "12\xc2\xbd#123#4#");
    assert_splits(pre, " \xc2\xa9\x01. \xc2\xa9", " \xc2\xa9\x01#.# \xc2\xa9#");
    assert_splits(pre, "\t\tx", "\t#\t#x#");
}

/* ---- the expressions as they are published --------------------------------------------------- */

static const uint8_t *subject;              /* the text, and where the piece under work ends */
static uint32_t subject_end;

static bool is_class(uint32_t code, char letter)
{
    enum unicode_class class = unicode_class(code);
    return class == (letter == 'L'   ? UNICODE_LETTER
                     : letter == 'N' ? UNICODE_NUMBER
                     : letter == 'P' ? UNICODE_PUNCTUATION
                                     : UNICODE_SPACE);
}

/* A character, \s, \p{X}, \r or \n at *p, which moves behind it. */
static bool match_simple(const char **p, uint32_t code)
{
    uint32_t want = 0;
    if ((*p)[0] == '\\' && (*p)[1] == 's') {
        *p += 2;
        return is_class(code, 's');
    }
    if ((*p)[0] == '\\' && (*p)[1] == 'p') {
        *p += 5;
        return is_class(code, (*p)[-2]);
    }
    *p += unicode_decode((const uint8_t *)*p, 4, &want);
    if ((*p)[0] == '-' && (*p)[1] != ']') {
        uint32_t last = 0;
        *p += 1 + unicode_decode((const uint8_t *)*p + 1, 4, &last);
        return code >= want && code <= last;
    }
    return code == want;
}

/* The same or a set of them in brackets. */
static bool match_atom(const char **p, uint32_t code)
{
    bool found = false, negated = false;
    if (**p != '[') {
        return match_simple(p, code);
    }
    ++*p;
    if (**p == '^') {
        negated = true;
        ++*p;
    }
    while (**p != ']') {
        found |= match_simple(p, code);
    }
    ++*p;
    return found != negated;
}

#define NO_MATCH   UINT32_MAX
#define REPEAT_MAX 64u

/* `?`, `*`, `+`, `{1,3}` or nothing; returns what follows. */
static const char *parse_repeat(const char *p, uint32_t *least, uint32_t *most)
{
    *least = *p == '?' || *p == '*' ? 0 : 1;
    *most = *p == '*' || *p == '+' ? REPEAT_MAX : *p == '{' ? 3 : 1;
    return *p == '{' ? p + 5 : *p == '?' || *p == '*' || *p == '+' ? p + 1 : p;
}

static uint32_t code_at(uint32_t at, uint32_t *length)
{
    uint32_t code = 0;
    *length = unicode_decode(subject + at, subject_end - at, &code);
    return code;
}

/* Where one alternative, from `p` to a bar, ends if it begins at `at`. */
static uint32_t match_rest(const char *p, uint32_t at)
{
    static const char not_before_word[] = "(?!\\S)";
    uint32_t ends[REPEAT_MAX + 1] = {at}, count = 0, least, most, length;
    if (*p == '\0' || *p == '|') {
        return at;
    }
    if (strncmp(p, not_before_word, sizeof not_before_word - 1) == 0) {
        bool holds = at == subject_end || is_class(code_at(at, &length), 's');
        return holds ? match_rest(p + sizeof not_before_word - 1, at) : NO_MATCH;
    }
    const char *after = p;
    (void)match_atom(&after, 0);
    after = parse_repeat(after, &least, &most);
    for (; count < most && ends[count] < subject_end; count++) {
        const char *atom = p;
        if (!match_atom(&atom, code_at(ends[count], &length))) {
            break;
        }
        ends[count + 1] = ends[count] + length;
    }
    for (uint32_t i = count + 1; i-- > least;) {        /* greedy: the most first */
        uint32_t end = match_rest(after, ends[i]);
        if (end != NO_MATCH) {
            return end;
        }
    }
    return NO_MATCH;
}

static uint32_t match_expression(const char *expression, uint32_t at)
{
    uint32_t end = match_rest(expression, at);
    for (const char *bar = strchr(expression, '|'); end == NO_MATCH && bar != NULL;
         bar = strchr(bar + 1, '|')) {
        if (bar[-1] != '[' && bar[1] != ']') {
            end = match_rest(bar + 1, at);
        }
    }
    return end;
}

/* Splits each piece of the text (`cuts[i]`: one begins at i) at the ends of all matches in it. */
static void split_by(const char *expression, const uint8_t *text, uint32_t bytes, bool *cuts)
{
    subject = text;
    for (uint32_t first = 0; first < bytes; first = subject_end) {
        subject_end = first + 1;
        while (subject_end < bytes && !cuts[subject_end]) {
            subject_end++;
        }
        for (uint32_t at = first; at < subject_end;) {
            uint32_t length, end = match_expression(expression, at);
            if (end == NO_MATCH) {
                (void)code_at(at, &length);
                at += length;
                continue;
            }
            cuts[at] = cuts[end] = true;
            at = end;
        }
    }
}

#define FOLDED "'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n\\p{L}\\p{N}]?\\p{L}+|"
#define TAIL   "| ?[^\\s\\p{L}\\p{N}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
#define GPT2                                                                                      \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

static const struct {
    enum vocab_pre pre;
    const char *expressions[5];
} published[] = {
    {VOCAB_PRE_GPT2, {GPT2}},
    {VOCAB_PRE_LLAMA_BPE, {FOLDED "\\p{N}{1,3}" TAIL}},
    {VOCAB_PRE_QWEN2, {FOLDED "\\p{N}" TAIL}},
    {VOCAB_PRE_DEEPSEEK_CODER,
     {"[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+",
      "[\xe4\xb8\x80-\xe9\xbe\xa5\xe0\xa0\x80-\xe4\xb8\x80\xea\xb0\x80-\xed\x9f\xbf]+", "\\p{N}"}},
    {VOCAB_PRE_FALCON, {"[\\p{P}$+<=>^~`|]+", GPT2, "[0-9][0-9][0-9]"}},
};

static uint64_t random_state;

static uint32_t random_below(uint32_t bound)
{
    random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % bound);
}

static uint32_t random_text(uint8_t *text)
{
    static const char *const parts[] = {
        "a", "S", "'", "'s", "'LL", "r", "e", "1", "23", "456", "\xc2\xbd", " ", " ", "  ", "\t",
        "\n", "\r\n", "\xc2\xa0", "\xe3\x80\x80", ".", "!", "$", "+", "|", "~", "\x01", "\x7f",
        "\xcc\x81", "\xe0\xb9\x88", "\xe2\x91\xa0", "\xe2\x80\x99", "\xc3\xa9", "\xe4\xb8\xad",
        "\xe9\xbe\xa5", "\xe9\xbe\xa6", "\xe0\xa0\x80", "\xdf\xbf", "\xed\x9f\xbf", "\xea\xb0\x80",
        "\xf0\x9f\x98\x80", "\xef\xbc\x91", "\xff", "\xe4\xb8",
    };
    uint32_t used = 0, count = 1 + random_below(20);
    for (uint32_t i = 0; i < count; i++) {
        const char *part = parts[random_below(sizeof parts / sizeof parts[0])];
        memcpy(text + used, part, strlen(part));
        used += (uint32_t)strlen(part);
    }
    return used;
}

static void check_random_split(enum vocab_pre pre, const char *const *expressions)
{
    uint8_t text[128] = {0};
    bool cuts[128] = {0};
    uint32_t bytes = random_text(text);
    cuts[0] = true;
    for (uint32_t i = 0; i < 5 && expressions[i] != NULL; i++) {
        split_by(expressions[i], text, bytes, cuts);
    }
    for (uint32_t at = 0; at < bytes;) {
        uint32_t end = at + vocab_split(pre, text + at, bytes - at), expected = at + 1;
        while (expected < bytes && !cuts[expected]) {
            expected++;
        }
        if (end != expected) {
            print_error("pre %u: '%.*s' of '%.*s', expected %u bytes\n", pre, (int)(end - at),
                        (const char *)text + at, (int)bytes, (const char *)text, expected - at);
        }
        assert_int_equal(end, expected);
        at = end;
    }
}

static void test_split_random_texts_as_the_expressions_do(void **state)
{
    for (uint32_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        random_state = i;
        for (uint32_t round = 0; round < 20000; round++) {
            check_random_split(published[i].pre, published[i].expressions);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split_gpt2_follows_its_expression),
        cmocka_unit_test(test_split_llama_follows_its_expression),
        cmocka_unit_test(test_split_qwen2_takes_single_digits),
        cmocka_unit_test(test_split_deepseek_coder_follows_its_expressions),
        cmocka_unit_test(test_split_falcon_follows_its_expressions),
        cmocka_unit_test(test_split_random_texts_as_the_expressions_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
