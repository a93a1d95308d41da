/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: who may come in, of what is no secret: users and groups on the unix socket, and whether TCP
 * asks for a key. Zero: root alone on the unix socket, no key.
 */
#include "config/config.h"

#define CONFIG_ACCESS_IDS_MAX 16

struct config_access {
    uint32_t own_uid;               /* may always come in, and root may */
    uint32_t uids_count, gids_count;
    uint32_t uids[CONFIG_ACCESS_IDS_MAX], gids[CONFIG_ACCESS_IDS_MAX];
    bool tcp_needs_key;
};

/* From auth.uids, auth.gids and auth.tcp. */
MUST_CHECK enum status config_access_fill(struct config_access *access,
                                          const struct options *options, uint32_t own_uid,
                                          struct config_error *error);
/* Of a process: its user, and all its groups. */
bool config_access_allows(const struct config_access *access, uint32_t uid, const uint32_t *gids,
                          uint32_t gids_count);
