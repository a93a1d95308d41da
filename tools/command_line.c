/* SPDX-License-Identifier: MIT */
/*
 * What: a command line by its table of options; strict: every byte of a value counts, a
 * single-valued option comes once, numbers are plain decimals in range.
 */
#include "tools/command_line.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HELP_COLUMN_MIN 22

int command_line_refuse(const struct command_line *line, const char *name, const char *found,
                        const char *wanted)
{
    fprintf(stderr, "%s: %s: '%s' is not %s\n", line->program, name, found, wanted);
    return EXIT_USAGE;
}

/* ---- values ---------------------------------------------------------------------------------- */

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

static int set_integer(const struct command_line *line, const struct argument *row,
                       const char *text)
{
    uint64_t number, max = row->kind == ARGUMENT_U32 ? (uint64_t)row->max : UINT64_MAX;
    size_t length = read_digits(text, max, &number);
    if (length == 0 || text[length] != '\0' ||
        (row->kind == ARGUMENT_U32 && number < (uint64_t)row->min)) {
        char wanted[96];
        snprintf(wanted, sizeof wanted, "a whole number from %.0f to %llu", row->min,
                 (unsigned long long)max);
        return command_line_refuse(line, row->name, text, wanted);
    }
    if (row->kind == ARGUMENT_U32) {
        *(uint32_t *)row->value = (uint32_t)number;
    } else {
        *(uint64_t *)row->value = number;
    }
    return ARGUMENT_GO_ON;
}

static int set_range(const struct command_line *line, const struct argument *row,
                     const char *text)
{
    struct argument_range *range = row->value;
    size_t first = read_digits(text, UINT64_MAX, &range->first);
    const char *rest = text + first + (text[first] == '-');
    size_t last = read_digits(rest, UINT64_MAX, &range->last);
    if (first == 0 || last == 0 || text[first] != '-' || rest[last] != '\0') {
        return command_line_refuse(line, row->name, text, "a range of whole numbers like 1-200");
    }
    return ARGUMENT_GO_ON;
}

/* strtod() also reads words, hexadecimal and leading blanks: the alphabet keeps them out. */
static int set_fraction(const struct command_line *line, const struct argument *row,
                        const char *text)
{
    char *end = NULL;
    bool plain = text[0] != '\0' && text[strspn(text, "0123456789.eE+-")] == '\0';
    double number = plain ? strtod(text, &end) : 0;
    if (!plain || *end != '\0' || !isfinite(number) || number < row->min || number > row->max) {
        char wanted[96];
        snprintf(wanted, sizeof wanted, "a number from %g to %g", row->min, row->max);
        return command_line_refuse(line, row->name, text, wanted);
    }
    if (row->kind == ARGUMENT_F32) {
        *(float *)row->value = (float)number;
    } else {
        *(double *)row->value = number;
    }
    return ARGUMENT_GO_ON;
}

static int set_ids(const struct command_line *line, const struct argument *row, const char *text)
{
    struct argument_ids *list = row->value;
    uint64_t number;
    const char *at = text;
    list->ids = realloc(list->ids, (list->count + strlen(text) + 1) * sizeof *list->ids);
    if (list->ids == NULL) {
        fprintf(stderr, "%s: out of memory\n", line->program);
        return EXIT_SYSTEM;
    }
    for (;; at++) {
        size_t length = read_digits(at, UINT32_MAX, &number);
        at += length;
        if (length == 0 || (*at != ',' && *at != '\0')) {
            return command_line_refuse(line, row->name, text, "a list of token ids like 1,2,3");
        }
        list->ids[list->count++] = (uint32_t)number;
        if (*at == '\0') {
            return ARGUMENT_GO_ON;
        }
    }
}

static int set_choice(const struct command_line *line, const struct argument *row,
                      const char *text)
{
    struct argument_choice *choice = row->value;
    char wanted[128] = "one of";
    for (uint32_t i = 0; choice->words[i] != NULL; i++) {
        size_t used = strlen(wanted);
        if (strcmp(choice->words[i], text) == 0) {
            choice->chosen = i;
            return ARGUMENT_GO_ON;
        }
        snprintf(wanted + used, sizeof wanted - used, "%s%s", i > 0 ? ", " : " ",
                 choice->words[i]);
    }
    return command_line_refuse(line, row->name, text, wanted);
}

static int add_text(const struct command_line *line, const struct argument *row,
                    const char *text)
{
    struct argument_texts *list = row->value;
    if (list->count >= ARGUMENT_TEXTS_MAX || list->count >= row->max) {
        char wanted[64];
        snprintf(wanted, sizeof wanted, "allowed: there are %u already", (unsigned)list->count);
        return command_line_refuse(line, row->name, text, wanted);
    }
    list->texts[list->count++] = text;
    return ARGUMENT_GO_ON;
}

static int set_value(const struct command_line *line, const struct argument *row,
                     const char *text)
{
    switch (row->kind) {
    case ARGUMENT_U32:
    case ARGUMENT_U64:
        return set_integer(line, row, text);
    case ARGUMENT_RANGE:
        return set_range(line, row, text);
    case ARGUMENT_F32:
    case ARGUMENT_F64:
        return set_fraction(line, row, text);
    case ARGUMENT_IDS:
        return set_ids(line, row, text);
    case ARGUMENT_CHOICE:
        return set_choice(line, row, text);
    case ARGUMENT_TEXTS:
        return add_text(line, row, text);
    default:
        *(const char **)row->value = text;
        return ARGUMENT_GO_ON;
    }
}

/* ---- help ------------------------------------------------------------------------------------ */

static void print_usage(const struct command_line *line, FILE *out)
{
    fprintf(out, "usage: %s ", line->program);
    if (line->elsewhere != NULL) {
        fprintf(out, "[%s] ", line->elsewhere);
    }
    if (line->command != NULL) {
        fprintf(out, "%s ", line->command);
    }
    fprintf(out, "%s\n", line->usage);
}

/* A row's name and argument; returns their length. */
static uint32_t row_words(const struct argument *row, char *words, uint32_t bytes)
{
    const char *blank = row->value_name[0] != '\0' ? " " : "";
    return (uint32_t)snprintf(words, bytes, "%s%s%s", row->name, blank, row->value_name);
}

void command_line_help(const struct command_line *line, FILE *out)
{
    char words[64];
    uint32_t column = HELP_COLUMN_MIN;
    for (uint32_t i = 0; i < line->rows_count; i++) {
        uint32_t length = row_words(&line->rows[i], words, sizeof words);
        column = length > column ? length : column;
    }
    print_usage(line, out);
    fprintf(out, line->purpose != NULL ? "\n%s\n\n" : "\n", line->purpose);
    for (uint32_t i = 0; i < line->rows_count; i++) {
        (void)row_words(&line->rows[i], words, sizeof words);
        for (const char *at = line->rows[i].help; at != NULL;) {
            int length = (int)strcspn(at, "\n");
            fprintf(out, "  %-*s %.*s\n", (int)column, words, length, at);
            words[0] = '\0';
            at = at[length] != '\0' ? at + length + 1 : NULL;
        }
    }
    fputs(line->more != NULL ? line->more : "", out);
}

/* ---- help for a page of the manual ----------------------------------------------------------- */

/* A bar would end the cell, and a line end the row. */
static void write_cell(const char *text, FILE *out)
{
    for (; *text != '\0'; text++) {
        fputs(*text == '|' ? "\\" : "", out);
        fputc(*text == '\n' ? ' ' : *text, out);
    }
}

static void write_allowed(const struct argument *row, FILE *out)
{
    const struct argument_choice *choice = row->value;
    if (row->kind == ARGUMENT_CHOICE) {
        for (uint32_t i = 0; choice->words[i] != NULL; i++) {
            fprintf(out, "%s`%s`", i > 0 ? ", " : "", choice->words[i]);
        }
    } else if (row->kind == ARGUMENT_U32 || row->kind == ARGUMENT_F32 ||
               row->kind == ARGUMENT_F64) {
        fprintf(out, "%.10g .. %.10g", row->min, row->max);
    }
}

/* Lines of text as a block that stays as it is. */
static void write_block(const char *text, FILE *out)
{
    for (size_t length; *text != '\0'; text += length + (text[length] == '\n')) {
        length = strcspn(text, "\n");
        fprintf(out, length > 0 ? "    %.*s\n" : "%.*s\n", (int)length, text);
    }
}

static void write_page(const struct command_line *line, FILE *out)
{
    char words[64];
    fputs("    ", out);
    print_usage(line, out);
    if (line->purpose != NULL) {
        fprintf(out, "\n%s\n", line->purpose);
    }
    fputs(line->rows_count > 0 ? "\n| option | allowed | meaning |\n|---|---|---|\n" : "", out);
    for (uint32_t i = 0; i < line->rows_count; i++) {
        (void)row_words(&line->rows[i], words, sizeof words);
        fprintf(out, "| `%s` | ", words);
        write_allowed(&line->rows[i], out);
        fputs(" | ", out);
        write_cell(line->rows[i].help, out);
        fputs(" |\n", out);
    }
    fputs("\n", out);
    write_block(line->more != NULL ? line->more : "", out);
}

/* ---- words ----------------------------------------------------------------------------------- */

/* True when the word is the option `name`, with or without "=value". `name` ends with a blank or
 * its last byte. */
static bool is_option(const char *word, const char *name)
{
    size_t length = strcspn(name, " ");
    return strcspn(word, "=") == length && memcmp(word, name, length) == 0;
}

static const struct argument *find_row(const struct command_line *line, const char *word)
{
    for (uint32_t i = 0; i < line->rows_count; i++) {
        if (is_option(word, line->rows[i].name)) {
            return &line->rows[i];
        }
    }
    return NULL;
}

static int refuse_unknown(const struct command_line *line, const char *word)
{
    const char *command = line->command != NULL ? line->command : "";
    if (line->elsewhere != NULL && is_option(word, line->elsewhere)) {
        fprintf(stderr, "%s: %.*s stands before the command: %s %s %s ...\n", line->program,
                (int)strcspn(line->elsewhere, " "), line->elsewhere, line->program,
                line->elsewhere, command);
    } else {
        fprintf(stderr, "%s: %s: no such option; see `%s%s%s --help`\n", line->program, word,
                line->program, command[0] != '\0' ? " " : "", command);
    }
    return EXIT_USAGE;
}

/* argv[*at] starts with a dash; moves *at over its value. */
static int take_option(const struct command_line *line, int argc, char **argv, int *at,
                       uint64_t *seen)
{
    const char *word = argv[*at], *equals = strchr(word, '=');
    const struct argument *row = find_row(line, word);
    if (row == NULL) {
        return refuse_unknown(line, word);
    }
    uint64_t bit = UINT64_C(1) << (row - line->rows);
    if ((*seen & bit) != 0 && row->kind != ARGUMENT_IDS && row->kind != ARGUMENT_TEXTS) {
        fprintf(stderr, "%s: %s: given twice\n", line->program, row->name);
        return EXIT_USAGE;
    }
    *seen |= bit;
    if (row->kind == ARGUMENT_FLAG) {
        *(bool *)row->value = true;
        return equals == NULL ? ARGUMENT_GO_ON
                              : command_line_refuse(line, row->name, equals + 1,
                                                    "wanted: it is a switch");
    }
    if (equals == NULL && *at + 1 == argc) {
        fprintf(stderr, "%s: %s: %s is missing\n", line->program, row->name, row->value_name);
        return EXIT_USAGE;
    }
    return set_value(line, row, equals != NULL ? equals + 1 : argv[++*at]);
}

/* argv[at] is no option. With many operands it moves to the front, over options already read. */
static int take_operand(const struct command_line *line, char **argv, int at)
{
    char *word = argv[at];
    if (line->operands_count != NULL) {
        argv[++*line->operands_count] = word;
        return ARGUMENT_GO_ON;
    }
    if (line->operand == NULL || *line->operand != NULL) {
        fprintf(stderr, "%s: '%s' is one word too many; ", line->program, word);
        print_usage(line, stderr);
        return EXIT_USAGE;
    }
    *line->operand = word;
    return ARGUMENT_GO_ON;
}

/* What asks about the program and not for its work: true when it is answered. */
static bool answer_question(const struct command_line *line, const char *word)
{
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        command_line_help(line, stdout);
    } else if (strcmp(word, "--help=markdown") == 0) {
        write_page(line, stdout);
    } else if (line->version != NULL && strcmp(word, "--version") == 0) {
        printf("%s %s\n", line->program, line->version);
    } else {
        return false;
    }
    return true;
}

int command_line_parse(const struct command_line *line, int argc, char **argv)
{
    uint64_t seen = 0;
    bool options_ended = false;
    int at = 1;
    for (; at < argc; at++) {
        int code;
        if (!options_ended && strcmp(argv[at], "--") == 0) {
            options_ended = true;
            continue;
        }
        if (!options_ended && answer_question(line, argv[at])) {
            return EXIT_COMPLETE;
        }
        if (!options_ended && argv[at][0] == '-' && argv[at][1] != '\0') {
            code = take_option(line, argc, argv, &at, &seen);
        } else if (line->rest != NULL) {
            break;
        } else {
            code = take_operand(line, argv, at);
        }
        if (code != ARGUMENT_GO_ON) {
            return code;
        }
    }
    if (line->rest != NULL) {
        *line->rest = at;
    }
    if ((line->operand != NULL && *line->operand == NULL && !line->operand_may_lack) ||
        (line->operands_count != NULL && *line->operands_count == 0)) {
        fprintf(stderr, "%s: something is missing; ", line->program);
        print_usage(line, stderr);
        return EXIT_USAGE;
    }
    return ARGUMENT_GO_ON;
}

bool command_line_is_written(void)
{
    return fflush(stdout) == 0 && ferror(stdout) == 0;
}
