/* SPDX-License-Identifier: MIT */
/* What: bearer tokens and the trust domains behind them (tools/door/tokens.h). */
#include "tools/door/tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/file.h"

#define FILE_BYTES_MAX 32768u
#define TOKEN_BYTES_MIN 8

static enum status refuse(struct config_error *error, const char *path, uint32_t line,
                          const char *problem)
{
    snprintf(error->text, sizeof error->text, "%s:%u: %s", path, line, problem);
    return STATUS_CONFIG_OPTION;
}

static struct domain *domain_of(struct door *door, const struct config_key *key)
{
    for (uint32_t i = 0; i < door->domains_count; i++) {
        if (door->domains[i].key == key) {
            return &door->domains[i];
        }
    }
    struct domain *domain = &door->domains[door->domains_count];
    *domain = (struct domain){.index = door->domains_count++, .key = key};
    return domain;
}

static const struct config_key *find_key(const struct door *door, const char *id)
{
    for (uint32_t i = 0; i < door->keys.count; i++) {
        if (strncmp(door->keys.keys[i].id, id, CONFIG_KEY_NAME_BYTES) == 0) {
            return &door->keys.keys[i];
        }
    }
    return NULL;
}

/* NULL, or what is wrong with the line. */
static const char *read_line(struct door *door, char *line)
{
    char *rest = NULL, *token = strtok_r(line, " \t\r", &rest);
    char *id = token != NULL ? strtok_r(NULL, " \t\r", &rest) : NULL;
    if (token == NULL || token[0] == '#') {
        return NULL;
    }
    if (strlen(token) < TOKEN_BYTES_MIN || strlen(token) >= DOOR_TOKEN_BYTES) {
        return "a token has 8 to 255 characters";
    }
    if (strtok_r(NULL, " \t\r", &rest) != NULL) {
        return "a line is TOKEN, or TOKEN KEY";
    }
    const struct config_key *key = id != NULL ? find_key(door, id) : NULL;
    if (id != NULL && key == NULL) {
        return "there is no key of this id in auth.keys";
    }
    if (door->tokens_count == DOOR_TOKENS_MAX) {
        return "too many tokens: 64 at most";
    }
    for (uint32_t i = 0; i < door->tokens_count; i++) {
        if (strcmp(door->tokens[i].text, token) == 0) {
            return "this token is there already";
        }
    }
    struct token *to = &door->tokens[door->tokens_count++];
    memcpy(to->text, token, strlen(token) + 1);
    to->domain = domain_of(door, key);
    return NULL;
}

static enum status read_file(struct door *door, struct config_error *error)
{
    static char text[FILE_BYTES_MAX + 1];
    const char *path = door->options.door_tokens.text;
    struct config_file_bytes bytes = {.bytes = text, .max = FILE_BYTES_MAX};
    uint32_t number = 1;
    char *rest = NULL;
    TRY(config_file_read(path, CONFIG_FILE_SECRET, &bytes, error));
    if (bytes.count == FILE_BYTES_MAX || memchr(text, '\0', bytes.count) != NULL) {
        return refuse(error, path, 1, "too large, or no text");
    }
    text[bytes.count] = '\0';
    for (char *line = text; line != NULL; line = rest, number++) {
        rest = strchr(line, '\n');
        if (rest != NULL) {
            *rest++ = '\0';
        }
        const char *problem = read_line(door, line);
        if (problem != NULL) {
            return refuse(error, path, number, problem);
        }
    }
    return door->tokens_count > 0 ? STATUS_OK : refuse(error, path, 1, "there is no token");
}

enum status tokens_begin(struct door *door, struct config_error *error)
{
    if (door->options.auth_keys.text[0] != '\0') {
        TRY(config_keys_load_file(&door->keys, door->options.auth_keys.text, error));
    }
    if (door->options.door_tokens.text[0] == '\0') {
        (void)domain_of(door, NULL);
        return STATUS_OK;
    }
    return read_file(door, error);
}
