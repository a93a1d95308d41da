/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: `agentix --upgrade` ends when the upgrade has, with its status, and the appliance goes on
 * in a child: an operator sees what became of it, and a service manager's command has an end.
 */

/* BOOT_ONLY. Returns in the child. */
void launcher_fork(void);
/* In the child: it serves. */
void launcher_tell(void);
/* In a child of that: closes what is the keeper's. */
void launcher_close(void);
