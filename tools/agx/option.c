/* SPDX-License-Identifier: MIT */
/*
 * What: a command line by its table of options; strict: every byte of a value counts, a
 * single-valued option comes once, numbers are plain decimals in range.
 */
#include "tools/agx/option.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/agx/command.h"

static int complain(const struct option_row *row, const char *found, const char *wanted)
{
    fprintf(stderr, "agx: %s: '%s' is not %s\n", row->name, found, wanted);
    return EXIT_USAGE;
}

/* Digits alone; the number of bytes read, 0 if there is none or it is above `max`. */
static size_t read_digits(const char *text, uint64_t max, uint64_t *number)
{
    size_t length = 0;
    *number = 0;
    for (; text[length] >= '0' && text[length] <= '9'; length++) {
        uint64_t digit = (uint64_t)(text[length] - '0');
        if (digit > max || *number > (max - digit) / 10) {
            return 0;
        }
        *number = *number * 10 + digit;
    }
    return length;
}

static int set_integer(const struct option_row *row, const char *text)
{
    uint64_t number, max = row->kind == OPTION_U32 ? (uint64_t)row->max : UINT64_MAX;
    size_t length = read_digits(text, max, &number);
    if (length == 0 || text[length] != '\0' ||
        (row->kind == OPTION_U32 && number < (uint64_t)row->min)) {
        char wanted[96];
        snprintf(wanted, sizeof wanted, "a whole number from %.0f to %llu", row->min,
                 (unsigned long long)max);
        return complain(row, text, wanted);
    }
    if (row->kind == OPTION_U32) {
        *(uint32_t *)row->value = (uint32_t)number;
    } else {
        *(uint64_t *)row->value = number;
    }
    return OPTION_GO_ON;
}

/* strtod() also reads words, hexadecimal and leading blanks: the alphabet keeps them out. */
static int set_fraction(const struct option_row *row, const char *text)
{
    char *end = NULL;
    bool plain = text[0] != '\0' && text[strspn(text, "0123456789.eE+-")] == '\0';
    double number = plain ? strtod(text, &end) : 0;
    if (!plain || *end != '\0' || !isfinite(number) || number < row->min || number > row->max) {
        char wanted[96];
        snprintf(wanted, sizeof wanted, "a number from %g to %g", row->min, row->max);
        return complain(row, text, wanted);
    }
    if (row->kind == OPTION_F32) {
        *(float *)row->value = (float)number;
    } else {
        *(double *)row->value = number;
    }
    return OPTION_GO_ON;
}

static int set_ids(const struct option_row *row, const char *text)
{
    struct option_ids *list = row->value;
    uint64_t number;
    const char *at = text;
    list->ids = realloc(list->ids, (list->count + strlen(text) + 1) * sizeof *list->ids);
    if (list->ids == NULL) {
        fprintf(stderr, "agx: out of memory\n");
        return EXIT_SYSTEM;
    }
    for (;; at++) {
        size_t length = read_digits(at, UINT32_MAX, &number);
        at += length;
        if (length == 0 || (*at != ',' && *at != '\0')) {
            return complain(row, text, "a list of token ids like 1,2,3");
        }
        list->ids[list->count++] = (uint32_t)number;
        if (*at == '\0') {
            return OPTION_GO_ON;
        }
    }
}

static int set_text(const struct option_row *row, const char *text)
{
    struct option_texts *list = row->value;
    if (row->kind == OPTION_TEXT) {
        *(const char **)row->value = text;
        return OPTION_GO_ON;
    }
    if (list->count == OPTION_TEXTS_MAX) {
        return complain(row, text, "allowed: there are four already");
    }
    list->texts[list->count++] = text;
    return OPTION_GO_ON;
}

static int set_value(const struct option_row *row, const char *text)
{
    switch (row->kind) {
    case OPTION_U32:
    case OPTION_U64:
        return set_integer(row, text);
    case OPTION_F32:
    case OPTION_F64:
        return set_fraction(row, text);
    case OPTION_IDS:
        return set_ids(row, text);
    default:
        return set_text(row, text);
    }
}

static int print_help(const struct option_table *table)
{
    printf("usage: agx [--to ADDRESS] %s\n\n%s\n\n", table->usage, table->purpose);
    for (uint32_t i = 0; i < table->rows_count; i++) {
        const struct option_row *row = &table->rows[i];
        char left[40];
        snprintf(left, sizeof left, "%s %s", row->name, row->argument);
        printf("  %-22s %s\n", left, row->help);
    }
    return EXIT_COMPLETE;
}

/* The row that `word` names, with or without "=value". */
static const struct option_row *find_row(const struct option_table *table, const char *word)
{
    size_t length = strcspn(word, "=");
    for (uint32_t i = 0; i < table->rows_count; i++) {
        const struct option_row *row = &table->rows[i];
        if (strlen(row->name) == length && memcmp(row->name, word, length) == 0) {
            return row;
        }
    }
    return NULL;
}

static int refuse_unknown(const char *word, const char *command)
{
    if (strncmp(word, "--to", 4) == 0) {
        fprintf(stderr, "agx: --to stands before the command: agx --to ADDRESS %s ...\n", command);
    } else {
        fprintf(stderr, "agx: %s: no such option; see `agx %s --help`\n", word, command);
    }
    return EXIT_USAGE;
}

/* argv[*at] starts with a dash; moves *at over its value. */
static int take_option(const struct option_table *table, int argc, char **argv, int *at,
                       uint64_t *seen)
{
    const char *word = argv[*at], *equals = strchr(word, '=');
    const struct option_row *row = find_row(table, word);
    if (row == NULL) {
        return refuse_unknown(word, argv[0]);
    }
    uint64_t bit = UINT64_C(1) << (row - table->rows);
    if ((*seen & bit) != 0 && row->kind != OPTION_IDS && row->kind != OPTION_TEXTS) {
        fprintf(stderr, "agx: %s: given twice\n", row->name);
        return EXIT_USAGE;
    }
    *seen |= bit;
    if (row->kind == OPTION_FLAG) {
        *(int *)row->value = 1;
        return equals == NULL ? OPTION_GO_ON : complain(row, equals + 1, "wanted: it is a switch");
    }
    if (equals == NULL && *at + 1 == argc) {
        fprintf(stderr, "agx: %s: %s is missing\n", row->name, row->argument);
        return EXIT_USAGE;
    }
    return set_value(row, equals != NULL ? equals + 1 : argv[++*at]);
}

/* argv[at] is no option. With many operands it moves to the front, over options already read. */
static int take_operand(const struct option_table *table, char **argv, int at)
{
    char *word = argv[at];
    if (table->operands_count != NULL) {
        argv[++*table->operands_count] = word;
        return OPTION_GO_ON;
    }
    if (table->operand == NULL || *table->operand != NULL) {
        fprintf(stderr, "agx: '%s' is one word too many; usage: agx %s\n", word, table->usage);
        return EXIT_USAGE;
    }
    *table->operand = word;
    return OPTION_GO_ON;
}

int option_parse(const struct option_table *table, int argc, char **argv)
{
    uint64_t seen = 0;
    bool options_ended = false;
    for (int at = 1; at < argc; at++) {
        int code;
        if (!options_ended && strcmp(argv[at], "--") == 0) {
            options_ended = true;
            continue;
        }
        if (!options_ended && strcmp(argv[at], "--help") == 0) {
            return print_help(table);
        }
        if (!options_ended && argv[at][0] == '-' && argv[at][1] != '\0') {
            code = take_option(table, argc, argv, &at, &seen);
        } else {
            code = take_operand(table, argv, at);
        }
        if (code != OPTION_GO_ON) {
            return code;
        }
    }
    if ((table->operand != NULL && *table->operand == NULL) ||
        (table->operands_count != NULL && *table->operands_count == 0)) {
        fprintf(stderr, "agx: something is missing; usage: agx %s\n", table->usage);
        return EXIT_USAGE;
    }
    return OPTION_GO_ON;
}
