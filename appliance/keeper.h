/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the keeper role: reads the weights once, forks the core and the worker, restarts a worker
 * that dies, passes SIGTERM on, and ends when the core has ended. It has no client sockets.
 */
#include "appliance/boot/boot.h"

enum boot_exit keeper_run(struct boot *boot);
