/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a way for the running keeper to kill the one that takes over, should that stand still while
 * its core may have kept memory. No keeper may signal another one's processes (Landlock, 0095). So
 * the new keeper asks the kernel for its own death: SIGKILL when a byte arrives at one end of a
 * pair of sockets that the old one gives it (fcntl(2), F_SETSIG). Both keepers hold both ends, so
 * that neither end closes when the old keeper ends: that is no reason to die.
 */
#include <stdbool.h>

/* BOOT_ONLY. False: errno says why. */
bool leash_make(int ends[2]);
/* BOOT_ONLY, in the new keeper: from now on a pull kills this process, and no other one. */
bool leash_wear(const int ends[2]);
/* Kills the process that was the last to wear it, if there is one. */
void leash_pull(const int ends[2]);
/* Closes both ends: first the one with the signal, so that the other one's end raises none. */
void leash_close(const int ends[2]);
