/* SPDX-License-Identifier: MIT */
#include <string.h>
#include <unistd.h>

#include "config/access.h"
#include "config/error.h"
#include "config/file.h"

/*
 * What: the number of a user or a group, from /etc/passwd or /etc/group, lines of
 * NAME:PASSWORD:NUMBER:...
 * Why not the C library's search: it loads modules, which a static binary cannot, and may use the
 * network. Users and groups of a directory service are named by number instead.
 * Bounds: O(bytes of the file); of a line the first LINE_BYTES are read. BOOT_ONLY.
 */

#define LINE_BYTES  256
#define CHUNK_BYTES 4096

struct search {
    const char *name;
    char line[LINE_BYTES];
    size_t used;                    /* of the line */
    uint32_t *id;
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
    return number != NULL && config_account_number(number + 1, ':', search->id);
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

enum status config_account_find(const char *path, const char *name, uint32_t *id,
                                struct config_error *error)
{
    int file = -1;
    char chunk[CHUNK_BYTES];
    struct search search = {.name = name, .id = id};
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
