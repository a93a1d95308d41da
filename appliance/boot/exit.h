/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the exit statuses of every role: BOOT_EXIT_OK, BOOT_EXIT_USAGE, ... */
enum boot_exit {
#define EXIT(id, status, help) BOOT_EXIT_##id = (status),
#include "appliance/boot/exit.def"
};
