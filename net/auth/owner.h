/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: trust domains by a name that is the same after a restart. The number of a domain of keys is
 * its place in the file of keys, which may be another one then. Only net/ includes this.
 */
#include "net/net.h"

/* A digest of the domain's name in the file of keys; of a domain without keys, its number. */
uint64_t net_owner_of(const struct net *net, uint64_t domain);
/* False: no domain has this name now. */
bool net_owner_find(const struct net *net, uint64_t owner, uint64_t *domain);
/* The domains of `keys` from now on. */
void net_owners_fill(struct net *net, const struct config_keys *keys);
