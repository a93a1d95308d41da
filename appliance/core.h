/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the core role: a sealed process of one thread that runs the loop until it is to stop. */
#include "appliance/boot/boot.h"

/* Does not return; the exit status is an enum boot_exit. */
_Noreturn void core_run(const struct boot *boot);
/* The same once another core has died: until then it waits, with its memory. `core_restarts` of the
 * control page, as it was before the fork. */
_Noreturn void core_wait(const struct boot *boot, uint32_t core_restarts);
