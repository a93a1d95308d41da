/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the seal of the GPU worker: it names the system calls that a driver cannot need once all is
 * open, loaded and has run once, and such a call ends the process. It is weaker than the seal of
 * core and CPU worker, which names what is allowed: the calls of a driver that computes are not
 * known without a chip (decision 0038).
 */
#include <stdbool.h>

/* False: the log says why, and the process must end. */
bool seal_gpu(void);
