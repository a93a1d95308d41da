/* SPDX-License-Identifier: MIT */
/*
 * Goal: the sentence says what the table says, whichever side is faster; other tokens on one side
 * are never passed over. Method: programs with chosen times; the printed lines are compared whole.
 */
#include "selftest/unit/test.h"

#include <stdio.h>

#include "tools/agx/agents/verdict.h"

static struct verdict verdict;

static void add(bool is_long, double first_s, double second_s)
{
    struct verdict_program *program = &verdict.programs[verdict.count++];
    program->name = is_long ? "a-long-one" : "a-short-one";
    program->is_long = is_long;
    program->tasks = is_long ? 3 : 1;
    for (uint32_t side = 0; side < VERDICT_SIDES; side++) {
        double seconds = side == 0 ? first_s : second_s;
        program->parts[side] = (struct verdict_part){
            .calls = 4, .tokens = 50, .right = program->tasks, .digest = 7,
            .took_us = (uint64_t)(seconds * 1e6 + 0.5)};
        verdict.all_us[side] = program->parts[side].took_us > verdict.all_us[side]
                                   ? program->parts[side].took_us : verdict.all_us[side];
    }
}

static void begin(void)
{
    verdict = (struct verdict){.titles = {"fcfs", "plas"}};
}

/* All that is printed; the last line is `*last`. */
static const char *print(const char **last)
{
    static char printed[4096];
    FILE *file = tmpfile();
    assert_non_null(file);
    verdict_print(&verdict, file);
    rewind(file);
    printed[fread(printed, 1, sizeof printed - 1, file)] = '\0';
    fclose(file);
    *last = printed;
    for (const char *at = printed; at[0] != '\0' && at[1] != '\0'; at++) {
        *last = *at == '\n' ? at + 1 : *last;
    }
    return printed;
}

static void test_means_and_ratios_are_printed(void **state)
{
    const char *last;
    (void)state;
    begin();
    add(true, 10, 12);
    add(true, 20, 21);
    add(false, 2, 0.5);
    add(false, 4, 1.5);
    assert_int_equal(verdict_mean(&verdict, 0, false), 3000000);
    assert_int_equal(verdict_mean(&verdict, 1, true), 16500000);
    assert_string_equal(print(&last),
        "                               fcfs       plas\n"
        "2 short agents, mean         3.00 s     1.00 s   done 3.0 times as soon\n"
        "2 long agents, mean         15.00 s    16.50 s   took 1.10 times as long\n"
        "all done after              20.00 s    21.00 s\n"
        "the same 200 tokens on both sides, all verified; 8 of 8 answers right\n"
        "Short agents were done 3.0 times as soon; long ones took 1.10 times as long.\n");
    assert_true(verdict_is_same(&verdict));
}

static void test_the_sentence_follows_the_figures(void **state)
{
    static const struct { double shorts[2], longs[2]; const char *sentence; } rows[] = {
        {{4, 1}, {10, 10}, "Short agents were done 4.0 times as soon; long ones took just as "
                           "long.\n"},
        {{4, 3}, {12, 10}, "Short agents were done 1.33 times as soon; long ones 1.20 times as "
                           "soon.\n"},
        {{1, 2}, {60, 1}, "Short agents took 2.0 times as long; long ones were done 60 times as "
                          "soon.\n"},
        {{1, 2.5}, {10, 30}, "Short agents took 2.5 times as long; long ones took 3.0 times as "
                             "long.\n"},
        {{1, 1.004}, {0, 0}, "Short agents took just as long; long ones took just as long.\n"}};
    const char *last;
    (void)state;
    for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        begin();
        add(false, rows[i].shorts[0], rows[i].shorts[1]);
        add(true, rows[i].longs[0], rows[i].longs[1]);
        (void)print(&last);
        assert_string_equal(last, rows[i].sentence);
    }
}

static void test_a_group_that_is_missing_is_not_mentioned(void **state)
{
    const char *last;
    (void)state;
    begin();
    add(false, 2, 1);
    assert_null(strstr(print(&last), "long agents"));
    assert_string_equal(last, "Short agents were done 2.0 times as soon.\n");
    begin();
    add(true, 2, 1);
    assert_null(strstr(print(&last), "short agents"));
    assert_string_equal(last, "Long agents were done 2.0 times as soon.\n");
}

static void test_other_tokens_on_one_side_leave_no_sentence(void **state)
{
    static const struct { uint32_t calls, tokens; uint64_t digest; } rows[] = {
        {3, 50, 7}, {4, 51, 7}, {4, 50, 8}};
    const char *last;
    (void)state;
    for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        begin();
        add(false, 4, 1);
        add(true, 10, 10);
        struct verdict_part *part = &verdict.programs[1].parts[1];
        part->calls = rows[i].calls;
        part->tokens = rows[i].tokens;
        part->digest = rows[i].digest;
        assert_false(verdict_is_same(&verdict));
        assert_null(strstr(print(&last), "same"));
        assert_non_null(strstr(last, "a-long-one: DIFFERENT TOKENS on the two sides (50 and "));
    }
}

static void test_wrong_answers_are_counted_and_named(void **state)
{
    const char *last;
    char line[256];
    FILE *file = tmpfile();
    (void)state;
    begin();
    add(true, 2, 1);
    verdict.programs[0].parts[0].right = verdict.programs[0].parts[1].right = 2;
    assert_non_null(strstr(print(&last), "; 2 of 3 answers right\n"));
    assert_non_null(file);
    verdict_print_programs(&verdict, file);
    rewind(file);
    assert_non_null(fgets(line, sizeof line, file));
    assert_string_equal(line, "agent                          fcfs       plas   kind  calls tokens "
                              "answers\n");
    assert_non_null(fgets(line, sizeof line, file));
    assert_string_equal(line, "a-long-one                   2.00 s     1.00 s   long      4     50 "
                              "2/3 WRONG\n");
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_means_and_ratios_are_printed),
        cmocka_unit_test(test_the_sentence_follows_the_figures),
        cmocka_unit_test(test_a_group_that_is_missing_is_not_mentioned),
        cmocka_unit_test(test_other_tokens_on_one_side_leave_no_sentence),
        cmocka_unit_test(test_wrong_answers_are_counted_and_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
