/* SPDX-License-Identifier: MIT */
#include "config/value.h"

#include <string.h>

#include "config/base/assert.h"
#include "config/base/text.h"

/*
 * What: the grammar of values, by type.
 *
 *   COUNT   digits                                    16
 *   BYTES   digits [KiB|MiB|GiB]                      64KiB
 *   TIME    digits (us|ms|s|min|h), or 0              50ms
 *   TIME_AUTO  the same, or auto                      auto
 *   RATIO   digits [. one to three digits]            8.5
 *   CHOICE  one of its words                          plas
 *   TEXT    printable ASCII, min .. max bytes         /run/agentix.sock
 *
 * No sign, no space inside, no exponent, no hexadecimal, no decimal fraction except in RATIO: a
 * value that can be read in two ways is refused. Every product and sum is checked.
 * Formatting is the inverse: it uses the largest unit that divides the number, so the text parses
 * to the same value.
 * No stdio and no allocation: the text port formats values after the seal.
 */

struct unit {
    const char *name;
    uint64_t scale;
};

static const struct unit bytes_units[] = {
    {"GiB", UINT64_C(1) << 30}, {"MiB", UINT64_C(1) << 20}, {"KiB", UINT64_C(1) << 10}, {"", 1}};
static const struct unit time_units[] = {
    {"h", UINT64_C(3600000000)}, {"min", 60000000}, {"s", 1000000}, {"ms", 1000}, {"us", 1}};

#define UNITS_COUNT(units) (sizeof(units) / sizeof(units)[0])

/* Reads digits at *text and moves past them. False when there are none, or more than 64 bits. */
static bool parse_digits(const char **text, uint64_t *number, const char **problem)
{
    const char *at = *text;
    uint64_t sum = 0;
    if (*at < '0' || *at > '9') {
        *problem = *at == '\0' ? "the value is empty" : "not a number";
        return false;
    }
    for (; *at >= '0' && *at <= '9'; at++) {
        if (__builtin_mul_overflow(sum, UINT64_C(10), &sum) ||
            __builtin_add_overflow(sum, (uint64_t)(*at - '0'), &sum)) {
            *problem = "the number is too large";
            return false;
        }
    }
    *text = at;
    *number = sum;
    return true;
}

static bool parse_scaled(const char *text, const struct unit *units, size_t units_count,
                         uint64_t *number, const char **problem)
{
    uint64_t digits = 0;
    if (!parse_digits(&text, &digits, problem)) {
        return false;
    }
    for (size_t i = 0; i < units_count; i++) {
        if (strcmp(text, units[i].name) == 0) {
            *problem = "the number is too large";
            return !__builtin_mul_overflow(digits, units[i].scale, number);
        }
    }
    if (*text == '\0' && digits == 0) {
        *number = 0;
        return true;
    }
    if (*text == '.') {
        *problem = "the number must be whole, with a smaller unit";
        return false;
    }
    *problem = units == time_units ? "the unit must be one of us, ms, s, min, h, without a space"
                                   : "the unit must be one of KiB, MiB, GiB, without a space";
    return false;
}

static bool parse_count(const char *text, uint64_t *number, const char **problem)
{
    if (!parse_digits(&text, number, problem)) {
        return false;
    }
    *problem = "not a plain number";
    return *text == '\0';
}

static bool parse_ratio(const char *text, uint64_t *number, const char **problem)
{
    uint64_t whole = 0, fraction = 0;
    if (!parse_digits(&text, &whole, problem)) {
        return false;
    }
    if (*text == '.') {
        const char *first = ++text;
        uint64_t scale = 1000;
        for (; *text >= '0' && *text <= '9' && scale > 1; text++) {
            scale /= 10;
            fraction += (uint64_t)(*text - '0') * scale;
        }
        if (text == first || *text != '\0') {
            *problem = "a ratio has one to three decimals";
            return false;
        }
    }
    *problem = *text == '\0' ? "the number is too large" : "not a plain decimal number";
    return *text == '\0' && !__builtin_mul_overflow(whole, UINT64_C(1000), number) &&
           !__builtin_add_overflow(*number, fraction, number);
}

static bool parse_word(const struct option_row *row, const char *text, uint64_t *number,
                       const char **problem)
{
    *problem = text[0] == '\0' ? "the value is empty" : "not one of the words";
    for (uint32_t i = 0; i < row->words_count; i++) {
        if (strcmp(row->words[i].word, text) == 0) {
            *number = row->words[i].enumerator;
            return true;
        }
    }
    return false;
}

static bool parse_text(const struct option_row *row, const char *text, const char **problem)
{
    size_t length = strlen(text);
    for (size_t i = 0; i < length; i++) {
        if (text[i] < 0x20 || text[i] > 0x7e) {
            *problem = "a byte is not printable ASCII";
            return false;
        }
    }
    *problem = length < row->min ? "too short" : "too long";
    return length >= row->min && length <= row->max && length < CONFIG_TEXT_BYTES;
}

static bool parse_programs(const char *text, uint64_t *number, const char **problem)
{
    bool is_all = strcmp(text, "off") == 0;
    *number = is_all ? OPTION_ALL : 0;
    if (is_all || strcmp(text, "auto") == 0) {
        return true;
    }
    bool is_count = parse_count(text, number, problem);
    *problem = is_count ? "out of range" : *problem;
    return is_count && *number > 0 && *number < OPTION_ALL;
}

static bool parse_number(const struct option_row *row, const char *text, uint64_t *number,
                         const char **problem)
{
    switch (row->type) {
    case OPTION_COUNT:
        return parse_count(text, number, problem);
    case OPTION_BYTES:
        return parse_scaled(text, bytes_units, UNITS_COUNT(bytes_units), number, problem);
    case OPTION_PROGRAMS:
        return parse_programs(text, number, problem);
    case OPTION_TIME_AUTO:
        *number = 0;
        return strcmp(text, "auto") == 0 ||
               parse_scaled(text, time_units, UNITS_COUNT(time_units), number, problem);
    case OPTION_TIME:
        return parse_scaled(text, time_units, UNITS_COUNT(time_units), number, problem);
    case OPTION_RATIO:
        return parse_ratio(text, number, problem);
    case OPTION_CHOICE:
        return parse_word(row, text, number, problem);
    default:
        ASSERT(row->type != OPTION_TEXT);
        return false;
    }
}

enum status config_value_parse(const struct option_row *row, const char *text,
                               struct option_value *value, const char **problem)
{
    ASSERT(row->min <= row->max);
    if (row->type == OPTION_TEXT) {
        if (!parse_text(row, text, problem)) {
            return STATUS_CONFIG_OPTION;
        }
        ASSERT(strlen(text) < sizeof value->text);
        memset(value->text, 0, sizeof value->text);
        memcpy(value->text, text, strlen(text));
        return STATUS_OK;
    }
    uint64_t number = 0;
    if (!parse_number(row, text, &number, problem)) {
        return STATUS_CONFIG_OPTION;
    }
    *problem = "out of range";
    if (number < row->min || number > row->max) {
        return STATUS_CONFIG_OPTION;
    }
    value->number = number;
    return STATUS_OK;
}

static void format_scaled(struct text *text, uint64_t number, const struct unit *units,
                          size_t units_count)
{
    size_t last = units_count - 1;
    size_t i = 0;
    ASSERT(units[last].scale == 1);
    while (i < last && (number == 0 || number % units[i].scale != 0)) {
        i++;
    }
    text_add_u64(text, number / units[i].scale);
    text_add(text, number == 0 ? "" : units[i].name);
}

static void format_word(struct text *text, const struct option_row *row, uint64_t enumerator)
{
    uint32_t i = 0;
    while (i < row->words_count && row->words[i].enumerator != enumerator) {
        i++;
    }
    ASSERT(i < row->words_count);
    text_add(text, row->words[i].word);
}

static void format_words(struct text *text, const struct option_row *row)
{
    for (uint32_t i = 0; i < row->words_count; i++) {
        text_add(text, i > 0 ? "|" : "");
        text_add(text, row->words[i].word);
    }
}

static void format_programs(struct text *text, uint64_t number)
{
    if (number == 0 || number == OPTION_ALL) {
        text_add(text, number == 0 ? "auto" : "off");
    } else {
        text_add_u64(text, number);
    }
}

static void format_number(struct text *text, const struct option_row *row, uint64_t number)
{
    switch (row->type) {
    case OPTION_BYTES:
        format_scaled(text, number, bytes_units, UNITS_COUNT(bytes_units));
        break;
    case OPTION_PROGRAMS:
        format_programs(text, number);
        break;
    case OPTION_TIME_AUTO:
        if (number == 0) {
            text_add(text, "auto");
            break;
        }
        /* fallthrough */
    case OPTION_TIME:
        format_scaled(text, number, time_units, UNITS_COUNT(time_units));
        break;
    case OPTION_RATIO:
        text_add_fixed(text, number, 3);
        break;
    case OPTION_CHOICE:
        format_word(text, row, number);
        break;
    default:
        text_add_u64(text, number);
    }
}

uint32_t config_format(const struct option_row *row, const struct option_value *value, char *bytes,
                       uint32_t max)
{
    struct text text;
    text_init(&text, bytes, max);
    if (row->type == OPTION_TEXT) {
        text_add(&text, value->text);
    } else {
        format_number(&text, row, value->number);
    }
    return text.length;
}

uint32_t config_value_range(const struct option_row *row, char *bytes, uint32_t max)
{
    struct text text;
    text_init(&text, bytes, max);
    if (row->type == OPTION_CHOICE) {
        format_words(&text, row);
        return text.length;
    }
    if (row->type == OPTION_PROGRAMS) {
        text_add(&text, "auto, off or 1 .. ");
        text_add_u64(&text, row->max - 1);
        return text.length;
    }
    format_number(&text, row, row->min);
    text_add(&text, row->type == OPTION_TIME_AUTO ? " or 1us" : "");
    text_add(&text, " .. ");
    format_number(&text, row, row->max);
    text_add(&text, row->type == OPTION_TEXT ? " bytes" : "");
    return text.length;
}
