/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the system calls that the keeper keeps once the core is forked, and with it every worker,
 * until that seals itself. docs/decisions/0095 says why these.
 */
#include "appliance/boot/boot.h"

/* Before a weight is read. `notify` is the descriptor of the service manager's socket, -1: none. If
 * the result is not OK, the log says why. */
MUST_CHECK enum boot_exit seal_keeper(const struct boot *boot, int notify);
