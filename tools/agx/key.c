/* SPDX-License-Identifier: MIT */
#include "tools/agx/key.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/keys.h"
#include "tools/agx/command.h"

/*
 * What: one line `ID SECRET`, as it stands in the appliance's file of keys; a file of them has mode
 * 0600. The appliance's own parser reads it, so what it takes is the same on both sides.
 */

int key_load(const char *file, struct agx_key *key, int *found)
{
    struct config_keys keys;
    struct config_error error = {.text = ""};
    const char *words = getenv(KEY_VARIABLE), *name = file != NULL ? file : KEY_VARIABLE;
    *found = file != NULL || words != NULL;
    if (!*found) {
        return EXIT_COMPLETE;
    }
    enum status status =
        file != NULL ? config_keys_load_file(&keys, file, &error)
                     : config_keys_load_bytes(&keys, name, words, strlen(words), &error);
    if (status == STATUS_OK && keys.count > 1) {
        snprintf(error.text, sizeof error.text, "%.200s: %u keys, need one", name, keys.count);
        status = STATUS_CONFIG_OPTION;
    }
    if (status != STATUS_OK) {
        fprintf(stderr, "agx: %s\n", error.text);
    } else {
        memcpy(key->id, keys.keys[0].id, sizeof key->id);
        memcpy(key->secret, keys.keys[0].secret, sizeof key->secret);
    }
    config_keys_wipe(&keys);
    return status == STATUS_OK ? EXIT_COMPLETE : EXIT_USAGE;
}
