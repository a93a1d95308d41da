/* SPDX-License-Identifier: MIT */
/*
 * Goal: a command line by table fills its values, or is refused with the option, the value and what
 * is allowed.
 * Method: one table with an option of each kind; stderr goes to a file.
 */
#include "selftest/unit/folder.h"

#include "tools/command_line.h"

#define WORDS_MAX 16

static struct values {
    bool flag;
    const char *text, *operand;
    struct argument_texts texts;
    struct argument_ids ids;
    struct argument_choice choice;
    uint32_t u32;
    uint64_t u64;
    struct argument_range range;
    float f32;
    double f64;
    int rest;
    uint32_t operands;
} values;

static const char *const colours[] = {"red", "green", NULL};
static const struct argument rows[] = {
    {"--flag", "", ARGUMENT_FLAG, &values.flag, 0, 0, "a switch"},
    {"--text", "TEXT", ARGUMENT_TEXT, &values.text, 0, 0, "one line\nanother"},
    {"--texts", "TEXT", ARGUMENT_TEXTS, &values.texts, 0, 2, ""},
    {"--ids", "1,2", ARGUMENT_IDS, &values.ids, 0, 0, ""},
    {"--choice", "WORD", ARGUMENT_CHOICE, &values.choice, 0, 0, ""},
    {"--u32", "N", ARGUMENT_U32, &values.u32, 2, 10, ""},
    {"--u64", "N", ARGUMENT_U64, &values.u64, 0, 0, ""},
    {"--range", "A-B", ARGUMENT_RANGE, &values.range, 0, 0, ""},
    {"--f32", "F", ARGUMENT_F32, &values.f32, 0, 1, ""},
    {"--f64", "F", ARGUMENT_F64, &values.f64, -1, 1, ""},
};
static struct command_line line;

static int set_up(void **state)
{
    (void)state;
    values = (struct values){.choice = {colours, 0}};
    line = (struct command_line){
        .program = "tool", .command = "act", .elsewhere = "--to ADDRESS", .usage = "[OPTION]...",
        .purpose = "Acts.", .rows = rows, .rows_count = sizeof rows / sizeof rows[0]};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(values.ids.ids);
    return 0;
}

/* Parses words that blanks separate. */
static int parse(const char *words)
{
    static char copy[256];
    static char *argv[WORDS_MAX];
    int argc = 0;
    argv[argc++] = (char *)(uintptr_t)"act";
    assert_true(strlen(words) < sizeof copy);
    strcpy(copy, words);
    for (char *word = strtok(copy, " "); word != NULL; word = strtok(NULL, " ")) {
        assert_true(argc < WORDS_MAX);
        argv[argc++] = word;
    }
    return command_line_parse(&line, argc, argv);
}

/* The words are refused with a message that contains `said`. */
static void refuses(const char *words, const char *said)
{
    char path[64], message[512];
    void *none = NULL;
    tear_down(&none);
    set_up(&none);
    snprintf(path, sizeof path, "%s/message", test_folder());
    fflush(stderr);
    int old = dup(STDERR_FILENO), file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(old >= 0 && file >= 0 && dup2(file, STDERR_FILENO) >= 0);
    int code = parse(words);
    fflush(stderr);
    dup2(old, STDERR_FILENO);
    ssize_t count = pread(file, message, sizeof message - 1, 0);
    message[count > 0 ? count : 0] = '\0';
    close(old);
    close(file);
    assert_int_equal(code, EXIT_USAGE);
    if (strncmp(message, "tool: ", 6) != 0 || strstr(message, said) == NULL) {
        print_error("%s: '%s', expected '%s'\n", words, message, said);
        fail();
    }
}

static void test_each_kind_fills_its_value(void **state)
{
    (void)state;
    assert_int_equal(parse("--flag --text=a=b --texts x --texts=y --ids 1,2 --ids=3"),
                     ARGUMENT_GO_ON);
    assert_true(values.flag);
    assert_string_equal(values.text, "a=b");
    assert_string_equal(values.texts.texts[1], "y");
    assert_int_equal(parse("--u32 10 --u64=18446744073709551615 --range 3-7 --f32 0.5 --f64 -1e-1 "
                           "--choice green"), ARGUMENT_GO_ON);
    assert_int_equal(values.texts.count, 2);
    assert_int_equal(values.ids.count, 3);
    assert_int_equal(values.ids.ids[2], 3);
    assert_int_equal(values.choice.chosen, 1);
    assert_int_equal(values.u32, 10);
    assert_true(values.u64 == UINT64_MAX && values.range.first == 3 && values.range.last == 7);
    assert_true(values.f32 == 0.5f && values.f64 == -0.1);
}

static void test_wrong_values_are_refused_with_what_is_allowed(void **state)
{
    (void)state;
    refuses("--u32 1", "--u32: '1' is not a whole number from 2 to 10");
    refuses("--u32 11", "from 2 to 10");
    refuses("--u32 +3", "from 2 to 10");
    refuses("--u64 18446744073709551616", "is not a whole number");
    refuses("--u64 -1", "is not a whole number");
    refuses("--range 3", "is not a range");
    refuses("--range 3-", "is not a range");
    refuses("--range 3-4x", "is not a range");
    refuses("--f32 1.5", "is not a number from 0 to 1");
    refuses("--f64 nan", "is not a number");
    refuses("--f64 0x1", "is not a number");
    refuses("--ids 1,,2", "is not a list of token ids");
    refuses("--choice blue", "is not one of red, green");
    refuses("--texts a --texts b --texts c", "'c' is not allowed: there are 2 already");
    refuses("--flag=1", "it is a switch");
}

static void test_wrong_words_are_refused(void **state)
{
    (void)state;
    refuses("--tex a", "--tex: no such option; see `tool act --help`");
    refuses("--text", "--text: TEXT is missing");
    refuses("--u32 3 --u32 4", "--u32: given twice");
    refuses("--to x", "--to stands before the command: tool --to ADDRESS act ...");
    refuses("more", "'more' is one word too many; usage: tool [--to ADDRESS] act [OPTION]...");
}

static void test_operands_are_taken_in_each_way(void **state)
{
    (void)state;
    line.operand = &values.operand;
    assert_int_equal(parse("--u32 3 -- --flag"), ARGUMENT_GO_ON);
    assert_string_equal(values.operand, "--flag");
    assert_false(values.flag);
    values.operand = NULL;
    assert_int_equal(parse("--u32 3"), EXIT_USAGE);
    line.operand_may_lack = true;
    assert_int_equal(parse("--u32 3"), ARGUMENT_GO_ON);
    assert_null(values.operand);
    assert_int_equal(parse("a b"), EXIT_USAGE);
    line.operand = NULL;
    line.operands_count = &values.operands;
    assert_int_equal(parse("a --u32 4 b -"), ARGUMENT_GO_ON);
    assert_int_equal(values.operands, 3);
    line.operands_count = NULL;
    line.rest = &values.rest;
    assert_int_equal(parse("--u32 5 act --unknown"), ARGUMENT_GO_ON);
    assert_int_equal(values.rest, 3);
    assert_int_equal(values.u32, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_kind_fills_its_value, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_wrong_values_are_refused_with_what_is_allowed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_wrong_words_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_operands_are_taken_in_each_way, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
