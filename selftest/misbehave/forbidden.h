/* SPDX-License-Identifier: MIT */
#pragma once
/* What: system calls, by name, that a sealed process must not survive. */

/* Returns if there is no such name, or if the call did not end the process. */
void call_that_is_not_allowed(const char *name);
