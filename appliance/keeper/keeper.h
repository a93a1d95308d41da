/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the keeper role, once the listeners are open: reads the weights once, forks the core and a
 * worker for each engine, replaces a worker that fails, passes SIGTERM on, and ends when the core
 * has ended. It has no client sockets.
 */
#include "appliance/boot/boot.h"

enum boot_exit keeper_run(struct boot *boot);
