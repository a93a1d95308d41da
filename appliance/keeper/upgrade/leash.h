/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: by it the running keeper ends the one that takes over, should that stand still while its
 * core may have kept memory. No keeper may signal another one's processes (Landlock, 0095). So the
 * new one asks the kernel for its own death: SIGKILL when anything comes at one end of a pair of
 * sockets that the old one gives it (fcntl(2), F_SETSIG). It has both ends, as the old one has, for
 * the end of that closes neither, and is no reason to die.
 */
#include <stdbool.h>

/* BOOT_ONLY. False: errno says why. */
bool leash_make(int ends[2]);
/* BOOT_ONLY, in the new one: from now on a pull ends this process, and no other one any more. */
bool leash_wear(const int ends[2]);
/* Ends the process that wears it last, if there is one. */
void leash_pull(const int ends[2]);
/* The end that tells first: while it is open, so is the other one, and says nothing. */
void leash_close(const int ends[2]);
