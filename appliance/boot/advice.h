/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the shortest command whose memory plan fits, for one that does not. Found by trying: each
 * candidate is planned as a boot would plan it.
 */
#include <stdbool.h>

#include "config/config.h"

struct boot;

#define ADVICE_BYTES 8192

/* BOOT_ONLY. Writes the command, with the file and the --set values of this one. False: no value of
 * any option that it tries makes the plan fit. `boot` stays as it is. */
bool advice_find(const struct boot *boot, char command[ADVICE_BYTES]);
/* BOOT_ONLY. The same on descriptor 2, or why there is none. */
void advice_print(const struct boot *boot);
