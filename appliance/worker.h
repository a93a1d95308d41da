/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the worker role: one engine in a process of its own, reached by the control pages. */
#include "appliance/boot/boot.h"

/* Does not return: the keeper kills it, or it ends because its engine cannot start. */
_Noreturn void worker_run(const struct boot *boot, uint32_t engine, uint32_t epoch);
