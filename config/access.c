/* SPDX-License-Identifier: MIT */
#include "config/access.h"

#include <string.h>

#include "config/base/assert.h"
#include "config/error.h"
#include "config/options.h"

/*
 * What: lists of users and groups, `1000, agentix`, and the search in them; accounts.c has the
 * numbers of names, address.c lists of addresses.
 * Why root and our own user are always allowed: both can read our memory anyway.
 */

#define NAME_BYTES 33               /* terminator included */

struct list {
    const char *key, *accounts;     /* the option; the file that has the names */
};
static const struct list users = {"uids", "/etc/passwd"}, groups = {"gids", "/etc/group"};

/* Takes the next word of a list and the comma after it. False when there is none, or when it is too
 * long for a name. */
static bool take_word(const char **text, char *word)
{
    const char *at = *text;
    size_t length = 0;
    for (; *at != '\0' && *at != ',' && *at != ' ' && length + 1 < NAME_BYTES; at++) {
        word[length++] = *at;
    }
    word[length] = '\0';
    bool more = *at == ',';
    at += more;
    while (*at == ' ') {
        at++;
    }
    *text = at;
    return length > 0 && more == (*at != '\0');
}

/* A name does not begin with a digit. */
static enum status fill_id(const struct list *list, const char *word, uint32_t *id,
                           struct config_error *problem)
{
    if (word[0] < '0' || word[0] > '9') {
        struct config_account account = {.id = 0};
        enum status status = config_account_find(list->accounts, word, &account, problem);
        *id = account.id;
        return status;
    }
    return config_account_number(word, '\0', id)
               ? STATUS_OK
               : config_error_set(problem, "'%s' is no number of 32 bits; commas separate several",
                                  word);
}

/* Words of a list into `ids`; `problem` says what is wrong with the text. */
static enum status read_list(const char *text, const struct list *list, uint32_t *ids,
                             uint32_t *ids_count, struct config_error *problem)
{
    char word[NAME_BYTES];
    for (*ids_count = 0; *text != '\0'; ++*ids_count) {
        if (*ids_count == CONFIG_ACCESS_IDS_MAX || !take_word(&text, word)) {
            return config_error_set(problem, "not a list of numbers and names, allowed up to 16 "
                                             "like 1000, agentix");
        }
        TRY(fill_id(list, word, &ids[*ids_count], problem));
    }
    return STATUS_OK;
}
STATIC_ASSERT(CONFIG_ACCESS_IDS_MAX == 16, "the text above says 16");

static enum status fill_list(const struct options *options, const struct list *list, uint32_t *ids,
                             uint32_t *ids_count, struct config_error *error)
{
    const struct option_row *row = config_options_find("auth", list->key);
    struct config_error problem = {.text = ""};
    ASSERT(row != NULL && row->type == OPTION_TEXT);
    if (read_list(config_value(options, row)->text, list, ids, ids_count, &problem) == STATUS_OK) {
        return STATUS_OK;
    }
    config_error_begin(error, options, row);
    return config_error_add(error, "%s", problem.text);
}

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
    TRY(fill_list(options, &users, access->uids, &access->uids_count, error));
    TRY(fill_list(options, &groups, access->gids, &access->gids_count, error));
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

void config_access_admit(struct config_access *access, const struct config_access *now)
{
    access->uids_count = now->uids_count;
    access->gids_count = now->gids_count;
    memcpy(access->uids, now->uids, sizeof access->uids);
    memcpy(access->gids, now->gids, sizeof access->gids);
}
