/* SPDX-License-Identifier: MIT */
/*
 * Goal: a task file is read exactly, or refused with the line and the expectation.
 * Method: good files of each kind; one fault after the other; every prefix of a good file.
 */
#include "selftest/unit/test.h"

#include <stdio.h>

#include "tools/agx/agents/task.h"

static char fault[TASK_FAULT_BYTES];

static bool parse(struct task_book *book, const char *text)
{
    memset(book, 0, sizeof *book);
    fault[0] = '\0';
    return task_book_parse(book, "x.tasks", text, strlen(text), fault);
}

static void parse_good(struct task_book *book, const char *text)
{
    if (!parse(book, text)) {
        print_error("refused: %s\n", fault);
        fail();
    }
}

static const char all_kinds[] = "# a comment\n"
                                "task react cost-17\n"
                                "> Table:\n"
                                "> rice: price 12\n"
                                ">\n"
                                "# another one\n"
                                "> Task: What?\n"
                                "= 71\n"
                                "\n"
                                "task chat moon-3\n"
                                "> My name is Mara.\n"
                                "= Mara\n"
                                "> What do bees make?\n"
                                "= honey\n"
                                "task map rice-4\n"
                                "> Notes: a\n"
                                "> Find: rice\n"
                                "-\n"
                                "> Notes: b\n"
                                "= 159\n"
                                "task vote sum-8\n"
                                "samples 5\n"
                                "> Sum: What is 47 plus 38?\n"
                                "= 85";

static void test_each_kind_is_read(void **state)
{
    struct task_book book;
    (void)state;
    parse_good(&book, all_kinds);
    assert_int_equal(book.count, 4);
    const struct task *react = &book.tasks[0], *chat = &book.tasks[1], *map = &book.tasks[2];
    const struct task *vote = &book.tasks[3];
    assert_int_equal(react->kind, TASK_REACT);
    assert_string_equal(react->name, "cost-17");
    assert_int_equal(react->prompts_count, 1);
    assert_string_equal(react->prompts[0], "Table:\nrice: price 12\n\nTask: What?\n");
    assert_string_equal(react->answers[0], "71");
    assert_int_equal(chat->kind, TASK_CHAT);
    assert_int_equal(chat->prompts_count, 2);
    assert_int_equal(chat->answers_count, 2);
    assert_string_equal(chat->prompts[1], "What do bees make?");
    assert_string_equal(chat->answers[1], "honey");
    assert_int_equal(map->prompts_count, 2);
    assert_string_equal(map->prompts[0], "Notes: a\nFind: rice\n");
    assert_string_equal(map->prompts[1], "Notes: b\n");
    assert_int_equal(map->samples, 0);
    assert_int_equal(vote->kind, TASK_VOTE);
    assert_int_equal(vote->samples, 5);
    assert_string_equal(vote->answers[0], "85");
    task_book_free(&book);
}

static void test_tasks_that_follow_belong_to_the_program_before(void **state)
{
    struct task_book book;
    (void)state;
    parse_good(&book, "task react a\n> q\n= 1\nthen vote b\nsamples 3\n> q\n= 2\n"
                      "then chat c\n> q\n= 3\ntask react d\n> q\n= 4\n");
    assert_int_equal(book.count, 4);
    assert_int_equal(book.tasks[1].kind, TASK_VOTE);
    assert_int_equal(book.tasks[1].samples, 3);
    assert_string_equal(book.tasks[2].name, "c");
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(book.tasks[i].follows, i == 1 || i == 2);
    }
    assert_int_equal(task_book_next(&book, 0), 3);
    assert_int_equal(task_book_next(&book, 3), 4);
    task_book_free(&book);
}

static void test_texts_follow_each_other_in_a_book(void **state)
{
    struct task_book book;
    char names[32], text[64];
    (void)state;
    parse_good(&book, all_kinds);
    for (int i = 0; i < 100; i++) {
        snprintf(text, sizeof text, "task react n%d\n> q\n= %d\n", i, i);
        assert_true(task_book_parse(&book, "y", text, strlen(text), fault));
    }
    assert_int_equal(book.count, 104);
    assert_string_equal(book.tasks[0].name, "cost-17");
    snprintf(names, sizeof names, "n%d", 99);
    assert_string_equal(book.tasks[103].name, names);
    task_book_free(&book);
}

static void test_an_empty_text_has_no_tasks(void **state)
{
    struct task_book book;
    (void)state;
    parse_good(&book, "");
    assert_int_equal(book.count, 0);
    task_book_free(&book);
    parse_good(&book, "\n# nothing\n\n");
    assert_int_equal(book.count, 0);
    task_book_free(&book);
}

static void test_faults_name_line_found_and_expected(void **state)
{
    static const struct { const char *text, *fault; } rows[] = {
        {"> early\n", "x.tasks:1: found '> early', expected task KIND NAME"},
        {"then react a\n", "x.tasks:1: found 'then react a', expected task KIND NAME"},
        {"task react a\n> q\n= 1\nthen dance b\n",
         "x.tasks:4: found 'then dance b', expected task react|map|vote|chat NAME"},
        {"task react a\n> q\nthen react b\n",
         "x.tasks:3: found 'then react b', expected the right answer: = TEXT"},
        {"task dance a\n", "x.tasks:1: found 'task dance a', expected task react|map|vote|chat"},
        {"task react\n", "x.tasks:1: found 'task react', expected task react|map|vote|chat NAME"},
        {"task react \n", "x.tasks:1: found 'task react ', expected a name of"},
        {"task react a b\n", "x.tasks:1: found 'task react a b', expected a name of"},
        {"task react a\n= 5\n", "x.tasks:2: found '= 5', expected a line of the prompt: > TEXT"},
        {"task react a\n> q\n", "x.tasks:2: found 'the end', expected the right answer: = TEXT"},
        {"task react a\n> q\n= 5\n= 6\n", "x.tasks:4: found '= 6', expected no second answer"},
        {"task react a\n> q\n= 5\n> r\n", "x.tasks:4: found '> r', expected the next task"},
        {"task react a\n> q\n-\n", "x.tasks:3: found '-', expected one prompt"},
        {"task react a\nsamples 2\n", "x.tasks:2: found 'samples 2', expected samples in a vote"},
        {"task vote a\nsamples 0\n", "x.tasks:2: found 'samples 0', expected samples 1 to 9"},
        {"task vote a\nsamples 10\n", "x.tasks:2: found 'samples 10', expected samples 1 to 9"},
        {"task vote a\nsamples 2\nsamples 2\n", "x.tasks:3: found 'samples 2', expected samples"},
        {"task vote a\nsamples 2\n> q\n-\n> r\n= 5\n", "x.tasks:6: found 'the end', expected one"},
        {"task map a\n-\n", "x.tasks:2: found '-', expected a line of the prompt"},
        {"task chat a\n> q\n> r\n", "x.tasks:3: found '> r', expected what the reply contains"},
        {"task react a\n>q\n", "x.tasks:2: found '>q', expected a line with"},
        {"task react a\n> q\n=5\n", "x.tasks:3: found '=5', expected a line with"},
        {"task react a\n> q\n= \n", "x.tasks:3: found '= ', expected = and 1 to 120 bytes"},
        {"task react a\n> q\n= 5 \n", "x.tasks:3: found '= 5 ', expected = and 1 to 120 bytes"},
        {"task react a\n> q\ttab\n", "x.tasks:2: found 'bytes that are no text'"},
        {"task react a\r\n", "x.tasks:1: found 'bytes that are no text'"},
        {"task react a\n> \xff\n", "x.tasks:2: found 'bytes that are no text'"},
        {"task react a\ntask react b\n", "x.tasks:2: found 'task react b', expected a line of"},
        {"hello, this is a long line that is shown in part\n",
         "x.tasks:1: found 'hello, this is a long line that is shown', expected task KIND NAME"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct task_book book;
        assert_false(parse(&book, rows[i].text));
        if (strncmp(fault, rows[i].fault, strlen(rows[i].fault)) != 0) {
            print_error("got      %s\nexpected %s\n", fault, rows[i].fault);
            fail();
        }
        task_book_free(&book);
    }
}

static void test_zero_bytes_are_refused(void **state)
{
    static const char text[] = "task react a\n> q\0q\n= 5\n";
    struct task_book book = {0};
    (void)state;
    assert_false(task_book_parse(&book, "x", text, sizeof text - 1, fault));
    assert_non_null(strstr(fault, "x:2: "));
    task_book_free(&book);
}

/* The longest prompt, the most prompts and the longest names fit; one more does not. */
static void test_limits_hold_to_the_byte(void **state)
{
    static char text[4 * TASK_PROMPT_BYTES_MAX];
    struct task_book book;
    (void)state;
    for (int over = 0; over < 2; over++) {
        snprintf(text, sizeof text, "task react a\n> %0*d\n= 5\n",
                 TASK_PROMPT_BYTES_MAX - 1 + over, 0);
        assert_int_equal(parse(&book, text), !over);
        task_book_free(&book);
        snprintf(text, sizeof text, "task react %0*d\n> q\n= 5\n", TASK_NAME_BYTES_MAX + over, 0);
        assert_int_equal(parse(&book, text), !over);
        task_book_free(&book);
        snprintf(text, sizeof text, "task react a\n> q\n= %0*d\n", TASK_ANSWER_BYTES_MAX + over, 0);
        assert_int_equal(parse(&book, text), !over);
        task_book_free(&book);
        size_t at = (size_t)snprintf(text, sizeof text, "task map a\n");
        for (int i = 0; i < TASK_PROMPTS_MAX + over; i++) {
            at += (size_t)snprintf(text + at, sizeof text - at, i > 0 ? "-\n> q\n" : "> q\n");
        }
        snprintf(text + at, sizeof text - at, "= 5\n");
        assert_int_equal(parse(&book, text), !over);
        task_book_free(&book);
    }
}

/* Strings lie in a buffer as large as the file: files of the shortest lines fill it most. */
static void test_the_shortest_lines_fit(void **state)
{
    struct task_book book;
    (void)state;
    parse_good(&book, "task vote a\n>\n-\n>\n-\n>\n>\n= 5");
    assert_int_equal(book.tasks[0].prompts_count, 3);
    assert_string_equal(book.tasks[0].prompts[2], "\n\n");
    assert_string_equal(book.tasks[0].answers[0], "5");
    task_book_free(&book);
    assert_false(parse(&book, "task react a\n>"));
    task_book_free(&book);
}

static void test_every_beginning_of_a_file_is_read_or_refused(void **state)
{
    struct task_book book;
    (void)state;
    for (size_t bytes = 0; bytes < sizeof all_kinds; bytes++) {
        memset(&book, 0, sizeof book);
        fault[0] = '\0';
        bool is_good = task_book_parse(&book, "x", all_kinds, bytes, fault);
        assert_int_equal(is_good, fault[0] == '\0');
        task_book_free(&book);
    }
}

static void test_a_file_that_is_not_there_is_named(void **state)
{
    struct task_book book = {0};
    (void)state;
    assert_false(task_book_read(&book, "/nonexistent/x.tasks", fault));
    assert_non_null(strstr(fault, "/nonexistent/x.tasks: "));
    task_book_free(&book);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_kind_is_read),
        cmocka_unit_test(test_tasks_that_follow_belong_to_the_program_before),
        cmocka_unit_test(test_texts_follow_each_other_in_a_book),
        cmocka_unit_test(test_an_empty_text_has_no_tasks),
        cmocka_unit_test(test_faults_name_line_found_and_expected),
        cmocka_unit_test(test_zero_bytes_are_refused),
        cmocka_unit_test(test_limits_hold_to_the_byte),
        cmocka_unit_test(test_the_shortest_lines_fit),
        cmocka_unit_test(test_every_beginning_of_a_file_is_read_or_refused),
        cmocka_unit_test(test_a_file_that_is_not_there_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
