/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the words of the protocol that every target of frames knows: the bounds of each number of
 * CALL and their neighbours outside, and the codes of statuses.
 */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "config/base/assert.h"
#include "net/wire.h"
#include "selftest/fuzz/dictionary.h"

static inline bool wire_words_is_type(uint32_t type)
{
    return strcmp(wire_type_name((uint8_t)type), "unknown") != 0;
}

static inline void wire_words_float(float value)
{
    uint32_t pattern = 0;
    memcpy(&pattern, &value, sizeof pattern);
    dictionary_number(pattern, sizeof pattern);
}

static inline void wire_words_range(const struct wire_range *range)
{
    if (range->number == WIRE_F32) {
        wire_words_float((float)range->min);
        wire_words_float(nextafterf((float)range->min, -INFINITY));
        wire_words_float((float)range->max);
        wire_words_float(nextafterf((float)range->max, INFINITY));
        return;
    }
    uint32_t bytes = range->number == WIRE_U64 ? 8 : 4;
    dictionary_number((uint64_t)range->min, bytes);
    dictionary_number((uint64_t)range->max, bytes);
    dictionary_number((uint64_t)range->max + 1, bytes);
}

static inline void wire_words_write(void)
{
    for (uint32_t i = 0; i < wire_call_ranges_count; i++) {
        wire_words_range(&wire_call_ranges[i]);
    }
    wire_words_float(NAN);
    wire_words_float(INFINITY);
    for (uint32_t status = 0; status < STATUS_COUNT; status++) {
        if (status_wire((enum status)status) != 0) {
            dictionary_number(status_wire((enum status)status), 2);
        }
    }
}
