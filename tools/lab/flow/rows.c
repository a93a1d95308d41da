/* SPDX-License-Identifier: MIT */
/*
 * What: rows of a workflow's inputs: a TSV file with a head. A column has the name of an input; its
 * cells are NAME:TOKENS. The column out%, which may be left out, scales what the row's operators
 * answer, in percent of their est.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/exit_code.h"
#include "tools/lab/flow/flow.h"

#define FILE_BYTES_MAX (64u << 20)
#define COLUMNS_MAX    (WORKFLOW_INPUTS_MAX + 1)
#define PERCENT        "out%"
#define OF_PERCENT     UINT32_MAX

/* Which input each column of the file is; OF_PERCENT. */
struct columns { uint32_t inputs[COLUMNS_MAX], count; };

static int refuse(const char *path, uint32_t line, const char *problem)
{
    fprintf(stderr, "agentix-lab: %s:%u: %s\n", path, line, problem);
    return EXIT_USAGE;
}

static char *read_file(const char *path)
{
    errno = 0;
    FILE *file = fopen(path, "rb");
    char *text = file != NULL ? calloc(FILE_BYTES_MAX + 1, 1) : NULL;
    size_t count = text != NULL ? fread(text, 1, FILE_BYTES_MAX + 1, file) : 0;
    bool failed = file == NULL || ferror(file) != 0 || count > FILE_BYTES_MAX;
    if (file != NULL) {
        fclose(file);
    }
    if (failed) {
        free(text);
        return NULL;
    }
    text[count] = '\0';
    return text;
}

/* The next cell of the line at *at, which then stands behind its tab, or at the line's end. */
static struct lab_cell next_cell(char **at)
{
    struct lab_cell cell = {*at, (uint32_t)strcspn(*at, "\t\n")};
    *at += cell.count;
    *at += **at == '\t';
    return cell;
}

static bool is(struct lab_cell cell, const char *name)
{
    return strlen(name) == cell.count && memcmp(cell.bytes, name, cell.count) == 0;
}

static int read_head(char **at, const char *path, const struct lab_names *names,
                     struct columns *columns)
{
    uint32_t found = 0;
    columns->count = 0;
    while (**at != '\0' && **at != '\n') {
        struct lab_cell cell = next_cell(at);
        uint32_t input = 0;
        while (input < names->count && !is(cell, names->words[input])) {
            input++;
        }
        if ((input == names->count && !is(cell, PERCENT)) || columns->count == COLUMNS_MAX) {
            return refuse(path, 1, "a column is no input of the workflow");
        }
        found += input < names->count;
        columns->inputs[columns->count++] = input < names->count ? input : OF_PERCENT;
    }
    *at += **at == '\n';
    return found == names->count ? EXIT_COMPLETE : refuse(path, 1, "an input has no column");
}

static int read_row(struct lab_rows *rows, char **at, const char *path,
                    const struct columns *columns)
{
    uint32_t row = rows->count++;
    rows->percent[row] = 100;
    for (uint32_t i = 0; i < columns->count; i++) {
        struct lab_cell cell = next_cell(at);
        if (columns->inputs[i] == OF_PERCENT) {
            rows->percent[row] = (uint32_t)strtoul(cell.bytes, NULL, 10);
        } else if (memchr(cell.bytes, ':', cell.count) == NULL) {
            return refuse(path, row + 2, "a cell is not NAME:TOKENS");
        } else {
            rows->cells[row * rows->columns + columns->inputs[i]] = cell;
        }
    }
    if (**at != '\n' && **at != '\0') {
        return refuse(path, row + 2, "more cells than columns");
    }
    *at += **at == '\n';
    return EXIT_COMPLETE;
}

static uint32_t lines_of(const char *text)
{
    uint32_t lines = 1;
    for (; *text != '\0'; text++) {
        lines += *text == '\n';
    }
    return lines;
}

int lab_rows_load(struct lab_rows *rows, const char *path, const struct lab_names *inputs)
{
    struct columns columns;
    *rows = (struct lab_rows){.text = read_file(path), .columns = inputs->count};
    if (rows->text == NULL) {
        fprintf(stderr, "agentix-lab: %s: cannot be read: %s\n", path,
                errno != 0 ? strerror(errno) : "it is too long");
        return EXIT_USAGE;
    }
    char *at = rows->text;
    uint32_t lines = lines_of(rows->text);
    rows->cells = calloc((size_t)lines * inputs->count + 1, sizeof *rows->cells);
    rows->percent = calloc(lines, sizeof *rows->percent);
    if (rows->cells == NULL || rows->percent == NULL) {
        fprintf(stderr, "agentix-lab: out of memory\n");
        return EXIT_SYSTEM;
    }
    int code = read_head(&at, path, inputs, &columns);
    while (code == EXIT_COMPLETE && *at != '\0') {
        code = read_row(rows, &at, path, &columns);
    }
    return code == EXIT_COMPLETE && rows->count == 0 ? refuse(path, 1, "no rows") : code;
}

void lab_rows_free(struct lab_rows *rows)
{
    free(rows->text);
    free(rows->cells);
    free(rows->percent);
}
