/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the rule for every refusal of the configuration: one line of printable ASCII.
 */
#include <string.h>

#include "config/base/assert.h"
#include "config/config.h"

static inline void message_check(const struct config_error *error)
{
    size_t length = strnlen(error->text, sizeof error->text);
    ASSERT(length > 0 && length < sizeof error->text);
    for (size_t i = 0; i < length; i++) {
        ASSERT(error->text[i] >= 0x20 && error->text[i] <= 0x7e);
    }
}
