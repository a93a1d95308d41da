/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the only way to descriptor 2. A line that would have to wait, for a pipe without a reader
 * or a stopped terminal, is dropped: a log must not delay the restart of a worker, nor the end of
 * the process after an assertion.
 * Async-signal-safe, allocates nothing.
 */
#include <stdint.h>

/* At most PIPE_BUF bytes, or a pipe that counts as writable may still be too full. Returns how many
 * of them were written. */
uint32_t say_bytes(const char *bytes, uint32_t count);
void say(const char *text);
