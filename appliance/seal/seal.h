/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the seal: the last act of boot in core and worker. From then on the process can get no more
 * memory, threads or rights than it has, and the kernel enforces that: a call for more ends it by
 * SIGSYS. docs/decisions/0024 says what each role may still call, and why.
 */
#include "appliance/boot/boot.h"

enum seal_role { SEAL_CORE, SEAL_WORKER, SEAL_WRITER, SEAL_ROLES };

/* Touches the stack, locks memory (memory.lock), fixes the limits of stack and descriptors, drops
 * what rights are left: once all memory is mapped. If the result is not OK, the log says why, and
 * the process must end. */
MUST_CHECK enum boot_exit seal_prepare(const struct boot *boot);
/* After that: seals the heap, loads the filter into every thread of the process. `epoll` -1: none.
 * As before, if the result is not OK. */
MUST_CHECK enum boot_exit seal_process(enum seal_role role, const struct boot *boot, int epoll);
