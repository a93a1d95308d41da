/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: declared prefixes: token ids that the operator knows many prompts to begin with, from the
 * files that prefix.1 .. prefix.8 name. Their KV is computed at boot and found by every call
 * (docs/decisions/0030). Whole KV blocks count; what is left of a file behind the last one does
 * not.
 */
#include "config/base/arena.h"
#include "config/config.h"

#define CONFIG_PREFIXES_MAX 8

struct config_prefix {
    uint32_t option;                /* prefix.1 is 0 */
    uint32_t file_tokens;           /* that the file holds */
    uint32_t tokens_count;          /* of these, in whole blocks */
    const uint32_t *tokens;         /* [tokens_count] */
};

struct config_prefixes {
    uint32_t count;
    struct config_prefix each[CONFIG_PREFIXES_MAX];
};

/* BOOT_ONLY. Reads the files through, once the limits of the model are known, and adds to these
 * what the prefixes take. Refuses what is no list of the model's token ids, and a list that fills
 * no block or leaves a call no room. */
MUST_CHECK enum status config_prefixes_measure(struct config_prefixes *prefixes,
                                               const struct options *options,
                                               struct limits *limits, struct config_error *error);
void config_prefixes_plan_memory(struct memory_plan *plan, const struct config_prefixes *prefixes);
/* BOOT_ONLY. Reads them again, to keep them. */
MUST_CHECK enum status config_prefixes_load(struct config_prefixes *prefixes,
                                            const struct options *options,
                                            const struct limits *limits, struct arena *arena,
                                            struct config_error *error);
