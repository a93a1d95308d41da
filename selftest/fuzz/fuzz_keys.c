/* SPDX-License-Identifier: MIT */
/*
 * Goal: no file of keys makes the parser read or write where it may not; what it takes is sound.
 * Method: libFuzzer; the bytes lie on the heap, so that one too far is seen.
 * Run: `make fuzz`.
 */
#include <stdlib.h>
#include <string.h>

#include "config/keys.h"

static void must(int condition)
{
    if (!condition) {
        abort();
    }
}

static void check(const struct config_keys *keys)
{
    must(keys->count > 0 && keys->count <= CONFIG_KEYS_MAX);
    must(keys->domains_count > 0 && keys->domains_count <= keys->count);
    for (uint32_t i = 0; i < keys->count; i++) {
        const struct config_key *key = &keys->keys[i];
        must(key->id[0] != '\0' && key->id[CONFIG_KEY_NAME_BYTES - 1] == '\0');
        must(key->domain < keys->domains_count && keys->domains[key->domain][0] != '\0');
        for (uint32_t other = 0; other < i; other++) {
            must(strcmp(key->id, keys->keys[other].id) != 0);
            must(memcmp(key->secret, keys->keys[other].secret, CONFIG_SECRET_BYTES) != 0);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct config_keys none;
    static struct config_keys keys;
    struct config_error error;
    char *copy = malloc(size + 1);
    memcpy(copy, data, size);
    if (config_keys_load_bytes(&keys, "keys", copy, size, &error) == STATUS_OK) {
        check(&keys);
    } else {
        must(memcmp(&keys, &none, sizeof keys) == 0);
        must(strlen(error.text) > 0 && strlen(error.text) < CONFIG_ERROR_BYTES);
    }
    free(copy);
    return 0;
}
