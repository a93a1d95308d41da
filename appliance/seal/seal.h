/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the seal: the last act of boot in core and worker. From then on the process has the memory,
 * the threads and the rights that it has, and the kernel sees to it: whatever asks for more dies by
 * SIGSYS. docs/decisions/0024 says what each role may still call, and why.
 */
#include "appliance/boot/boot.h"

enum seal_role { SEAL_CORE, SEAL_WORKER, SEAL_ROLES };

/* The keeper's part, before it forks: what it and its children never need again. */
void seal_privileges(void);
/* Touches the stack, locks memory (memory.lock), ends the heap, fixes stack and descriptors at what
 * there is, loads the filter into every thread of the process. `epoll` -1: none. If it is not OK,
 * the log says why, and the process must end. */
MUST_CHECK enum boot_exit seal_process(enum seal_role role, const struct boot *boot, int epoll);
