/* SPDX-License-Identifier: MIT */
#include <string.h>
#include <unistd.h>

#include "config/access.h"
#include "config/base/assert.h"
#include "config/error.h"
#include "config/file.h"

/*
 * What: the number of a user or a group, from /etc/passwd or /etc/group, lines of
 * NAME:PASSWORD:NUMBER:... of which the fourth field of a user is the number of its group.
 * And appliance.user, USER:GROUP, of names or numbers. A number needs its group: it may have no
 * line in /etc/passwd, and the group that a process keeps by mistake is root's.
 * Why not the C library's search: it loads modules, which a static binary cannot, and may use the
 * network. Users and groups of a directory service are named by number instead.
 * Bounds: O(bytes of the file); of a line the first LINE_BYTES are read. BOOT_ONLY.
 */

#define LINE_BYTES  256
#define CHUNK_BYTES 4096
#define HALF_BYTES  33              /* of USER:GROUP, terminator included */

struct search {
    const char *name;
    char line[LINE_BYTES];
    size_t used;                    /* of the line */
    struct config_account *account;
};

bool config_account_number(const char *text, char end, uint32_t *number)
{
    uint64_t value = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9' && value <= UINT32_MAX; at++) {
        value = value * 10 + (uint64_t)(*at - '0');
    }
    *number = (uint32_t)value;
    /* To the kernel the largest number means that no user is named. */
    return at != text && *at == end && value < UINT32_MAX;
}

/* True when the line is that of the name, and has a number. */
static bool line_is_it(struct search *search)
{
    size_t length = strlen(search->name);
    search->line[search->used] = '\0';
    if (strncmp(search->line, search->name, length) != 0 || search->line[length] != ':' ||
        strchr(search->name, ':') != NULL) {
        return false;
    }
    const char *number = strchr(search->line + length + 1, ':');
    if (number == NULL || !config_account_number(number + 1, ':', &search->account->id)) {
        return false;
    }
    const char *group = strchr(number + 1, ':') + 1;
    if (!config_account_number(group, ':', &search->account->gid)) {
        search->account->gid = CONFIG_NO_GROUP;
    }
    return true;
}

/* Goes on with these bytes; true when the name is found. */
static bool take_bytes(struct search *search, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != '\n') {
            search->line[search->used] = bytes[i];
            search->used += search->used + 1 < LINE_BYTES;
            continue;
        }
        if (line_is_it(search)) {
            return true;
        }
        search->used = 0;
    }
    return false;
}

enum status config_account_find(const char *path, const char *name,
                                struct config_account *account, struct config_error *error)
{
    int file = -1;
    char chunk[CHUNK_BYTES];
    struct search search = {.name = name, .account = account};
    struct config_file_bytes bytes = {.bytes = chunk, .max = sizeof chunk};
    bool is_found = false;
    TRY(config_file_open(path, CONFIG_FILE_PLAIN, &file, error));
    enum status status = STATUS_OK;
    do {
        status = config_file_next(file, path, &bytes, error);
        is_found = status == STATUS_OK && take_bytes(&search, chunk, bytes.count);
    } while (status == STATUS_OK && !is_found && bytes.count == sizeof chunk);
    (void)close(file);
    if (status == STATUS_OK && !is_found) {
        return config_error_set(error, "%s has no '%s'", path, name);
    }
    return status;
}

/* ---- the user that the appliance becomes ---- */

static bool is_number(const char *word)
{
    return word[0] >= '0' && word[0] <= '9';
}

static enum status take_number(const char *word, uint32_t *id, struct config_error *problem)
{
    return config_account_number(word, '\0', id)
               ? STATUS_OK : config_error_set(problem, "'%s' is no number of 32 bits", word);
}

static enum status take_user(const char *word, bool has_group, struct config_user *user,
                             struct config_error *problem)
{
    struct config_account account = {.gid = CONFIG_NO_GROUP};
    if (is_number(word)) {
        TRY(take_number(word, &account.id, problem));
    } else {
        TRY(config_account_find("/etc/passwd", word, &account, problem));
    }
    if (account.gid == CONFIG_NO_GROUP && !has_group) {
        return config_error_set(problem, "has no group, expected USER:GROUP");
    }
    user->uid = account.id;
    user->gid = account.gid;
    return STATUS_OK;
}

static enum status take_group(const char *word, struct config_user *user,
                              struct config_error *problem)
{
    struct config_account account = {.id = 0};
    if (is_number(word)) {
        return take_number(word, &user->gid, problem);
    }
    TRY(config_account_find("/etc/group", word, &account, problem));
    user->gid = account.id;
    return STATUS_OK;
}

/* Copies `bytes` of text; false when that is no half. */
static bool take_half(const char *text, size_t bytes, char half[HALF_BYTES])
{
    if (bytes == 0 || bytes >= HALF_BYTES) {
        return false;
    }
    memcpy(half, text, bytes);
    half[bytes] = '\0';
    return true;
}

static enum status read_user(const char *text, struct config_user *user,
                             struct config_error *problem)
{
    char name[HALF_BYTES], group[HALF_BYTES];
    size_t name_bytes = strcspn(text, ":");
    bool has_group = text[name_bytes] == ':';
    const char *rest = text + name_bytes + has_group;
    if (!take_half(text, name_bytes, name) ||
        (has_group && !take_half(rest, strlen(rest), group))) {
        return config_error_set(problem, "expected USER or USER:GROUP, of at most %d bytes each",
                                HALF_BYTES - 1);
    }
    TRY(take_user(name, has_group, user, problem));
    if (has_group) {
        TRY(take_group(group, user, problem));
    }
    return user->uid != 0 && user->gid != 0
               ? STATUS_OK
               : config_error_set(problem, "is root or its group, expected another");
}

enum status config_user_fill(struct config_user *user, const struct options *options,
                             struct config_error *error)
{
    const struct option_row *row = config_options_find("appliance", "user");
    const char *text = options->appliance_user.text;
    struct config_error problem = {.text = ""};
    ASSERT(row != NULL);
    *user = (struct config_user){.is_named = text[0] != '\0'};
    if (!user->is_named || read_user(text, user, &problem) == STATUS_OK) {
        return STATUS_OK;
    }
    config_error_begin(error, options, row);
    return config_error_add(error, "%s", problem.text);
}
