/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: declared prefixes: token ids with which many prompts begin, from the files that prefix.1 ..
 * prefix.8 name. Their KV is computed at boot, and every call finds it (docs/decisions/0030). Only
 * whole KV blocks count; the tokens of a file after its last whole block do not.
 */
#include "config/base/arena.h"
#include "config/config.h"

#define CONFIG_PREFIXES_MAX 8

struct config_prefix {
    uint32_t option;                /* prefix.1 is 0 */
    uint32_t file_tokens;           /* in the file */
    uint32_t tokens_count;          /* of these, those in whole blocks */
    const uint32_t *tokens;         /* [tokens_count] */
};

struct config_prefixes {
    uint32_t count;
    struct config_prefix each[CONFIG_PREFIXES_MAX];
};

/* BOOT_ONLY. Reads the files once the limits of the model are known, and adds the blocks of the
 * prefixes to the limits. Refuses a file that is no list of the model's token ids, and a list that
 * fills no block or leaves a call no room. */
MUST_CHECK enum status config_prefixes_measure(struct config_prefixes *prefixes,
                                               const struct options *options,
                                               struct limits *limits, struct config_error *error);
/* The same for limits that were derived again, with at most as much context. Reads nothing. */
MUST_CHECK enum status config_prefixes_fit(const struct config_prefixes *prefixes,
                                           const struct options *options, struct limits *limits,
                                           struct config_error *error);
void config_prefixes_plan_memory(struct memory_plan *plan, const struct config_prefixes *prefixes);
/* BOOT_ONLY. Reads the files again and keeps their ids. */
MUST_CHECK enum status config_prefixes_load(struct config_prefixes *prefixes,
                                            const struct options *options,
                                            const struct limits *limits, struct arena *arena,
                                            struct config_error *error);
