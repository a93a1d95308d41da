/* SPDX-License-Identifier: MIT */
/*
 * What: names of trust domains (net/auth/owner.h).
 * Invariants: a name is stored and compared in full: what depends on it is another tenant's
 * answers. A file of keys has each name once (config/keys.c), so a name is one domain's, or none's.
 * Owner: the loop's thread; a reload replaces the names.
 */
#include "net/auth/owner.h"

#include <string.h>

void net_owners_fill(struct net *net, const struct config_keys *keys)
{
    memset(net->owners, 0, sizeof net->owners);
    for (uint32_t i = 0; keys != NULL && i < keys->domains_count; i++) {
        memcpy(net->owners[i], keys->domains[i], strnlen(keys->domains[i],
                                                         sizeof net->owners[i] - 1));
    }
}

struct net_owner net_owner_of(const struct net *net, uint64_t domain)
{
    struct net_owner owner = {.domain = domain};
    uint32_t account = quota_account(domain);
    if (account != QUOTA_WITHOUT_KEY) {
        owner.domain = DOMAIN_OF_KEY;
        memcpy(owner.name, net->owners[account - 1], sizeof owner.name);
    }
    return owner;
}

bool net_owner_find(const struct net *net, const struct net_owner *owner, uint64_t *domain)
{
    *domain = owner->domain;
    for (uint32_t i = 0; owner->domain == DOMAIN_OF_KEY && i < QUOTA_ACCOUNTS_MAX - 1; i++) {
        if (owner->name[0] != '\0' &&
            memcmp(net->owners[i], owner->name, sizeof owner->name) == 0) {
            *domain = DOMAIN_OF_KEY | i;
            return true;
        }
    }
    return owner->domain < DOMAIN_OF_KEY;
}
