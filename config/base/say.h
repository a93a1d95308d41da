/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the only way to descriptor 2. What would have to wait, on a pipe that nobody reads or a
 * stopped terminal, is dropped: a log must not stop a worker's restart, nor an assertion the end.
 * Async-signal-safe, allocates nothing.
 */
#include <stdint.h>

/* At most PIPE_BUF bytes, or a pipe that counts as writable may still be too full. */
void say_bytes(const char *bytes, uint32_t count);
void say(const char *text);
