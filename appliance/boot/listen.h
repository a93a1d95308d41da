/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the listening sockets, opened once at boot by the keeper and inherited by the core.
 * Addresses beyond loopback get this far only where keys are required (config_check).
 */
#include "appliance/boot/boot.h"

/* Fills boot->listeners; logs each address, with port 0 resolved. Leaves no path on failure. */
enum boot_exit listen_open(struct boot *boot);
/* In the keeper: closes its copies. */
void listen_forget(struct boot *boot);
/* The unix socket's path, if this instance has made it; else empty. */
const char *listen_path(const struct boot *boot);
/* Removes the unix socket's path, unless another instance has taken it over. */
void listen_remove(const struct boot *boot);
/* The appliance before this one has made the path, and owns it until listen_own(). */
void listen_borrow(const struct boot *boot);
void listen_own(void);
/* The appliance after this one owns it. */
void listen_disown(void);
