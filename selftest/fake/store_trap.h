/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a look at each store to a piece of memory, before it happens: the memory is read-only, a
 * store faults, and is let through alone, by the trap flag of the processor. One at a time, in one
 * thread. Only for x86-64, and not beside sanitizers, which have handlers of their own.
 *
 * Cost: two signals for each store.
 */
#include <stdint.h>

struct store_trap {
    uint8_t *base;                  /* of a page */
    uint64_t bytes;                 /* of whole pages */
    /* Called before the store. It may disarm the trap and leave by longjmp. */
    void (*on_store)(void *context, const uint8_t *at);
    void *context;
};

void store_trap_arm(const struct store_trap *trap);
/* Does nothing where none is armed. */
void store_trap_disarm(void);
