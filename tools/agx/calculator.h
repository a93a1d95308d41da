/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the tool of the demo's ReAct loop. */
#include <stddef.h>

/* Answers whatever a model says, as "12+5*2=34": the first sum in it, from left to right; where
 * there is no number, its letters times its words. Always terminated. */
void calculator_answer(const char *said, char *answer, size_t answer_bytes);
