/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the filter between a model or a server and a terminal. Both may say anything: sequences
 * that move the cursor, set the clipboard or type answers; marks that turn the order of letters;
 * text that no eye sees. Each such character, and each piece of broken UTF-8, becomes a '.'.
 *
 * Kept: line ends, tabs, all letters and signs, the joiners of emoji and of Indic and Arabic
 * scripts, variation selectors. docs/decisions/0050 says why.
 *
 * Every word of a server or a model that agx prints passes here (tools/check).
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* One text that comes in parts: what a character lacks at the end of one comes with the next. */
struct printable {
    FILE *out;
    bool is_raw;            /* the bytes as they are: the reader is a program */
    char kept[4];           /* the beginning of a character */
    uint32_t kept_bytes;
};

/* As a terminal wants it if `out` is one, as it is otherwise. */
void printable_begin(struct printable *stream, FILE *out);
void printable_add(struct printable *stream, const char *text, size_t bytes);
/* After the last part. */
void printable_end(struct printable *stream);

/* A whole text, filtered wherever `out` leads. */
void printable_write(const char *text, FILE *out);
/* One line: line ends and tabs become blanks. The text is cut between characters to `line_bytes`,
 * with its terminator. `line` may be `text`: nothing gets longer. */
void printable_line(const char *text, char *line, size_t line_bytes);
