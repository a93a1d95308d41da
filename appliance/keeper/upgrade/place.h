/* SPDX-License-Identifier: MIT */
#pragma once
/* What: where two keepers meet: a name in the abstract name space, made of the address at which
 * they serve. It is no file, so it needs no folder to write to, and none is left behind. Who is at
 * its other end the kernel says. */
#include <sys/types.h>
#include <sys/un.h>

#include "appliance/boot/boot.h"

/* `tcp`: the bound socket of net.tcp, for a port that was 0; -1: as the option says. Returns how
 * many bytes of it count; 0: the appliance has no address. */
uint32_t upgrade_place(struct sockaddr_un *place, const struct options *options, int tcp);
/* Process at the other end of the socket: true for one of root or of a user that this may be. */
bool upgrade_knows_peer(int socket, const struct config_user *user, pid_t *pid);
