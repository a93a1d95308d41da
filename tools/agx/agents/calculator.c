/* SPDX-License-Identifier: MIT */
#include "tools/agx/agents/calculator.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

/*
 * What: sums over unchecked text:
 *
 *     sum    = term { ("+" | "-") term }
 *     term   = factor { ("*" | "/") factor }
 *     factor = { "-" } digits                 blanks may stand between any two of these
 *
 * Invariant: every step can fail, and a failure is final: no text is read after it.
 * Bounds: linear in the text, no recursion: there are no parentheses.
 */

struct reader { const char *at; };

static char next_char(struct reader *reader)
{
    while (*reader->at == ' ') {
        reader->at++;
    }
    return *reader->at;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The sign comes first, so that the smallest number can be read too. */
static bool read_factor(struct reader *reader, int64_t *value)
{
    bool is_negative = false;
    for (; next_char(reader) == '-'; reader->at++) {
        is_negative = !is_negative;
    }
    *value = 0;
    if (!is_digit(*reader->at)) {
        return false;
    }
    for (; is_digit(*reader->at); reader->at++) {
        int64_t digit = *reader->at - '0';
        if (__builtin_mul_overflow(*value, 10, value) ||
            __builtin_add_overflow(*value, is_negative ? -digit : digit, value)) {
            return false;
        }
    }
    return true;
}

static bool divide(int64_t left, int64_t right, int64_t *quotient)
{
    if (right == 0 || (left == INT64_MIN && right == -1)) {
        return false;
    }
    bool is_inexact = left % right != 0;
    *quotient = left / right - (is_inexact && (left < 0) != (right < 0));
    return true;
}

static bool read_term(struct reader *reader, int64_t *value)
{
    bool is_good = read_factor(reader, value);
    while (is_good && (next_char(reader) == '*' || *reader->at == '/')) {
        char operation = *reader->at++;
        int64_t right;
        is_good = read_factor(reader, &right) &&
                  (operation == '*' ? !__builtin_mul_overflow(*value, right, value)
                                    : divide(*value, right, value));
    }
    return is_good;
}

static bool read_sum(struct reader *reader, int64_t *value)
{
    bool is_good = read_term(reader, value);
    while (is_good && (next_char(reader) == '+' || *reader->at == '-')) {
        char operation = *reader->at++;
        int64_t right;
        is_good = read_term(reader, &right) &&
                  (operation == '+' ? !__builtin_add_overflow(*value, right, value)
                                    : !__builtin_sub_overflow(*value, right, value));
    }
    return is_good && next_char(reader) == '\0';
}

void calculator_answer(const char *sum, char *answer, size_t answer_bytes)
{
    struct reader reader = {sum};
    int64_t value;
    if (read_sum(&reader, &value)) {
        snprintf(answer, answer_bytes, "%" PRId64, value);
    } else {
        snprintf(answer, answer_bytes, "error");
    }
}
