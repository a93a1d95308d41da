/* SPDX-License-Identifier: MIT */
/*
 * What: tab-separated values, line by line, in place: a cell gets no longer when its escapes go.
 */
#include "tools/agx/flow/rows.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/utf8.h"

#define NAME_BYTES_SHOWN 40                 /* of a column, in a message */

struct reader {
    struct rows *rows;
    const struct rows_names *inputs;
    char *at, *end;
    uint32_t line, room;                    /* rows that `cells` has room for */
    char *fault;
};

/* False, after a message. What a file says is shown as printable ASCII. */
static bool refuse(const struct reader *r, const char *found, const char *expected)
{
    char shown[64];
    snprintf(shown, sizeof shown, "%s", found);
    for (char *at = shown; *at != '\0'; at++) {
        *at = *at < ' ' || *at > '~' ? '?' : *at;
    }
    snprintf(r->fault, ROWS_FAULT_BYTES, "line %u: found %s, expected %.120s", (unsigned)r->line,
             shown, expected);
    return false;
}

/* The same of the name of a column. */
static bool refuse_column(const struct reader *r, const struct rows_cell *name,
                          const char *expected)
{
    char found[64], shown[NAME_BYTES_SHOWN];
    int bytes = (int)(name->bytes < NAME_BYTES_SHOWN ? name->bytes : NAME_BYTES_SHOWN);
    for (int i = 0; i < bytes; i++) {
        shown[i] = name->text[i] == '\0' ? '?' : name->text[i];
    }
    snprintf(found, sizeof found, "the column '%.*s'%s", bytes, shown,
             name->bytes > NAME_BYTES_SHOWN ? "..." : "");
    return refuse(r, found, expected);
}

/* ---- cells ----------------------------------------------------------------------------------- */

static char escaped(char byte)
{
    switch (byte) {
    case 't':
        return '\t';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    default:
        return byte == '\\' ? '\\' : '\0';
    }
}

/* The next cell of the line. False after a fault. *is_last: the line ends behind it. */
static bool take_cell(struct reader *r, struct rows_cell *cell, bool *is_last)
{
    char *out = r->at;
    cell->text = r->at;
    while (r->at < r->end && *r->at != '\t' && *r->at != '\n') {
        if (*r->at == '\\') {
            r->at++;
            char byte = r->at < r->end ? escaped(*r->at) : '\0';
            if (byte == '\0') {
                return refuse(r, "a backslash", "\\t, \\n, \\r or \\\\");
            }
            *r->at = byte;
        }
        *out++ = *r->at++;
    }
    *is_last = r->at == r->end || *r->at == '\n';
    if (*is_last && out > cell->text && out[-1] == '\r' && r->at[-1] == '\r') {
        out--;                              /* of a line that ends in both */
    }
    r->at += r->at < r->end;
    cell->bytes = (uint32_t)(out - cell->text);
    return utf8_is_valid(cell->text, cell->bytes) || refuse(r, "bytes that are no text", "UTF-8");
}

/* ---- the first line -------------------------------------------------------------------------- */

static bool is_named(const struct rows_cell *cell, const char *name)
{
    return strlen(name) == cell->bytes && memcmp(name, cell->text, cell->bytes) == 0;
}

static bool take_name(struct reader *r, const struct rows_cell *cell)
{
    struct rows *rows = r->rows;
    uint32_t input = 0;
    while (input < r->inputs->count && !is_named(cell, r->inputs->names[input])) {
        input++;
    }
    if (input == r->inputs->count) {
        return refuse_column(r, cell, "the name of an input");
    }
    for (uint32_t i = 0; i < rows->columns; i++) {
        if (rows->inputs[i] == input) {
            return refuse_column(r, cell, "each input once");
        }
    }
    rows->inputs[rows->columns++] = input;
    return true;
}

static bool take_names(struct reader *r)
{
    struct rows_cell cell;
    bool is_last = r->inputs->count == 0, is_empty = r->at == r->end;
    while (!is_last) {
        if (!take_cell(r, &cell, &is_last)) {
            return false;
        }
        if (is_last && cell.bytes == 0 && r->rows->columns == 0) {
            return refuse(r, is_empty ? "an empty file" : "an empty line",
                          "a line that names the inputs");
        }
        if (!take_name(r, &cell)) {
            return false;
        }
    }
    for (uint32_t i = 0; r->rows->columns < r->inputs->count && i < r->inputs->count; i++) {
        uint32_t at = 0;
        while (at < r->rows->columns && r->rows->inputs[at] != i) {
            at++;
        }
        if (at == r->rows->columns) {
            return refuse(r, "no column of this name", r->inputs->names[i]);
        }
    }
    return true;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static bool take_row(struct reader *r)
{
    struct rows *rows = r->rows;
    bool is_last = false;
    if (rows->count == r->room) {
        uint32_t room = 2 * r->room + 64;
        struct rows_cell *larger = realloc(rows->cells, (size_t)room * rows->columns *
                                                            sizeof *larger);
        if (larger == NULL) {
            return refuse(r, "so many rows", "more memory");
        }
        rows->cells = larger;
        r->room = room;
    }
    struct rows_cell *cells = rows->cells + (size_t)rows->count * rows->columns;
    for (uint32_t i = 0; i < rows->columns; i++) {
        if (is_last) {
            return refuse(r, "fewer cells", "one for each column");
        }
        if (!take_cell(r, &cells[rows->inputs[i]], &is_last)) {
            return false;
        }
    }
    rows->count++;
    return is_last || refuse(r, "more cells", "one for each column");
}

bool rows_parse(struct rows *rows, const struct rows_names *inputs, char *text, size_t bytes,
                char fault[ROWS_FAULT_BYTES])
{
    struct reader r = {.rows = rows, .inputs = inputs, .at = text, .end = text + bytes, .line = 1,
                       .fault = fault};
    *rows = (struct rows){.text = text, .inputs = calloc(inputs->count + 1, sizeof(uint32_t))};
    bool good = rows->inputs != NULL && take_names(&r);
    if (good && inputs->count == 0) {
        rows->count = 1;                    /* a workflow without inputs runs once */
        return true;
    }
    while (good && r.at < r.end) {
        r.line++;
        good = take_row(&r);
    }
    if (!good) {
        rows_free(rows);
    }
    return good;
}

bool rows_read(struct rows *rows, const char *path, const struct rows_names *inputs,
               char fault[ROWS_FAULT_BYTES])
{
    errno = 0;
    FILE *file = fopen(path, "rb");
    size_t room = 1 << 16, bytes = 0, got = 1;
    char *text = file != NULL ? malloc(room) : NULL;
    while (text != NULL && got > 0 && room <= ROWS_BYTES_MAX) {
        got = fread(text + bytes, 1, room - bytes, file);
        bytes += got;
        if (bytes == room) {
            room *= 2;
            char *larger = realloc(text, room);
            if (larger == NULL) {
                free(text);
            }
            text = larger;
        }
    }
    bool good = text != NULL && !ferror(file) && got == 0;
    if (file != NULL) {
        fclose(file);
    }
    if (!good) {
        snprintf(fault, ROWS_FAULT_BYTES, "cannot be read into memory: %.60s",
                 room > ROWS_BYTES_MAX ? "it is too large" : strerror(errno));
        free(text);
        return false;
    }
    return rows_parse(rows, inputs, text, bytes, fault);
}

void rows_free(struct rows *rows)
{
    free(rows->text);
    free(rows->cells);
    free(rows->inputs);
    *rows = (struct rows){0};
}
