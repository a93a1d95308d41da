/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: names of trust domains that hold across a restart. The number of a domain of keys does not:
 * it is the domain's place in the file of keys. Only net/ includes this.
 */
#include "net/net.h"

struct net_owner {
    uint64_t domain;                /* its number; of a domain of keys DOMAIN_OF_KEY, and */
    char name[CONFIG_KEY_NAME_BYTES];       /* its name in the file of keys; zeros after it */
};

struct net_owner net_owner_of(const struct net *net, uint64_t domain);
/* False: there is no such domain now. */
bool net_owner_find(const struct net *net, const struct net_owner *owner, uint64_t *domain);
/* Sets the domains to those of `keys`; NULL: there are none. */
void net_owners_fill(struct net *net, const struct config_keys *keys);
