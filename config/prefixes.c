/* SPDX-License-Identifier: MIT */
/*
 * What: files of token ids: decimal numbers, with blanks and line ends between them, as `agx
 * tokenize` writes them.
 * Invariant: an id is checked against the model's vocabulary before it is used.
 * Bounds: a file is read one buffer at a time, and no further than the context of a call. It is
 * read twice, first to count its ids and then to keep them, so only the arena has to hold them.
 * Why ids and not text: tokens are shared, and the last tokens of a text depend on the text that
 * follows it. Ids are exact, for BOS and control tokens too.
 */
#include "config/prefixes.h"

#include <unistd.h>

#include "config/base/assert.h"
#include "config/error.h"
#include "config/file.h"
#include "config/options.h"

#define END (-1)                    /* after the last byte, or after a failed read */

struct reader {
    const struct options *options;
    const struct option_row *row;
    const char *path;
    uint32_t vocab_tokens;
    int file;
    char bytes[4096];
    size_t count, at;
    uint64_t passed;                /* bytes of the file before these */
    int byte;                       /* the one at `at` */
    uint64_t word;                  /* where the last word begins */
    enum status status;
    struct config_error *error;
};

static const struct option_row *row_of(uint32_t option)
{
    const char key[2] = {(char)('1' + option), '\0'};
    STATIC_ASSERT(CONFIG_PREFIXES_MAX < 10, "a key is one digit");
    const struct option_row *row = config_options_find("prefix", key);
    ASSERT(row != NULL);
    return row;
}

static void look(struct reader *reader)
{
    if (reader->at == reader->count) {
        struct config_file_bytes next = {.bytes = reader->bytes, .max = sizeof reader->bytes};
        reader->passed += reader->count;
        reader->status = config_file_next(reader->file, reader->path, &next, reader->error);
        reader->at = 0;
        reader->count = next.count;
    }
    bool has_one = reader->status == STATUS_OK && reader->count > 0;
    reader->byte = has_one ? (unsigned char)reader->bytes[reader->at] : END;
}

static void pass(struct reader *reader)
{
    reader->at++;
    look(reader);
}

static bool is_between(int byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
}

static bool is_digit(int byte)
{
    return byte >= '0' && byte <= '9';
}

static void refuse(struct reader *reader, const char *problem)
{
    config_error_begin(reader->error, reader->options, reader->row);
    reader->status = config_error_add(
        reader->error, "at byte %llu: %s, allowed ids 0 .. %u with blanks between them",
        (unsigned long long)reader->word, problem, reader->vocab_tokens - 1);
}

/* Reads the next id. False at the end of the file, and after an error. */
static bool take_id(struct reader *reader, uint32_t *id)
{
    uint64_t number = 0;
    while (is_between(reader->byte)) {
        pass(reader);
    }
    if (reader->byte == END) {
        return false;
    }
    reader->word = reader->passed + reader->at;
    bool is_number = is_digit(reader->byte);
    for (; is_digit(reader->byte) && number < reader->vocab_tokens; pass(reader)) {
        number = number * 10 + (uint64_t)(reader->byte - '0');
    }
    if (number >= reader->vocab_tokens) {
        refuse(reader, "not an id of the model");
    } else if (!is_number || (reader->byte != END && !is_between(reader->byte))) {
        refuse(reader, "not a decimal number");
    }
    *id = (uint32_t)number;
    return reader->status == STATUS_OK;
}

struct ids {
    uint32_t *tokens;               /* room for `max`; NULL: they are counted only */
    uint32_t max;
};

/* The first ids of the file. */
static enum status read_ids(const struct options *options, const struct limits *limits,
                            struct config_prefix *prefix, struct ids ids,
                            struct config_error *error)
{
    struct reader reader = {.options = options, .row = row_of(prefix->option), .error = error,
                            .vocab_tokens = limits->vocab_tokens};
    uint32_t id = 0;
    reader.path = config_value(options, reader.row)->text;
    TRY(config_file_open(reader.path, CONFIG_FILE_PLAIN, &reader.file, error));
    prefix->file_tokens = 0;
    look(&reader);
    while (prefix->file_tokens < ids.max && take_id(&reader, &id)) {
        if (ids.tokens != NULL) {
            ids.tokens[prefix->file_tokens] = id;
        }
        prefix->file_tokens++;
    }
    (void)close(reader.file);
    return reader.status;
}

/* A call that begins with the prefix also has at least one token of output. */
static enum status check_length(const struct options *options, const struct limits *limits,
                                const struct config_prefix *prefix, struct config_error *error)
{
    uint32_t most = limits->context_tokens - 1;
    bool is_long = prefix->file_tokens > most;
    if (!is_long && prefix->tokens_count > 0) {
        return STATUS_OK;
    }
    config_error_begin(error, options, row_of(prefix->option));
    return config_error_add(error, "%s%u token ids, allowed kv.block_tokens = %u .. %u, with one "
                                   "token of output in limits.context_tokens",
                            is_long ? "more than " : "", is_long ? most : prefix->file_tokens,
                            limits->kv_block_tokens, most);
}

enum status config_prefixes_measure(struct config_prefixes *prefixes,
                                    const struct options *options, struct limits *limits,
                                    struct config_error *error)
{
    *prefixes = (struct config_prefixes){0};
    for (uint32_t option = 0; option < CONFIG_PREFIXES_MAX; option++) {
        struct config_prefix *prefix = &prefixes->each[prefixes->count];
        if (config_value(options, row_of(option))->text[0] == '\0') {
            continue;
        }
        prefix->option = option;
        TRY(read_ids(options, limits, prefix, (struct ids){NULL, limits->context_tokens}, error));
        prefix->tokens_count =
            prefix->file_tokens - prefix->file_tokens % limits->kv_block_tokens;
        TRY(check_length(options, limits, prefix, error));
        prefixes->count++;
    }
    config_limits_add_prefixes(limits, prefixes);
    return STATUS_OK;
}

enum status config_prefixes_fit(const struct config_prefixes *prefixes,
                                const struct options *options, struct limits *limits,
                                struct config_error *error)
{
    for (uint32_t i = 0; i < prefixes->count; i++) {
        TRY(check_length(options, limits, &prefixes->each[i], error));
    }
    config_limits_add_prefixes(limits, prefixes);
    return STATUS_OK;
}

void config_prefixes_plan_memory(struct memory_plan *plan, const struct config_prefixes *prefixes)
{
    for (uint32_t i = 0; i < prefixes->count; i++) {
        memory_plan_add(plan, MEMORY_MODEL, "prefix tokens", prefixes->each[i].tokens_count,
                 sizeof(uint32_t));
    }
}

enum status config_prefixes_load(struct config_prefixes *prefixes, const struct options *options,
                                 const struct limits *limits, struct arena *arena,
                                 struct config_error *error)
{
    for (uint32_t i = 0; i < prefixes->count; i++) {
        struct config_prefix *prefix = &prefixes->each[i];
        uint32_t *tokens = arena_take(arena, prefix->tokens_count, sizeof(uint32_t));
        uint32_t measured = prefix->file_tokens;
        TRY(read_ids(options, limits, prefix, (struct ids){tokens, prefix->tokens_count},
                     error));
        if (prefix->file_tokens < prefix->tokens_count) {
            config_error_begin(error, options, row_of(prefix->option));
            return config_error_add(error, "it has become shorter while it was read");
        }
        prefix->tokens = tokens;
        prefix->file_tokens = measured;
    }
    return STATUS_OK;
}
