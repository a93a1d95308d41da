/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the system calls that the keeper keeps once the core is forked, and with it every worker,
 * until that seals itself. docs/decisions/0095 says why these.
 */
#include "appliance/boot/boot.h"

/* Before a weight is read. If the result is not OK, the log says why. */
MUST_CHECK enum boot_exit seal_keeper(const struct boot *boot);
