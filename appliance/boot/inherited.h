/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: listening sockets that the service manager hands over (sd_listen_fds(3)), so that they stay
 * while the appliance restarts: clients that connect meanwhile wait. An upgrade has those of the
 * appliance before it.
 */
#include <stdint.h>
#include <sys/socket.h>

#define INHERITED_MAX 8

/* How many descriptors after standard error were handed over to this process, at most
 * INHERITED_MAX. */
uint32_t inherited_count(void);
/* The one that listens at this address, non-blocking, with this backlog; -1: none does. Port 0 is
 * that of any socket at the same address. Each is taken once. */
int inherited_take(const struct sockaddr *address, int backlog);
/* One more of them, from the appliance before this one; INHERITED_MAX in all. */
void inherited_give(int handle);
/* Closes those that were not taken, each with a line of the log. */
void inherited_close_rest(void);
