/* SPDX-License-Identifier: MIT */
#include "tools/agx/agents/table.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/*
 * What: rows and columns of a table in text, found anew at each look-up. Of equal names the first
 * counts. Linear in the prompt.
 */

/* True when the text at `at` begins with these bytes; then moves `at` past them. */
static bool skip(const char **at, const char *word, size_t bytes)
{
    if (strncmp(*at, word, bytes) != 0) {
        return false;
    }
    *at += bytes;
    return true;
}

/* The start of the next line; NULL: this is the last one. */
static const char *next_line(const char *at)
{
    const char *end = strchr(at, '\n');
    return end != NULL ? end + 1 : NULL;
}

/* The cells of the row with this name; NULL: none. */
static const char *find_row(const char *prompt, const char *name, size_t name_bytes)
{
    bool in_table = false;
    for (const char *line = prompt; line != NULL; line = next_line(line)) {
        const char *at = line;
        if (strncmp(line, "Table:\n", 7) == 0) {
            in_table = true;
        } else if (strncmp(line, "Task:", 5) == 0) {
            in_table = false;
        } else if (in_table && skip(&at, name, name_bytes) && skip(&at, ": ", 2)) {
            return at;
        }
    }
    return NULL;
}

/* "price 12, stock 40": the value in the column; NULL: none. `value_bytes` is its length. */
static const char *find_cell(const char *cells, const char *column, size_t column_bytes,
                             size_t *value_bytes)
{
    for (const char *at = cells; at != NULL;) {
        size_t bytes = strcspn(at, ",\n");
        const char *value = at;
        if (bytes > column_bytes && skip(&value, column, column_bytes) && skip(&value, " ", 1)) {
            *value_bytes = bytes - column_bytes - 1;
            return value;
        }
        at += bytes;
        at = skip(&at, ", ", 2) ? at : NULL;
    }
    return NULL;
}

void table_look_up(const char *prompt, const char *argument, char *answer, size_t answer_bytes)
{
    const char *blank = strrchr(argument, ' ');
    const char *value = NULL;
    size_t value_bytes = 0;
    if (blank != NULL && blank > argument && blank[1] != '\0') {
        const char *row = find_row(prompt, argument, (size_t)(blank - argument));
        value = row != NULL ? find_cell(row, blank + 1, strlen(blank + 1), &value_bytes) : NULL;
    }
    if (value == NULL || value_bytes == 0) {
        snprintf(answer, answer_bytes, "none");
    } else {
        snprintf(answer, answer_bytes, "%.*s", (int)value_bytes, value);
    }
}
