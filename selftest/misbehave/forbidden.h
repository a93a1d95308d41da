/* SPDX-License-Identifier: MIT */
#pragma once
/* What: system calls, by name, that a sealed process must not survive; for processes that
 * misbehave. */

/* Returns when the name is unknown, or when the call did not end the process. */
void call_that_is_not_allowed(const char *name);
