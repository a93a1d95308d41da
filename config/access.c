/* SPDX-License-Identifier: MIT */
#include "config/access.h"

#include <string.h>

#include "config/base/assert.h"
#include "config/error.h"
#include "config/options.h"

/*
 * What: lists of users and groups by number, `1000, 1001`, and the search in them;
 * address.c has those of addresses.
 * Why numbers: to look up a name reads files and may use the network, allocate and wait.
 * Why root and our own user are always allowed: both can read our memory anyway.
 */

/* Reads one number and the separator after it. False when there is no number, or when it needs more
 * than 32 bits. */
static bool take_number(const char **text, uint32_t *number)
{
    const char *at = *text;
    uint64_t value = 0;
    for (; *at >= '0' && *at <= '9' && value <= UINT32_MAX; at++) {
        value = value * 10 + (uint64_t)(*at - '0');
    }
    /* To the kernel the largest number means that no user is named. */
    if (at == *text || value >= UINT32_MAX) {
        return false;
    }
    *number = (uint32_t)value;
    bool more = *at == ',';
    at += more;
    while (*at == ' ') {
        at++;
    }
    *text = at;
    return more == (*at != '\0');
}

static enum status fill_list(const struct options *options, const char *key, uint32_t *ids,
                             uint32_t *ids_count, struct config_error *error)
{
    const struct option_row *row = config_options_find("auth", key);
    ASSERT(row != NULL && row->type == OPTION_TEXT);
    const char *text = config_value(options, row)->text;
    *ids_count = 0;
    while (*text != '\0') {
        if (*ids_count == CONFIG_ACCESS_IDS_MAX || !take_number(&text, &ids[*ids_count])) {
            config_error_begin(error, options, row);
            return config_error_add(error, "not a list of numbers, "
                                           "allowed up to 16 like 1000, 1001");
        }
        ++*ids_count;
    }
    return STATUS_OK;
}
STATIC_ASSERT(CONFIG_ACCESS_IDS_MAX == 16, "the text above says 16");

static enum status fill_peers(const struct options *options, const char *section, const char *key,
                              struct config_peers *peers, struct config_error *error)
{
    const struct option_row *row = config_options_find(section, key);
    ASSERT(row != NULL && row->type == OPTION_TEXT);
    if (config_peers_parse(config_value(options, row)->text, peers) == STATUS_OK) {
        return STATUS_OK;
    }
    config_error_begin(error, options, row);
    return config_error_add(error, "not a list of addresses and networks, allowed up to 16 like "
                                   "10.0.0.5, 10.1.0.0/16, fd00::/8, without names and ports");
}
STATIC_ASSERT(CONFIG_PEERS_MAX == 16, "the text above says 16");

enum status config_access_fill(struct config_access *access, const struct options *options,
                               uint32_t own_uid, struct config_error *error)
{
    *access = (struct config_access){
        .own_uid = own_uid,
        .tcp_needs_key = option_auth_tcp(options) == OPTION_AUTH_TCP_PSK,
    };
    TRY(fill_list(options, "uids", access->uids, &access->uids_count, error));
    TRY(fill_list(options, "gids", access->gids, &access->gids_count, error));
    TRY(fill_peers(options, "net", "proxy", &access->proxies, error));
    return fill_peers(options, "text", "peers", &access->askers, error);
}

static bool is_in(uint32_t id, const uint32_t *ids, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (ids[i] == id) {
            return true;
        }
    }
    return false;
}

bool config_access_allows(const struct config_access *access, uint32_t uid, const uint32_t *gids,
                          uint32_t gids_count)
{
    bool allowed =
        uid == 0 || uid == access->own_uid || is_in(uid, access->uids, access->uids_count);
    for (uint32_t i = 0; i < gids_count && !allowed; i++) {
        allowed = is_in(gids[i], access->gids, access->gids_count);
    }
    return allowed;
}
