/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the system calls that are left at boot, and those that the keeper keeps once the core is
 * forked, and with it every worker until that seals itself. docs/decisions/0095 says why these.
 */
#include "appliance/boot/boot.h"

/* Before a file is read that the options name; core and keeper load their own on top. Where a GPU
 * may serve, nothing is loaded yet. If the result is not OK, the log says why. */
MUST_CHECK enum boot_exit seal_boot(const struct boot *boot);
/* Before a weight is read. If the result is not OK, the log says why. */
MUST_CHECK enum boot_exit seal_keeper(const struct boot *boot);
