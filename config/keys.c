/* SPDX-License-Identifier: MIT */
#include "config/keys.h"

#include <string.h>

#include "config/base/assert.h"
#include "config/error.h"
#include "config/file.h"

/*
 * What: the file of keys, line by line, field by field.
 * Invariants: ids are unique, and so are secrets: of two ids with one secret, neither could be
 * revoked alone. A secret is stored in the buffer of the file and in `keys`, nowhere else, and the
 * buffer is wiped.
 * Bounds: O(bytes + keys^2), at most 64 keys. BOOT_ONLY.
 * Why not INI: a key is one line, which is easy to append, to remove and to send; a section would
 * be four.
 */

struct field {
    const char *bytes;
    size_t count;
};

struct reader {
    struct config_keys *keys;
    struct config_error *error;
    const char *name;
    uint32_t line;
};

static enum status refuse(const struct reader *reader, const char *problem)
{
    return config_error_set(reader->error, "%.200s:%u: %s", reader->name, reader->line, problem);
}

/* Removes the next field from the rest of a line and returns it; empty: there is none. */
static struct field take_field(struct field *line)
{
    while (line->count > 0 && (line->bytes[0] == ' ' || line->bytes[0] == '\t')) {
        line->bytes++;
        line->count--;
    }
    struct field field = {.bytes = line->bytes};
    while (field.count < line->count && line->bytes[field.count] != ' ' &&
           line->bytes[field.count] != '\t') {
        field.count++;
    }
    line->bytes += field.count;
    line->count -= field.count;
    return field;
}

static bool is_of_name(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '.' || byte == '-' || byte == '_';
}

/* `name` is zero. */
static bool read_name(struct field field, char *name)
{
    for (size_t i = 0; i < field.count; i++) {
        if (i + 1 == CONFIG_KEY_NAME_BYTES || !is_of_name(field.bytes[i])) {
            return false;
        }
        name[i] = field.bytes[i];
    }
    return field.count > 0;
}

static int digit_of(char byte)
{
    if (byte >= '0' && byte <= '9') {
        return byte - '0';
    }
    if (byte >= 'a' && byte <= 'f') {
        return byte - 'a' + 10;
    }
    return byte >= 'A' && byte <= 'F' ? byte - 'A' + 10 : -1;
}

static bool read_secret(struct field field, uint8_t *secret)
{
    if (field.count != 2 * CONFIG_SECRET_BYTES) {
        return false;
    }
    for (size_t i = 0; i < CONFIG_SECRET_BYTES; i++) {
        int high = digit_of(field.bytes[2 * i]), low = digit_of(field.bytes[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        secret[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

/* One to seven digits, not zero. */
static bool read_number(struct field field, uint32_t *number)
{
    *number = 0;
    for (size_t i = 0; i < field.count; i++) {
        if (i == 7 || field.bytes[i] < '0' || field.bytes[i] > '9') {
            return false;
        }
        *number = *number * 10 + (uint32_t)(field.bytes[i] - '0');
    }
    return *number > 0;
}

/* Adds the domain if it is not there. CONFIG_KEYS_MAX: there is no place. */
static uint32_t domain_index(struct config_keys *keys, const char *domain)
{
    uint32_t i = 0;
    while (i < keys->domains_count && strcmp(keys->domains[i], domain) != 0) {
        i++;
    }
    if (i == keys->domains_count && i < CONFIG_KEYS_MAX) {
        memcpy(keys->domains[keys->domains_count++], domain, CONFIG_KEY_NAME_BYTES);
    }
    return i;
}

static enum status check_unique(const struct reader *reader, const struct config_key *key)
{
    for (uint32_t i = 0; i < reader->keys->count; i++) {
        const struct config_key *other = &reader->keys->keys[i];
        if (strcmp(other->id, key->id) == 0) {
            return refuse(reader, "this id has a line already");
        }
        if (memcmp(other->secret, key->secret, sizeof key->secret) == 0) {
            return refuse(reader, "this secret has an id already");
        }
    }
    return STATUS_OK;
}

/* The rest of a line. All keys of a domain that name a weight name the same one. */
static enum status read_weight(const struct reader *reader, struct field line, uint32_t *known)
{
    struct field field = take_field(&line);
    uint32_t weight = 1;
    if (field.count > 0 && (!read_number(field, &weight) || weight > CONFIG_WEIGHT_MAX)) {
        return refuse(reader, "behind the number of calls stands a weight, 1 .. 1000");
    }
    if (take_field(&line).count > 0) {
        return refuse(reader, "more than ID SECRET DOMAIN CALLS WEIGHT");
    }
    if (field.count > 0 && *known > 1 && *known != weight) {
        return refuse(reader, "a line above gives the domain another weight");
    }
    *known = weight > *known ? weight : *known;
    return STATUS_OK;
}
STATIC_ASSERT(CONFIG_WEIGHT_MAX == 1000, "the text above says 1000");

/* `key` is the entry of the table itself, so that no copy of the secret remains. */
static enum status read_key(const struct reader *reader, struct field line, struct config_key *key)
{
    char domain[CONFIG_KEY_NAME_BYTES] = {0};
    if (!read_name(take_field(&line), key->id)) {
        return refuse(reader, "an id is 1 to 31 letters, digits, dots, dashes and underscores");
    }
    if (!read_secret(take_field(&line), key->secret)) {
        return refuse(reader, "behind the id stands a secret of 64 hexadecimal digits");
    }
    struct field named = take_field(&line), calls = take_field(&line);
    memcpy(domain, key->id, sizeof domain);
    if (named.count > 0) {
        memset(domain, 0, sizeof domain);
        if (!read_name(named, domain)) {
            return refuse(reader, "a domain is 1 to 31 letters, digits, dots, dashes and "
                                  "underscores");
        }
    }
    if (calls.count > 0 && !read_number(calls, &key->calls_max)) {
        return refuse(reader, "behind the domain stands a number of open calls, 1 .. 9999999");
    }
    TRY(check_unique(reader, key));
    key->domain = domain_index(reader->keys, domain);
    return read_weight(reader, line, &reader->keys->weights[key->domain]);
}

static enum status read_line(const struct reader *reader, struct field line)
{
    struct field rest = line;
    struct field first = take_field(&rest);
    if (first.count == 0 || line.bytes[0] == '#') {
        return STATUS_OK;
    }
    if (reader->keys->count == CONFIG_KEYS_MAX) {
        return refuse(reader, "more than 64 keys");
    }
    TRY(read_key(reader, line, &reader->keys->keys[reader->keys->count]));
    reader->keys->count++;
    return STATUS_OK;
}
STATIC_ASSERT(CONFIG_KEYS_MAX == 64, "the text above says 64");

static enum status read_all(struct reader *reader, const char *bytes, size_t count)
{
    if (count > CONFIG_KEYS_BYTES_MAX) {
        return config_error_set(reader->error, "%.200s: the file is too large, at most %u bytes",
                                reader->name, CONFIG_KEYS_BYTES_MAX);
    }
    for (size_t at = 0; at < count;) {
        const char *newline = memchr(bytes + at, '\n', count - at);
        size_t length = newline != NULL ? (size_t)(newline - bytes) - at : count - at;
        reader->line++;
        TRY(read_line(reader, (struct field){bytes + at, length}));
        at += length + 1;
    }
    if (reader->keys->count == 0) {
        return config_error_set(reader->error, "%.200s: holds no key", reader->name);
    }
    return STATUS_OK;
}

enum status config_keys_load_bytes(struct config_keys *keys, const char *name, const char *bytes,
                                   size_t count, struct config_error *error)
{
    struct reader reader = {.keys = keys, .error = error, .name = name};
    memset(keys, 0, sizeof *keys);
    enum status status = read_all(&reader, bytes, count);
    if (status != STATUS_OK) {
        config_keys_wipe(keys);
    }
    return status;
}

enum status config_keys_load_file(struct config_keys *keys, const char *path,
                                  struct config_error *error)
{
    char bytes[CONFIG_KEYS_BYTES_MAX + 1];
    struct config_file_bytes file = {.bytes = bytes, .max = sizeof bytes};
    enum status status = config_file_read(path, CONFIG_FILE_SECRET, &file, error);
    if (status == STATUS_OK) {
        status = config_keys_load_bytes(keys, path, bytes, file.count, error);
    }
    explicit_bzero(bytes, sizeof bytes);
    return status;
}

void config_keys_wipe(struct config_keys *keys)
{
    explicit_bzero(keys, sizeof *keys);
}

void config_keys_wipe_secrets(struct config_keys *keys)
{
    explicit_bzero(keys->keys, sizeof keys->keys);
    keys->count = 0;
}

enum status config_keys_keep_domains(struct config_keys *keys, const struct config_keys *before,
                                     struct config_error *error)
{
    struct config_keys kept = {.domains_count = before->domains_count};
    uint32_t number_of[CONFIG_KEYS_MAX];
    memcpy(kept.domains, before->domains, sizeof kept.domains);
    for (uint32_t i = 0; i < keys->domains_count; i++) {
        number_of[i] = domain_index(&kept, keys->domains[i]);
        if (number_of[i] == CONFIG_KEYS_MAX) {
            config_keys_wipe(keys);
            return config_error_set(error, "more than 64 trust domains since the start");
        }
        kept.weights[number_of[i]] = keys->weights[i];
    }
    for (uint32_t i = 0; i < keys->count; i++) {
        keys->keys[i].domain = number_of[keys->keys[i].domain];
    }
    keys->domains_count = kept.domains_count;
    memcpy(keys->domains, kept.domains, sizeof keys->domains);
    memcpy(keys->weights, kept.weights, sizeof keys->weights);
    return STATUS_OK;
}
