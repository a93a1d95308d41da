/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the seal: the last act of boot in core and worker. From then on the process can get no more
 * memory, threads or rights than it has, and the kernel enforces that: a call for more ends it by
 * SIGSYS. docs/decisions/0024 says what each role may still call, and why.
 */
#include "appliance/boot/boot.h"

enum seal_role { SEAL_CORE, SEAL_WORKER, SEAL_ROLES };

/* Touches the stack, locks memory (memory.lock), drops what rights are left, seals the heap, fixes
 * the limits of stack and descriptors, loads the filter into every thread of the process. `epoll`
 * -1: none. If the result is not OK, the log says why, and the process must end. */
MUST_CHECK enum boot_exit seal_process(enum seal_role role, const struct boot *boot, int epoll);
