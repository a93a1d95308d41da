/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: which stop text has ended an answer. The appliance says only that one has, and sends no
 * text of it, but the tokens: their text has it.
 */
#include "tools/door/door.h"

/* Tokens have come. */
void stop_hear(struct choice *choice, const uint32_t *tokens, uint32_t count);
/* The client's stop text that ended the answer; NULL: none of its own did. */
const char *stop_find(const struct choice *choice);
