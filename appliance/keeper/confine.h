/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the step of boot between the options and all other files: it opens what takes rights, then
 * gives the rights up. docs/decisions/0088.
 */
#include "appliance/boot/boot.h"

/* Checks the options, becomes appliance.user and drops capabilities. One that `serves` listens
 * before, and gives up files and system calls after. If the result is not OK, the log says why. */
MUST_CHECK enum boot_exit confine(struct boot *boot, bool serves);
