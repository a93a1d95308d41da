/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: lines of a person, or of a file, and Ctrl-C. The terminal edits lines itself (cooked mode).
 * Ctrl-C never ends the program while line_interrupted() is asked; a second one that nothing has
 * asked for does.
 */
#include <stdbool.h>
#include <stdint.h>

struct line {
    char *bytes;                    /* from the heap */
    uint32_t count, room;
    uint32_t scanned;               /* no line ends before */
    uint32_t used;                  /* bytes of the line that was returned last */
    bool at_end;
    int signals;                    /* readable after Ctrl-C */
};
enum line_kind { LINE_TEXT, LINE_INTERRUPTED, LINE_END, LINE_FAILED };

/* Takes SIGINT over; false: the system refuses. */
bool line_init(struct line *line);
/* Waits for a line of standard input: `*text`, terminated, without its line end, valid until the
 * next call. A line that ends with a backslash goes on in the next one. */
enum line_kind line_read(struct line *line, char **text);
/* True once for each Ctrl-C. */
bool line_interrupted(struct line *line);
