/* SPDX-License-Identifier: MIT */
#pragma once
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

/*
 * What: `agentix --upgrade` ends when the upgrade has, with its status, and the appliance goes on
 * in a child: an operator sees what became of it, and a service manager's command has an end.
 */

/* BOOT_ONLY. Returns in the child. */
void launcher_fork(void);
/* In the child: it serves. */
void launcher_tell(void);
/* In the child, after that: it is no child of the command any more, so that a service manager may
 * take it for its own. */
bool launcher_has_ended(void);
/* In the child: the process with that id is the command, which passes on what is to end it. What it
 * has passed on lies here once it has ended; after launcher_forget() its id may be another's. */
bool launcher_is(pid_t pid);
void launcher_stops(sigset_t *stops);       /* which signals it passes on */
void launcher_forget(void);
/* In a child of that: closes what is the keeper's. */
void launcher_close(void);
