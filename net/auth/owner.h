/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: trust domains as they are named after a restart. The number of a domain of keys is its
 * place in the file of keys, which may be another one then. Only net/ includes this.
 */
#include "net/net.h"

struct net_owner {
    uint64_t domain;                /* its number; of a domain of keys DOMAIN_OF_KEY, and */
    char name[CONFIG_KEY_NAME_BYTES];       /* its name in the file of keys; zeros after it */
};

struct net_owner net_owner_of(const struct net *net, uint64_t domain);
/* False: there is no such domain now. */
bool net_owner_find(const struct net *net, const struct net_owner *owner, uint64_t *domain);
/* The domains of `keys` from now on; NULL: there are none. */
void net_owners_fill(struct net *net, const struct config_keys *keys);
