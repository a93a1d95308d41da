/* SPDX-License-Identifier: MIT */
/*
 * Goal: what is wrong in a trace of our own form is named with its line, its field and what may
 * stand there; lines may end as Windows ends them.
 * Method: small texts; the fault of each, as the user sees it.
 */
#include "selftest/unit/folder.h"

#include "tools/trace/trace.h"

#define HEAD "agentix-trace 1\nprogram a 0 x\n"
#define CALL "call 0 after=- gap=0 in=u:5 out=5\n"
#define TOKENS "a whole number of tokens from 1 to 67108864 is needed"
#define TIME   "whole microseconds from 0 to 31536000000000, a year, are needed"

static void read_text(struct trace *trace, const char *text, const char *wanted)
{
    char fault[TRACE_FAULT_BYTES] = "";
    const struct trace_source source = {.text = text, .bytes = strlen(text)};
    assert_int_equal(trace_read(trace, &source, fault), wanted[0] == '\0');
    assert_string_equal(fault, wanted);
}

static void assert_fault(const char *text, const char *wanted)
{
    struct trace trace;
    read_text(&trace, text, wanted);
}

static void test_names_the_range_of_a_number_that_is_out_of_it(void **state)
{
    (void)state;
    assert_fault(HEAD "call 0 after=- gap=0 in=u:5 out=4294967295\n", "3: out: " TOKENS);
    assert_fault(HEAD "call 0 after=- gap=0 in=u:5 out=0\n", "3: out: " TOKENS);
    assert_fault(HEAD "call 0 after=- gap=0 in=u:4294967295 out=5\n", "3: in: " TOKENS);
    assert_fault(HEAD "call 0 after=- gap=0 in=u:67108864+u:1 out=5\n",
                 "3: in: the prompt is longer than 67108864 tokens");
    assert_fault(HEAD "call 0 after=- gap=31536000000001 in=u:5 out=5\n", "3: gap: " TIME);
    assert_fault("agentix-trace 1\nprogram a 31536000000001 x\n", "2: program: arrival_us: " TIME);
}

static void test_takes_the_largest_numbers(void **state)
{
    struct trace trace;
    (void)state;
    read_text(&trace, "agentix-trace 1\nprogram a 31536000000000 x\n"
                      "call 0 after=- gap=31536000000000 in=u:67108864 out=67108864\n", "");
    assert_int_equal(trace.calls[0].out_tokens, 67108864);
    assert_int_equal(trace.calls[0].prompt_tokens, 67108864);
    assert_int_equal(trace.calls[0].gap_us, trace.programs[0].arrival_us);
    trace_free(&trace);
}

static void test_takes_lines_that_end_with_cr_lf(void **state)
{
    struct trace trace;
    (void)state;
    read_text(&trace, "agentix-trace 1\r\n# x\r\n\r\nprogram a 0 chat\r\n"
                      "call 0 after=- gap=0 in=u:5 out=6\r\n", "");
    assert_int_equal(trace.calls[0].out_tokens, 6);
    assert_string_equal(trace.classes[0].name, "chat");
    trace_free(&trace);
    assert_fault("agentix-trace 1\r\r\n", "1: the line should end here");
    assert_fault(HEAD "call 0 after=- gap=0 in=u:5 out=5\r", "3: the line should end here");
}

static void test_says_that_a_file_is_empty(void **state)
{
    (void)state;
    assert_fault("", "1: the file is empty");
    assert_fault("\n", "1: the first line must be `agentix-trace 1`");
    assert_fault("agentix-trace 1\n", "1: no programs, or the last one has no calls");
    assert_fault(HEAD, "2: no programs, or the last one has no calls");
    assert_fault("agentix-trace 1\n" CALL, "2: a call before the first program");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_the_range_of_a_number_that_is_out_of_it),
        cmocka_unit_test(test_takes_the_largest_numbers),
        cmocka_unit_test(test_takes_lines_that_end_with_cr_lf),
        cmocka_unit_test(test_says_that_a_file_is_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
