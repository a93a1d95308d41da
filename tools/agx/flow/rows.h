/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: rows of inputs from a file of tab-separated values. The first line names the columns, in
 * any order; each input of the workflow has one. A cell is text; \t \n \r and \\ in it are a tab,
 * a line end, and a backslash.
 *
 * Memory: the file, and a pointer for each cell, from the heap. Bounds: ROWS_BYTES_MAX.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROWS_BYTES_MAX   (1u << 30)
#define ROWS_FAULT_BYTES 256

struct rows_cell { const char *text; uint32_t bytes; };
struct rows {
    uint32_t count, columns;
    struct rows_cell *cells;                /* [count * columns]: row, then input */
    /* private */
    char *text;
    uint32_t *inputs;                       /* [columns]: which input a column of the file is */
};

struct rows_names { const char *const *names; uint32_t count; };    /* of the inputs */

/* False: `fault` says where, what was found and what was expected; there is nothing to free. */
bool rows_read(struct rows *rows, const char *path, const struct rows_names *inputs,
               char fault[ROWS_FAULT_BYTES]);
/* The same of a text, which becomes theirs: from malloc(), with a byte more than `bytes`. */
bool rows_parse(struct rows *rows, const struct rows_names *inputs, char *text, size_t bytes,
                char fault[ROWS_FAULT_BYTES]);
void rows_free(struct rows *rows);

static inline const struct rows_cell *rows_cells(const struct rows *rows, uint32_t row)
{
    return rows->cells + (size_t)row * rows->columns;
}
