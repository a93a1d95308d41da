/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: what a process gives up for ever: its user, its capabilities, any way to new ones, and that
 * others of its user look into it. docs/decisions/0088 says when each process does so.
 */
#include "config/access.h"

/* Before the first file is read that others may have written: raises the limits of locked memory
 * and descriptors while it may, becomes the user, drops capabilities. It keeps CAP_IPC_LOCK where
 * memory could not be locked without (rights_drop() ends that). */
MUST_CHECK enum status rights_confine(const struct config_user *user, uint64_t descriptors,
                                      struct config_error *error);
/* Drops every capability of the calling thread, and all that could give it one. If the result is
 * not OK, errno says why. */
MUST_CHECK enum status rights_drop(void);
