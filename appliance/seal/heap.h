/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the process's own malloc family. It serves boot (inih, stdio, pthread_create) from a fixed
 * extent and ends the process at the first call after heap_seal(), from our code or libc's. free()
 * gives nothing back: boot is short.
 */
#include <stdint.h>

/* From here on any allocator call prints "allocation after the seal: NAME(bytes)" and ends the
 * process by SIGILL. */
void heap_seal(void);
uint64_t heap_used_bytes(void);
/* Gives back what was taken since that many bytes were used; none of it may be in use. */
void heap_rewind(uint64_t mark);
