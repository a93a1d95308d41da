/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: bearer tokens, from a file (door.tokens) of lines
 *
 *     TOKEN [KEY]
 *
 * separated by blanks; `#` at the start of a line begins a comment. TOKEN has 8 to 255 printable
 * characters. KEY is an id of auth.keys: the trust domain, and the limits, of clients with this
 * token; without it they are those of the door itself. Several tokens may have the same key.
 */
#include "tools/door/door.h"

/* Fills tokens and domains, keys included. Without door.tokens there is one domain and no token. */
MUST_CHECK enum status tokens_begin(struct door *door, struct config_error *error);
