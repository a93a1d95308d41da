/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the options of a command as a table: name, kind, range, where the value goes, help. Parsing
 * and --help come from it. `--name VALUE` and `--name=VALUE`; `--` ends the options.
 */
#include <stdint.h>

#define OPTION_TEXTS_MAX 4
#define OPTION_GO_ON     (-1)

enum option_kind {
    OPTION_FLAG,            /* int, set to 1 */
    OPTION_TEXT,            /* const char * */
    OPTION_TEXTS,           /* struct option_texts; may be repeated */
    OPTION_IDS,             /* struct option_ids: 1,2,3; may be repeated */
    OPTION_U32, OPTION_U64, /* decimal digits */
    OPTION_F32, OPTION_F64,
};
struct option_texts { const char *texts[OPTION_TEXTS_MAX]; uint32_t count; };
struct option_ids { uint32_t *ids; uint32_t count; };

struct option_row {
    const char *name;       /* "--top-k" */
    const char *argument;   /* "K"; "" for a flag */
    enum option_kind kind;
    void *value;
    double min, max;        /* of U32, F32 and F64 */
    const char *help;
};
struct option_table {
    const char *usage;      /* "generate (--prompt TEXT | --ids 1,2,3) [OPTION]..." */
    const char *purpose;    /* one paragraph */
    const char **operand;   /* the one word that is no option, required; NULL: none is allowed */
    const struct option_row *rows;
    uint32_t rows_count;    /* at most 64 */
    uint32_t *operands_count;   /* instead of `operand`: one word or more, left in argv[1], ... */
};

/* OPTION_GO_ON, or the exit code: 0 after --help, EXIT_USAGE after a message that names the option,
 * its value and what is allowed. */
int option_parse(const struct option_table *table, int argc, char **argv);
