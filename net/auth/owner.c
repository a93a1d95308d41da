/* SPDX-License-Identifier: MIT */
/*
 * What: names of trust domains (net/auth/owner.h).
 * Invariants: two domains have the same name only if they are the same: a digest has the highest
 * bit, which no number has; digests of two names of one file of keys that are equal name neither.
 * Owner: the loop's thread; a reload replaces the names.
 */
#include "net/auth/owner.h"

#include <string.h>

#define OF_KEYS (UINT64_C(1) << 63)

void net_owners_fill(struct net *net, const struct config_keys *keys)
{
    memset(net->owners, 0, sizeof net->owners);
    for (uint32_t i = 0; keys != NULL && i < keys->domains_count; i++) {
        uint64_t bytes = strnlen(keys->domains[i], sizeof keys->domains[i]);
        net->owners[i] = OF_KEYS | fnv_add(FNV_START, keys->domains[i], bytes);
    }
}

uint64_t net_owner_of(const struct net *net, uint64_t domain)
{
    uint64_t index = domain - DOMAIN_OF_KEY;
    return domain >= DOMAIN_OF_KEY && index < QUOTA_ACCOUNTS_MAX - 1 ? net->owners[index] : domain;
}

bool net_owner_find(const struct net *net, uint64_t owner, uint64_t *domain)
{
    uint32_t found = 0;
    *domain = owner;
    for (uint32_t i = 0; owner >= OF_KEYS && i < QUOTA_ACCOUNTS_MAX - 1; i++) {
        if (net->owners[i] == owner) {
            *domain = DOMAIN_OF_KEY | i;
            found++;
        }
    }
    return owner < DOMAIN_OF_KEY || found == 1;
}
