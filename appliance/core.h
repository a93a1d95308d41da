/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the core role: a sealed process with one thread that runs the loop until it is told to
 * stop. */
#include "appliance/boot/boot.h"

/* Does not return; the exit status is an enum boot_exit. */
_Noreturn void core_run(const struct boot *boot);
