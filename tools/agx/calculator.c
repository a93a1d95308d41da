/* SPDX-License-Identifier: MIT */
#include "tools/agx/calculator.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/*
 * What: integer arithmetic without precedence, over text that nobody has checked. Numbers longer
 * than nine digits are read as nine; what overflows, or divides by zero, leaves the value as it
 * was.
 */

#define DIGITS_MAX 9
#define TERMS_MAX  8

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static const char *read_number(const char *at, int64_t *number)
{
    *number = 0;
    for (int digits = 0; is_digit(*at); at++, digits++) {
        if (digits < DIGITS_MAX) {
            *number = *number * 10 + (*at - '0');
        }
    }
    return at;
}

static int64_t apply(int64_t left, char operation, int64_t right)
{
    int64_t result = left;
    bool overflows = operation == '+'   ? __builtin_add_overflow(left, right, &result)
                     : operation == '-' ? __builtin_sub_overflow(left, right, &result)
                     : operation == '*' ? __builtin_mul_overflow(left, right, &result)
                                        : false;
    if (operation == '/' && right != 0) {
        result = left / right;
    }
    return overflows ? left : result;
}

static void answer_sum(const char *at, char *answer, size_t answer_bytes)
{
    int64_t value, right;
    char sum[128];
    at = read_number(at, &value);
    int length = snprintf(sum, sizeof sum, "%" PRId64, value);
    for (int terms = 1; terms < TERMS_MAX; terms++) {
        const char *next = at + strspn(at, " ");
        if (*next == '\0' || strchr("+-*/", *next) == NULL) {
            break;
        }
        char operation = *next++;
        next += strspn(next, " ");
        if (!is_digit(*next)) {
            break;
        }
        at = read_number(next, &right);
        value = apply(value, operation, right);
        length += snprintf(sum + length, sizeof sum - (size_t)length, "%c%" PRId64, operation,
                           right);
    }
    snprintf(answer, answer_bytes, "%s=%" PRId64, sum, value);
}

void calculator_answer(const char *said, char *answer, size_t answer_bytes)
{
    int64_t letters = 0, words = 0;
    for (const char *at = said; *at != '\0'; at++) {
        if (is_digit(*at)) {
            answer_sum(at, answer, answer_bytes);
            return;
        }
        letters += is_letter(*at);
        words += is_letter(*at) && (at == said || !is_letter(at[-1]));
    }
    snprintf(answer, answer_bytes, "%" PRId64 "*%" PRId64 "=%" PRId64, letters, words,
             letters * words);
}
