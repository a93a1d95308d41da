/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: fibers that take turns on one thread of the host. The caller gives the stack. ucontext
 * would make a system call at each switch, and a thread block switches a thousand times.
 */
#include <stdint.h>

struct fiber {
    void *stack_pointer;                /* while it does not run */
    uint8_t *stack;                     /* AddressSanitizer gives that of the first caller */
    uint64_t stack_bytes;
};

/* Makes a fiber that begins with entry() and never returns from it. Earlier contents of the stack
 * are lost. */
void fiber_init(struct fiber *fiber, uint8_t *stack, uint64_t stack_bytes, void (*entry)(void));
/* The caller waits as `from`; `to` continues where it waits. */
void fiber_switch(struct fiber *from, struct fiber *to);
/* The first call of entry(); `from` is the fiber that switched to it. */
void fiber_begin(struct fiber *from);
