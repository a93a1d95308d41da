/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the key that agx proves to have, from a file or from the environment. */
#include "tools/sdk/agx.h"

#define KEY_VARIABLE "AGX_KEY"

/* From the file, or without one from AGX_KEY; `*found` tells whether there is a key. 0, or an exit
 * code after a message. */
int key_load(const char *file, struct agx_key *key, int *found);
