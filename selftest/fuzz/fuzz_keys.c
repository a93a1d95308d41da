/* SPDX-License-Identifier: MIT */
/*
 * Goal: no bytes of a key file make the parser read or write out of bounds. A refusal is one line
 * of printable ASCII and leaves no key. Accepted keys are sound.
 * Method: the input is the file. libFuzzer passes a copy of the exact size.
 */
#include "config/keys.h"
#include "selftest/fuzz/dictionary.h"
#include "selftest/fuzz/message.h"

static void check_keys(const struct config_keys *keys)
{
    ASSERT(keys->count > 0 && keys->count <= CONFIG_KEYS_MAX);
    ASSERT(keys->domains_count > 0 && keys->domains_count <= keys->count);
    for (uint32_t i = 0; i < keys->count; i++) {
        const struct config_key *key = &keys->keys[i];
        ASSERT(key->id[0] != '\0' && key->id[CONFIG_KEY_NAME_BYTES - 1] == '\0');
        ASSERT(key->domain < keys->domains_count && keys->domains[key->domain][0] != '\0');
        for (uint32_t other = 0; other < i; other++) {
            ASSERT(strcmp(key->id, keys->keys[other].id) != 0);
            ASSERT(memcmp(key->secret, keys->keys[other].secret, CONFIG_SECRET_BYTES) != 0);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const struct config_keys none;
    static struct config_keys keys;
    struct config_error error = {{0}};
    if (config_keys_load_bytes(&keys, "fuzz.keys", (const char *)bytes, count, &error) ==
        STATUS_OK) {
        check_keys(&keys);
    } else {
        ASSERT(memcmp(&keys, &none, sizeof keys) == 0);
        message_check(&error);
    }
    return 0;
}

/* A secret that fits, and a name that is one byte too long. */
void dictionary_write(void)
{
    char bytes[2 * CONFIG_SECRET_BYTES];
    memset(bytes, 'a', sizeof bytes);
    dictionary_word(bytes, sizeof bytes);
    dictionary_word(bytes, CONFIG_KEY_NAME_BYTES);
}
