/* SPDX-License-Identifier: MIT */
#pragma once
/* What: how much memory the machine, and the control groups of this process, have left for it. */
#include <stdint.h>

/* BOOT_ONLY. Bytes; UINT64_MAX: nobody says. */
uint64_t available_bytes(void);
