/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the calculator of the agents: whole numbers, + - * /, the usual precedence. */
#include <stddef.h>

/* Writes the value of `sum` ("3*12+7"), or "error" if it is no sum, overflows int64_t or divides by
 * zero. Division rounds towards minus infinity. The answer is cut to `answer_bytes` and always
 * terminated. */
void calculator_answer(const char *sum, char *answer, size_t answer_bytes);
