/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the seal of the GPU worker: what a driver cannot need once everything is open, loaded and
 * has run once, ends the process. Weaker than that of core and CPU worker, which name what is
 * allowed: what a driver calls while it computes is not known without a chip (decision 0038).
 */
#include <stdbool.h>

/* False: the log says why, and the process must end. */
bool seal_gpu(void);
