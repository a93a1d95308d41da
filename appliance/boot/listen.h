/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the listening sockets, opened once at boot by the keeper and inherited by the core.
 * Addresses beyond loopback get this far only where a key is asked for (config_check).
 */
#include "appliance/boot/boot.h"

/* Fills boot->listeners; logs where it listens, port 0 resolved. Leaves no path when it fails. */
enum boot_exit listen_open(struct boot *boot);
/* The keeper keeps none: closes its copies. */
void listen_forget(struct boot *boot);
/* Removes the unix socket's path, unless another has taken it over. */
void listen_remove(const struct boot *boot);
