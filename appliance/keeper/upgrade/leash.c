/* SPDX-License-Identifier: MIT */
/*
 * What: a keeper's own order for its death (upgrade/leash.h).
 *
 * Invariant: only keepers have an end of it: what a core or a worker sent would end the appliance.
 * Bounds: what a pull sends is never read; a pair holds hundreds, and each has ended a process.
 */
#include "appliance/keeper/upgrade/leash.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TELLS, PULLS };

bool leash_make(int ends[2])
{
    return socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0;
}

bool leash_wear(const int ends[2])
{
    return fcntl(ends[TELLS], F_SETOWN, getpid()) == 0 &&
           fcntl(ends[TELLS], F_SETSIG, SIGKILL) == 0 &&
           fcntl(ends[TELLS], F_SETFL, O_NONBLOCK | O_ASYNC) == 0;
}

void leash_pull(const int ends[2])
{
    (void)!send(ends[PULLS], "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void leash_close(const int ends[2])
{
    close(ends[TELLS]);
    close(ends[PULLS]);
}
