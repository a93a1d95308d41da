/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the terminal of `agx top`: the alternate screen, keys as they are pressed, its size. It is
 * put back however the command ends, by a signal too.
 */
#include <stdbool.h>
#include <stdint.h>

/* False: standard input or output is no terminal. */
bool terminal_open(void);
void terminal_close(void);
void terminal_size(uint32_t *columns, uint32_t *lines);
/* Waits for a key, a change of the size or a signal, for so long at most. The key; 0: none. */
char terminal_key(uint32_t milliseconds);
/* True when a signal has asked the command to end. */
bool terminal_ends(void);
