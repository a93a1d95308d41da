/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: what becomes of a system call that the filter has stopped with SIGSYS: the log names it,
 * with its path if it has one. One that a driver may try fails with EACCES, and the driver goes on;
 * any other one ends the process by SIGSYS.
 */
#include <stdbool.h>

/* Before the filters are loaded. False: errno says why. */
bool trap_catch(void);
