/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: pockets: pairs of sockets that the keeper makes at boot and each core inherits. A message
 * in a pair holds a handle of a connection, which the kernel keeps open until it is taken out,
 * whether the core lives or not. So a core that dies leaves its connections to its successor.
 * Owner: the core. The keeper only has them; workers close them.
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/world.h"

#define POCKETS_MAX 4096            /* two sockets of the kernel's memory for each */

struct pockets {
    int first;                      /* pocket i is the descriptors first + 2i and first + 2i + 1 */
    uint32_t count;                 /* connections in other slots die with their core */
};

/* BOOT_ONLY. As many as the system allows, up to `count`. */
void pockets_open(struct pockets *pockets, uint32_t count);
/* BOOT_ONLY. Empty ones in their places; these may have been another process's. False: errno. */
bool pockets_renew(const struct pockets *pockets);
/* In a worker. */
void pockets_forget(const struct pockets *pockets);

/* As keep(), forget() and recall() of struct world. */
bool pocket_keep(const struct pockets *pockets, int32_t handle, uint32_t index);
void pocket_forget(const struct pockets *pockets, uint32_t index);
/* BOOT_ONLY. */
int32_t pocket_recall(const struct pockets *pockets, uint32_t index, struct world_kept *kept);
