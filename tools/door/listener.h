/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the socket where HTTP clients come in. The service manager may hand it over ($LISTEN_FDS,
 * as agentix-door.socket does): then it stays while the door restarts, and clients wait.
 */

/* The one at this address, handed over or new, and a line about it on standard error; -1 after a
 * message. */
int listener_open(const char *address);
