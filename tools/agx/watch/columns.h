/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the columns of `agx top`, in a table: their titles, their widths, the key that sorts by
 * them; and the rows in the order of one. */
#include "tools/agx/watch/snapshot.h"

enum columns_view { VIEW_PROGRAMS, VIEW_CALLS };    /* programs with their calls below, or calls */

struct columns_order {
    enum columns_view view;
    char key;                       /* that was pressed last, of columns_keys() */
};

/* True when a column is sorted by this key. */
bool columns_has_key(char key);
/* The title that this key stands for. */
const char *columns_title(char key);
/* Places of rows in the order in which they are shown: at most `rows_count`; from the heap, NULL
 * without memory. */
uint32_t *columns_sort(const struct snapshot *snapshot, const struct columns_order *order,
                       uint32_t *count);
/* The line of titles, and that of a row; each has at most `width` columns and ends with a zero. */
void columns_head(const struct columns_order *order, char *line, uint32_t width);
void columns_line(const struct columns_order *order, const struct snapshot_row *row, char *line,
                  uint32_t width);
