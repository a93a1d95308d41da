/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the worker role: the engine in a process of its own, behind the control page. */
#include "appliance/boot/boot.h"

/* Does not return: it is killed by the keeper, or ends when the engine cannot start. */
_Noreturn void worker_run(const struct boot *boot, uint32_t epoch);
