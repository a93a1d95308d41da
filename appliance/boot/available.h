/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the memory that the machine and the control groups of this process have left for it. */
#include <stdint.h>

/* BOOT_ONLY. Bytes; UINT64_MAX: unknown. */
uint64_t available_bytes(void);
