/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the families of models as a table, from family.def, which says what the columns mean. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rope_pairs { ROPE_ADJACENT, ROPE_HALVES };

struct model_family {
    const char *name;
    enum rope_pairs rope_pairs;
    bool qkv_bias, qk_norm;
};
extern const struct model_family model_families[];
extern const uint32_t model_families_count;
extern const char model_family_names[];     /* for messages: a blank before each */

/* The family named by these bytes, or NULL. */
const struct model_family *model_family_find(const char *name, size_t bytes);
