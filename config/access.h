/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the part of access control that is no secret: users and groups of the unix socket, whether
 * TCP needs a key, load balancers, who may ask the text port, and whom the appliance becomes. All
 * zero: root alone on the unix socket, no key on TCP, no load balancer, a text port for loopback
 * alone.
 */
#include "config/config.h"
#include "config/address.h"

#define CONFIG_ACCESS_IDS_MAX 16

struct config_access {
    uint32_t own_uid;               /* always allowed, as root is */
    uint32_t uids_count, gids_count;
    uint32_t uids[CONFIG_ACCESS_IDS_MAX], gids[CONFIG_ACCESS_IDS_MAX];
    bool tcp_needs_key;
    struct config_peers proxies;    /* of net.tcp */
    struct config_peers askers;     /* of the text port, beyond loopback */
};

/* From auth.uids, auth.gids, auth.tcp, net.proxy and text.peers. */
MUST_CHECK enum status config_access_fill(struct config_access *access,
                                          const struct options *options, uint32_t own_uid,
                                          struct config_error *error);
/* Of `now` whatever a reload takes up: users and groups. The rest takes a restart. */
void config_access_admit(struct config_access *access, const struct config_access *now);

#define CONFIG_NO_GROUP UINT32_MAX

struct config_account {
    uint32_t id;                    /* of the user or group */
    uint32_t gid;                   /* group of a user; CONFIG_NO_GROUP: the line has none */
};
/* The numbers of a name in `path`, which is /etc/passwd or /etc/group; for access.c.
 * BOOT_ONLY. */
MUST_CHECK enum status config_account_find(const char *path, const char *name,
                                           struct config_account *account,
                                           struct config_error *error);
/* True when decimal digits up to `end` are the number of a user or group; for access.c. */
bool config_account_number(const char *text, char end, uint32_t *number);

struct config_user {                /* that the appliance becomes */
    bool is_named;                  /* false: it stays who it is */
    uint32_t uid, gid;
};
/* From appliance.user. A name stands in /etc/passwd or /etc/group; a number needs a group beside
 * it, and root is refused. BOOT_ONLY. */
MUST_CHECK enum status config_user_fill(struct config_user *user, const struct options *options,
                                        struct config_error *error);

/* True when a process of this user and these groups may connect. */
bool config_access_allows(const struct config_access *access, uint32_t uid, const uint32_t *gids,
                          uint32_t gids_count);
