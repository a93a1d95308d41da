/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: what a model or a peer says, made fit for a terminal: anything may come out of it, also
 * bytes that would move the cursor. Line ends stay in printable_write(); every other control, and
 * what is no UTF-8, becomes a '.'.
 */
#include <stddef.h>
#include <stdio.h>

void printable_write(const char *text, FILE *out);
/* On one line: line ends become blanks. Cut between characters to `line_bytes`, terminated. */
void printable_line(const char *text, char *line, size_t line_bytes);
