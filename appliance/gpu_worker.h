/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the worker role where the GPU serves: a program of its own (docs/decisions/0038). */
#include "appliance/boot/boot.h"

/* In a child of the keeper; writes the orders and becomes the program. */
_Noreturn void gpu_worker_run(const struct boot *boot, uint32_t epoch);
