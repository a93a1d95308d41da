/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a command line as a table of its options: name, kind, range, where the value goes, help.
 * Parsing and --help come from it. `--name VALUE` and `--name=VALUE`; `--` ends the options.
 * `--help=markdown` prints the table for tools/package, which makes manual and completion of it.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/exit_code.h"

#define ARGUMENT_TEXTS_MAX 64
#define ARGUMENT_GO_ON     (-1)

enum argument_kind {
    ARGUMENT_FLAG,            /* bool, set to true; it takes no value */
    ARGUMENT_TEXT,            /* const char * */
    ARGUMENT_TEXTS,           /* struct argument_texts; may be repeated, `max` times */
    ARGUMENT_IDS,             /* struct argument_ids: 1,2,3; may be repeated */
    ARGUMENT_CHOICE,          /* struct argument_choice: one of its words */
    ARGUMENT_U32, ARGUMENT_U64, /* decimal digits */
    ARGUMENT_RANGE,           /* struct argument_range: 1-200 */
    ARGUMENT_F32, ARGUMENT_F64,
};
struct argument_texts { const char *texts[ARGUMENT_TEXTS_MAX]; uint32_t count; };
struct argument_ids { uint32_t *ids; uint32_t count; };
struct argument_range { uint64_t first, last; };
struct argument_choice { const char *const *words; uint32_t chosen; };   /* words: NULL ends them */

struct argument {
    const char *name;       /* "--top-k" */
    const char *value_name; /* "K"; "" for a flag */
    enum argument_kind kind;
    void *value;
    double min, max;        /* of U32, F32 and F64; max of TEXTS */
    const char *help;       /* further lines after '\n' */
};
struct command_line {
    const char *program;    /* "agx": begins every message */
    const char *command;    /* "generate", where the program has several; else NULL */
    const char *elsewhere;  /* "--to ADDRESS": stands before the command; NULL: no such option */
    const char *version;    /* that --version prints; NULL: no such option */
    const char *usage;      /* the rest: "(--prompt TEXT | --ids 1,2,3) [OPTION]..." */
    const char *purpose;    /* one paragraph; NULL: none */
    const char *more;       /* what --help says after the options; NULL: nothing */
    const char **operand;   /* the one word that is no option; NULL: none is allowed */
    uint32_t *operands_count;   /* instead of `operand`: one word or more, left in argv[1], ... */
    bool operand_may_lack;  /* else `operand` is required */
    int *rest;              /* instead of `operand`: where parsing ends: the first word or argc */
    const struct argument *rows;
    uint32_t rows_count;    /* at most 64 */
};

/* ARGUMENT_GO_ON, or the exit code: 0 after --help, EXIT_USAGE after a message that names the
 * option, its value and what is allowed. */
int command_line_parse(const struct command_line *line, int argc, char **argv);
void command_line_help(const struct command_line *line, FILE *out);
/* At the end of a program: true when all of its standard output has been written. */
bool command_line_is_written(void);
/* EXIT_USAGE, after the message that the value `found` of an option is not `wanted`. */
int command_line_refuse(const struct command_line *line, const char *name, const char *found,
                        const char *wanted);
