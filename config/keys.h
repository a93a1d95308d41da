/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the keys with which clients connect over TCP, from a file of lines
 *
 *     ID SECRET [DOMAIN [CALLS [WEIGHT]]] [QUOTA ...]
 *
 * separated by blanks; `#` at the start of a line begins a comment. ID and DOMAIN are names of at
 * most 31 letters, digits, dots, dashes and underscores; SECRET is 64 hexadecimal digits; CALLS is
 * how many open calls the key may have, those of workflows included; WEIGHT, 1 .. 1000, is the
 * share of its domain in the engine (1 where no key of it says another one). A QUOTA is NAME=MIN or
 * NAME=MIN..MAX, with a name of QUOTA_LIST (config/base/quota.h): what the domain has for itself of
 * a table, and what it may have at most; without one it has its share of limits.reserve, by weight.
 * Keys with the same DOMAIN are in one trust domain; a key without DOMAIN is in a domain of its own
 * name. `agx --key-file` reads the same format.
 */
#include "config/access.h"
#include "config/base/quota.h"
#include "config/config.h"

#define CONFIG_KEYS_MAX        64
#define CONFIG_KEY_NAME_BYTES  32           /* terminator included */
#define CONFIG_SECRET_BYTES    32
#define CONFIG_WEIGHT_MAX      1000
#define CONFIG_KEYS_BYTES_MAX  16384        /* largest file */

struct config_key {
    char id[CONFIG_KEY_NAME_BYTES];         /* zero-padded */
    uint8_t secret[CONFIG_SECRET_BYTES];
    uint32_t domain;                        /* index of config_keys.domains */
    uint32_t calls_max;                     /* 0: limits.calls_per_key */
};
struct config_keys {
    uint32_t count, domains_count;
    char domains[CONFIG_KEYS_MAX][CONFIG_KEY_NAME_BYTES];
    uint32_t weights[CONFIG_KEYS_MAX];      /* of domains; 0: it has no keys any more */
    struct quota_bounds quotas[CONFIG_KEYS_MAX][QUOTA_KINDS];   /* of domains; max 0: no word */
    struct config_key keys[CONFIG_KEYS_MAX];
};

/* Reads a file of mode 0600 that belongs to our user or to root and has at least one key. Messages
 * name the line and never show its text. After a refusal no secret is left in memory. BOOT_ONLY. */
MUST_CHECK enum status config_keys_load_file(struct config_keys *keys, const char *path,
                                             struct config_error *error);
/* The same from memory; `name` stands for the file in messages. The bytes stay the caller's. */
MUST_CHECK enum status config_keys_load_bytes(struct config_keys *keys, const char *name,
                                              const char *bytes, size_t count,
                                              struct config_error *error);
void config_keys_wipe(struct config_keys *keys);
/* Wipes all but the names of domains and their number. */
void config_keys_wipe_secrets(struct config_keys *keys);
/* Numbers the domains of `keys` like those of `before`, whose numbers stand for trust domains with
 * programs and KV: a domain that is gone keeps its number, a new one gets one that none has had.
 * CONFIG_OPTION: there are not so many; `keys` are then wiped. */
MUST_CHECK enum status config_keys_keep_domains(struct config_keys *keys,
                                                const struct config_keys *before,
                                                struct config_error *error);
/* Refuses minimums that are more than the limit is in all. */
MUST_CHECK enum status config_quotas_check(const struct config_keys *keys,
                                           const struct limits *limits,
                                           struct config_error *error);
/* What each account may have of each table: what `keys` say, which were checked, else a share of
 * limits.reserve, where several domains have keys. NULL: there are none. */
void config_quotas_fill(struct quotas *quotas, const struct config_keys *keys,
                        const struct limits *limits);

/* Who may come in: what a reload replaces while the appliance serves. */
struct config_admission {
    struct config_access access;
    struct config_keys keys;
};
