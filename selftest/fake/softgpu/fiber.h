/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: threads of control that take turns on one thread of the host. The caller gives the stack.
 * ucontext would ask the kernel at each switch; a block of threads switches a thousand times.
 */
#include <stdint.h>

struct fiber {
    void *stack_pointer;                /* while it does not run */
    uint8_t *stack;                     /* of the thread that called first: AddressSanitizer's */
    uint64_t stack_bytes;
};

/* A fiber that begins with entry() and never returns from it. What another left on the stack is
 * forgotten. */
void fiber_init(struct fiber *fiber, uint8_t *stack, uint64_t stack_bytes, void (*entry)(void));
/* The caller waits as `from`; `to` goes on where it waits. */
void fiber_switch(struct fiber *from, struct fiber *to);
/* The first thing that entry() calls; `from` is who switched to it. */
void fiber_begin(struct fiber *from);
