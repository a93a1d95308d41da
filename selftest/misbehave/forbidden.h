/* SPDX-License-Identifier: MIT */
#pragma once
/* What: system calls by name that a sealed process must not survive: for those that misbehave. */

/* Returns if it was no such name, or if nobody minded. */
void call_that_is_not_allowed(const char *name);
