/* SPDX-License-Identifier: MIT */
/* What: the table of families, and the search in it. */
#include "config/model/family.h"

#include <string.h>

const struct model_family model_families[] = {
#define FAMILY(name, pairs, qkv_bias, qk_norm) {#name, ROPE_##pairs, qkv_bias, qk_norm},
#include "config/model/family.def"
#undef FAMILY
};
const uint32_t model_families_count = sizeof model_families / sizeof model_families[0];

#define FAMILY(name, pairs, qkv_bias, qk_norm) " " #name
const char model_family_names[] =
#include "config/model/family.def"
    ;
#undef FAMILY

const struct model_family *model_family_find(const char *name, size_t bytes)
{
    for (uint32_t i = 0; i < model_families_count; i++) {
        const char *known = model_families[i].name;
        if (strlen(known) == bytes && memcmp(known, name, bytes) == 0) {
            return &model_families[i];
        }
    }
    return NULL;
}
