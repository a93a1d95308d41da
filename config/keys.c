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

/* All keys of a domain that name a weight name the same one. 0: none has yet. */
static enum status read_weight(const struct reader *reader, struct field field, uint32_t *known)
{
    uint32_t weight = 0;
    if (field.count == 0) {
        return STATUS_OK;
    }
    if (!read_number(field, &weight) || weight > CONFIG_WEIGHT_MAX) {
        return refuse(reader, "behind the number of calls stands a weight, 1 .. 1000");
    }
    if (*known != 0 && *known != weight) {
        return refuse(reader, "a line above gives the domain another weight");
    }
    *known = weight;
    return STATUS_OK;
}
STATIC_ASSERT(CONFIG_WEIGHT_MAX == 1000, "the text above says 1000");
STATIC_ASSERT(CONFIG_KEYS_MAX == QUOTA_ACCOUNTS_MAX - 1, "an account for each domain");

/* ---- quotas ---------------------------------------------------------------------------------- */

static const char *const quota_names[] = {
#define QUOTA(kind, name, what) name,
    QUOTA_LIST(QUOTA)
#undef QUOTA
};

/* The field up to `end`; what is after it stays in the field. False: there is no `end`. */
static bool cut(struct field *field, const char *end, struct field *before)
{
    size_t bytes = strlen(end);
    *before = (struct field){.bytes = field->bytes};
    while (before->count + bytes <= field->count) {
        if (memcmp(field->bytes + before->count, end, bytes) == 0) {
            field->bytes += before->count + bytes;
            field->count -= before->count + bytes;
            return true;
        }
        before->count++;
    }
    return false;
}

/* QUOTA_KINDS: no table has this name. */
static enum quota_kind kind_of(struct field name)
{
    uint32_t kind = 0;
    while (kind < QUOTA_KINDS && (strlen(quota_names[kind]) != name.count ||
                                  memcmp(quota_names[kind], name.bytes, name.count) != 0)) {
        kind++;
    }
    return (enum quota_kind)kind;
}

static bool read_minimum(struct field field, uint32_t *number)
{
    *number = 0;
    return (field.count == 1 && field.bytes[0] == '0') || read_number(field, number);
}

/* MIN or MIN..MAX. */
static bool read_bounds(struct field field, struct quota_bounds *bounds)
{
    struct field min;
    if (!cut(&field, "..", &min)) {
        bounds->max = UINT32_MAX;
        return read_minimum(field, &bounds->min);
    }
    return read_minimum(min, &bounds->min) && read_number(field, &bounds->max) &&
           bounds->min <= bounds->max;
}

/* The rest of a line. All keys of a domain that name a quota name the same one. */
static enum status read_quotas(const struct reader *reader, struct field line,
                               struct quota_bounds known[QUOTA_KINDS])
{
    struct field field, name;
    for (field = take_field(&line); field.count > 0; field = take_field(&line)) {
        struct quota_bounds bounds;
        if (!cut(&field, "=", &name)) {
            return refuse(reader, "more than ID SECRET DOMAIN CALLS WEIGHT QUOTA ...");
        }
        enum quota_kind kind = kind_of(name);
        if (kind == QUOTA_KINDS || !read_bounds(field, &bounds) ||
            (kind == QUOTA_KV_BLOCKS && bounds.max != UINT32_MAX)) {
            return refuse(reader, "a quota is NAME=MIN or NAME=MIN..MAX, with connections, calls, "
                                  "programs, replies, reply_tokens or workflows as the name, MIN "
                                  "from 0, MAX from 1 on, MIN <= MAX <= 9999999, or "
                                  "kv_blocks=MIN");
        }
        if (known[kind].max != 0 && memcmp(&known[kind], &bounds, sizeof bounds) != 0) {
            return refuse(reader, "the domain has another quota of this name already");
        }
        known[kind] = bounds;
    }
    return STATUS_OK;
}

/* The next field, unless quotas begin there. */
static struct field take_positional(struct field *line)
{
    struct field rest = *line;
    struct field field = take_field(&rest), of = field, name;
    if (cut(&of, "=", &name)) {
        return (struct field){.bytes = field.bytes};
    }
    *line = rest;
    return field;
}

/* ---- a line ---------------------------------------------------------------------------------- */

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
    struct field named = take_positional(&line), calls = take_positional(&line);
    struct field weight = take_positional(&line);
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
    TRY(read_weight(reader, weight, &reader->keys->weights[key->domain]));
    return read_quotas(reader, line, reader->keys->quotas[key->domain]);
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

/* As Windows ends lines. */
static size_t without_return(const char *line, size_t length)
{
    return length > 0 && line[length - 1] == '\r' ? length - 1 : length;
}

static void weigh_others(struct config_keys *keys)
{
    for (uint32_t i = 0; i < keys->domains_count; i++) {
        keys->weights[i] = keys->weights[i] == 0 ? 1 : keys->weights[i];
    }
}

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
        TRY(read_line(reader, (struct field){bytes + at, without_return(bytes + at, length)}));
        at += length + 1;
    }
    if (reader->keys->count == 0) {
        return config_error_set(reader->error, "%.200s: holds no key", reader->name);
    }
    weigh_others(reader->keys);
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
        memcpy(kept.quotas[number_of[i]], keys->quotas[i], sizeof keys->quotas[i]);
    }
    for (uint32_t i = 0; i < keys->count; i++) {
        keys->keys[i].domain = number_of[keys->keys[i].domain];
    }
    keys->domains_count = kept.domains_count;
    memcpy(keys->domains, kept.domains, sizeof keys->domains);
    memcpy(keys->weights, kept.weights, sizeof keys->weights);
    memcpy(keys->quotas, kept.quotas, sizeof keys->quotas);
    return STATUS_OK;
}

/* ---- what accounts may have ------------------------------------------------------------------ */

static const char *const totals_names[QUOTA_KINDS] = {
    "limits.connections", "limits.calls", "limits.programs", "limits.replies",
    "limits.reply_tokens", "workflow.workflows", "kv.device_blocks",
};

/* Where there are minimums, connections that have authenticated leave their places to those that
 * have not: else a full table would keep out a client who has his minimum to come. */
static uint32_t total_of(const struct limits *limits, enum quota_kind kind, bool has_minimums)
{
    uint32_t half = limits->connections / 2;
    uint32_t preauth = limits->preauth < half ? limits->preauth : half;
    const uint32_t totals[QUOTA_KINDS] = {
        [QUOTA_CONNECTIONS] = limits->connections - (has_minimums ? preauth : 0),
        [QUOTA_CALLS] = limits->calls,
        [QUOTA_PROGRAMS] = limits->programs, [QUOTA_REPLIES] = limits->replies,
        [QUOTA_REPLY_TOKENS] = limits->reply_tokens,
        [QUOTA_WORKFLOWS] = limits->workflow.workflows, [QUOTA_KV_BLOCKS] = limits->kv_blocks,
    };
    return totals[kind];
}

/* Accounts that minimums are divided among, and their weights; none where one domain has keys. */
struct shares {
    uint32_t accounts, weights;
};

static struct shares shares_of(const struct config_keys *keys, const struct limits *limits)
{
    struct shares shares = {.accounts = limits->has_users, .weights = limits->has_users};
    uint32_t domains = 0;
    for (uint32_t i = 0; i < keys->domains_count; i++) {
        domains += keys->weights[i] > 0;
        shares.weights += keys->weights[i];
    }
    shares.accounts += domains;
    return domains > 1 ? shares : (struct shares){.accounts = 0};
}

static bool has_minimums(const struct config_keys *keys, struct shares shares)
{
    bool has_own = false;
    for (uint32_t i = 0; i < CONFIG_KEYS_MAX; i++) {
        has_own = has_own || keys->quotas[i][QUOTA_CONNECTIONS].min > 0;
    }
    return has_own || shares.accounts > 0;
}

/* A small table may have less than one place for each: then it has no minimums. */
static uint32_t share_of(const struct limits *limits, struct shares shares, uint32_t total,
                         uint32_t weight)
{
    uint64_t divided = (uint64_t)total * limits->reserve_permille / 1000;
    if (shares.accounts == 0 || weight == 0 || divided == 0 || total - divided < shares.accounts) {
        return 0;
    }
    uint32_t share = (uint32_t)(divided * weight / shares.weights);
    return share > 0 ? share : 1;
}

void config_quotas_fill(struct quotas *quotas, const struct config_keys *keys,
                        const struct limits *limits)
{
    static const struct config_keys none;
    keys = keys != NULL ? keys : &none;
    struct shares shares = shares_of(keys, limits);
    memset(quotas, 0, sizeof *quotas);
    for (enum quota_kind kind = 0; kind < QUOTA_KINDS; kind++) {
        uint32_t total = quotas->totals[kind] =
            total_of(limits, kind, has_minimums(keys, shares));
        struct quota_bounds *of = quotas->of[kind];
        of[QUOTA_WITHOUT_KEY] = (struct quota_bounds){
            .min = share_of(limits, shares, total, limits->has_users), .max = UINT32_MAX};
        for (uint32_t i = 0; i < CONFIG_KEYS_MAX; i++) {
            const struct quota_bounds *own = &keys->quotas[i][kind];
            of[1 + i] = own->max != 0 ? *own : (struct quota_bounds){
                .min = share_of(limits, shares, total, keys->weights[i]), .max = UINT32_MAX};
        }
    }
}

static uint64_t minimums_of(const struct quotas *quotas, enum quota_kind kind)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < QUOTA_ACCOUNTS_MAX; i++) {
        sum += quotas->of[kind][i].min;
    }
    return sum;
}

enum status config_quotas_check(const struct config_keys *keys, const struct limits *limits,
                                struct config_error *error)
{
    struct quotas quotas;
    config_quotas_fill(&quotas, keys, limits);
    for (enum quota_kind kind = 0; kind < QUOTA_KINDS; kind++) {
        uint64_t sum = minimums_of(&quotas, kind);
        if (sum > quotas.totals[kind]) {
            const char *name = quota_names[kind];
            return config_error_set(error, "the minimums of %s (auth.keys, and shares of "
                                    "limits.reserve) are %llu, and %s = %u", name,
                                    (unsigned long long)sum, totals_names[kind],
                                    quotas.totals[kind]);
        }
    }
    return STATUS_OK;
}
