/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: text of a model or a peer, made safe for a terminal: it may hold any bytes, even those that
 * move the cursor. printable_write() keeps line ends. Every other control character, and every byte
 * that is no UTF-8, becomes a '.'.
 */
#include <stddef.h>
#include <stdio.h>

void printable_write(const char *text, FILE *out);
/* One line: line ends become blanks. The text is cut between characters to `line_bytes`, with its
 * terminator. */
void printable_line(const char *text, char *line, size_t line_bytes);
