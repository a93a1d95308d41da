/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: configuration, from words to numbers: the option table (options.def) becomes struct
 * options; options and the model's header become struct limits, the counts that every stage is
 * built from.
 *
 * Errors: one line, `FILE:LINE: key = value: problem, allowed range`, in an error buffer of the
 * caller. Nothing here opens a socket or computes. Only the load functions, which are BOOT_ONLY,
 * read files.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/status.h"
#include "config/workflow/limits.h"

#define CONFIG_ERROR_BYTES     512
#define CONFIG_TEXT_BYTES      256
#define CONFIG_FILE_BYTES_MAX  65536        /* largest INI file */
#define CONFIG_LINE_BYTES_MAX  190         /* inih would cut a line at 200 bytes */

enum option_type {
    OPTION_TEXT, OPTION_COUNT, OPTION_BYTES, OPTION_TIME, OPTION_TIME_AUTO, OPTION_PROGRAMS,
    OPTION_RATIO, OPTION_CHOICE
};

struct option_value {
    char text[CONFIG_TEXT_BYTES];   /* TEXT */
    uint64_t number;                /* the others; CHOICE: the enumerator */
    uint32_t line;                  /* of the file; 0: default; UINT32_MAX: --set */
};

/* enum option_engine_kind, enum sched_policy, ...: the words of each CHOICE. */
#define CHOICE(section, key, tag, fallback, help) enum tag {
#define WORD(enumerator, word)     enumerator,
#define LAB_WORD(enumerator, word) enumerator,
#define CHOICE_END                 };
#include "config/options.def"

/* options.net_unix.text, options.limits_calls.number, ... */
struct options {
#define OPTION(section, key, type, unit, fallback, min, max, help) \
    struct option_value section##_##key;
#define CHOICE(section, key, tag, fallback, help) \
    struct { struct option_value value; } section##_##key;
#include "config/options.def"
    char source[CONFIG_TEXT_BYTES]; /* the file that was loaded, for messages; empty: none */
};

/* option_engine_kind(options), option_sched_policy(options), ...: the enumerator. */
#define CHOICE(section, key, tag, fallback, help)                                   \
    static inline enum tag option_##section##_##key(const struct options *options)  \
    {                                                                               \
        return (enum tag)options->section##_##key.value.number;                     \
    }
#include "config/options.def"

struct option_word {                /* of a CHOICE */
    const char *word;
    uint32_t enumerator;
};

/* The same list as a table, for loops. */
struct option_row {
    const char *section, *key, *unit, *default_text, *help;
    enum option_type type;
    uint64_t default_number, min, max;
    size_t offset;                  /* of its struct option_value in struct options */
    const struct option_word *words;    /* CHOICE: [words_count] */
    uint32_t words_count;
};
extern const struct option_row config_option_rows[];
extern const uint32_t config_option_rows_count;
#define CONFIG_LINE_SET UINT32_MAX          /* option_value.line of a value from --set */

static inline const struct option_value *config_value(const struct options *options,
                                                      const struct option_row *row)
{
    return (const struct option_value *)(const void *)((const char *)options + row->offset);
}

static inline struct option_value *config_value_of(struct options *options,
                                                   const struct option_row *row)
{
    return (struct option_value *)(void *)((char *)options + row->offset);
}
/* NULL: there is no such option. */
const struct option_row *config_options_find(const char *section, const char *key);

struct config_error {
    char text[CONFIG_ERROR_BYTES];
};
/* What is said of a file begins with its path. After a refusal, puts the option that names the file
 * before it. Returns `status`. */
MUST_CHECK enum status config_error_of(const char *option, enum status status,
                                       struct config_error *error);

void config_defaults(struct options *options);
/* Reads an INI file: regular, at most 64 KiB, no NUL, BOM or lone CR, no unknown or duplicate key.
 * Once after config_defaults() and before any config_set(). */
MUST_CHECK enum status config_load_file(struct options *options, const char *path,
                                        struct config_error *error);
/* The same from memory; `name` stands for the file in messages. The fuzz target's entry. */
MUST_CHECK enum status config_load_bytes(struct options *options, const char *name,
                                         const char *bytes, size_t count,
                                         struct config_error *error);
/* One `section.key=value`; overrides the file and earlier --set. */
MUST_CHECK enum status config_set(struct options *options, const char *assignment,
                                  struct config_error *error);
/* Relations between options that need no model (an address that is not loopback, block_tokens not a
 * multiple of 8, calls_per_connection above calls, deadlines in disorder ...). */
MUST_CHECK enum status config_check(const struct options *options, struct config_error *error);

/* Writers for --help, the sample INI and docs/config.md: to a stdio stream, BOOT_ONLY and tools. */
struct _IO_FILE;
void config_write_help(struct _IO_FILE *out);
void config_write_sample(struct _IO_FILE *out);
void config_write_markdown(struct _IO_FILE *out);

/* Formats one value as in an INI file ("50ms", "64KiB", "8.000"); returns the length.
 * No stdio: the text port's `config` uses it after the seal. */
uint32_t config_format(const struct option_row *row, const struct option_value *value, char *text,
                       uint32_t max);

/* Send buffer of a connection: a reply to each frame of a pass, and one token with its text. */
#define CONFIG_REPLY_BYTES 256
#define CONFIG_TOKEN_FRAME_BYTES 2048

/* The counts of everything; each is a commented sum in limits.c. */
struct limits {
    uint32_t programs, tenants, classes, calls, connections, calls_per_connection;
    uint32_t calls_per_program, calls_per_key;
    uint32_t context_tokens;        /* prompt + output of one call */
    uint32_t vocab_tokens;
    uint32_t top_logprobs;          /* alternatives that a call may ask the log probability of */
    uint32_t logprob_tokens;        /* of a call, whose log probabilities wait; 0: none may ask */
    uint32_t batch_calls;           /* rows of a step that run from its start */
    uint32_t standby_calls;         /* rows of a step beyond them */
    uint32_t steps_per_plan;
    uint32_t speculate;             /* tokens of a draft; 0: rows have none */
    uint32_t recall_tokens;         /* kept of what calls of a program, or class, have generated */
    uint32_t recalled_tokens;       /* of a row's program and class together, at most, */
    uint32_t past_tokens;           /* and with what is known of its call */
    uint32_t prefill_tokens;        /* prompt tokens of a step */
    uint32_t step_tokens;           /* prefill_tokens + one per row */
    uint32_t kv_block_tokens, blocks_per_call;
    uint32_t kv_blocks_least;       /* device blocks of calls: for one whole context, */
    uint32_t kv_blocks_busy;        /* for a full batch, */
    uint32_t kv_blocks_most;        /* and for what ended calls leave: config_limits_choose_kv() */
    uint32_t kv_host_ratio;         /* thousandths; 0: no host tier */
    uint32_t kv_blocks, kv_host_blocks;
    uint32_t kv_free_blocks;        /* where fewer are free, contents may go early (kvmem) */
    bool kv_in_streams;             /* the engine reads neighbouring KV blocks as one */
    uint32_t canary_prompt_tokens, canary_decode_steps;
    uint32_t canary_blocks;         /* device blocks beyond kv_blocks; 0: no canary */
    uint32_t prefixes;              /* declared ones: config/prefixes.h */
    uint32_t prefix_blocks;         /* of kv_blocks, those of prefixes */
    uint64_t retain_device_us, retain_host_us, retain_drop_us;  /* each at least the one before */
    uint32_t frame_bytes;           /* largest payload of a frame */
    uint32_t send_bytes;            /* send buffer of a connection */
    uint32_t frames_per_pass, bytes_per_pass;   /* of one connection */
    uint32_t preauth, preauth_per_address;      /* connections on TCP before they are admitted */
    uint32_t keys;                  /* in auth.keys at most; 0: TCP needs no key */
    uint32_t reserve_permille;      /* of connections, calls, ...: for the minimums of accounts */
    bool has_users;                 /* clients without a key: those of the unix socket */
    uint32_t commands;              /* inbox capacity */
    uint32_t engines;               /* number of them: the length of every array of engines */
    uint32_t engine_threads;        /* of each */
    uint32_t ended;                 /* calls that have ended in the event log; 0: none */
    uint32_t events;                /* entries of the event log at least; 0: none */
    uint32_t replies;               /* of ended calls, that net keeps; 0: none */
    uint32_t reply_tokens;          /* of all of them together */
    uint32_t text_slots;            /* connections of the text port */
    uint32_t text_page_bytes;       /* answer page of each */
    struct workflow_limits workflow;
};

struct config_machine {             /* what limits depend on beside options and model */
    uint32_t cpus;                  /* that the process may use */
    bool has_device;                /* the engine has memory of its own, a host tier beside it */
};

struct model_shape;                 /* config/model/gguf.h */
/* Derives the limits, with as much KV as calls could use. Refuses settings that can never work,
 * with the arithmetic: a context above the model's, KV blocks that cannot hold one call, ... */
MUST_CHECK enum status config_limits(struct limits *limits, const struct options *options,
                                     const struct model_shape *shape,
                                     const struct config_machine *machine,
                                     struct config_error *error);
struct config_prefixes;             /* config/prefixes.h */
/* Adds the blocks of declared prefixes, once these are known. */
void config_limits_add_prefixes(struct limits *limits, const struct config_prefixes *prefixes);
/* Sets the blocks of both tiers: `blocks` for calls, kv_blocks_least to kv_blocks_most. */
void config_limits_choose_kv(struct limits *limits, uint32_t blocks);

struct config_budget {              /* of a memory plan whose KV is chosen */
    uint64_t busy_bytes;            /* for up to kv_blocks_busy */
    uint64_t spare_bytes;           /* for more of them */
};
/* `available_bytes` UINT64_MAX: unknown, and then enough. */
struct config_budget config_budget(uint64_t available_bytes);
