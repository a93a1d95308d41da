/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the look-up tool of the agents: the table in their own prompt. */
#include <stddef.h>

/* Finds the row and the column of "rice price" in the prompt's lines
 *
 *     Table:
 *     rice: price 12, stock 40, weight 5
 *     Task: ...                            where the table ends
 *
 * and writes "12", or "none" if there is no such row or column. The last word names the column. The
 * answer is cut to `answer_bytes` and always terminated. */
void table_look_up(const char *prompt, const char *argument, char *answer, size_t answer_bytes);
