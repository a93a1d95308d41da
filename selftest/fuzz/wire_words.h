/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: protocol words for every target of frames: the bounds of each number of
 * net/frames.def, the values just outside them, and the codes of statuses.
 */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "config/base/assert.h"
#include "net/wire.h"
#include "selftest/fuzz/dictionary.h"

static inline void wire_words_float(float value)
{
    uint32_t pattern = 0;
    memcpy(&pattern, &value, sizeof pattern);
    dictionary_number(pattern, sizeof pattern);
}

static inline void wire_words_range(const struct wire_row *row)
{
    const struct wire_range *range = &row->range;
    if (row->kind == WIRE_F32) {
        wire_words_float((float)range->min);
        wire_words_float(nextafterf((float)range->min, -INFINITY));
        wire_words_float((float)range->max);
        wire_words_float(nextafterf((float)range->max, INFINITY));
        return;
    }
    dictionary_number((uint64_t)range->min, row->bytes);
    dictionary_number((uint64_t)range->max, row->bytes);
    dictionary_number((uint64_t)range->max + 1, row->bytes);
}

static inline void wire_words_layout(const struct wire_layout *layout)
{
    for (uint32_t i = 0; i < layout->rows_count; i++) {
        if (layout->rows[i].range.is_checked) {
            wire_words_range(&layout->rows[i]);
        }
    }
}

static inline void wire_words_write(void)
{
#define LAYOUT(name, id, length) wire_words_layout(&wire_##name##_layout);
#include "net/frames.def"
    wire_words_float(NAN);
    wire_words_float(INFINITY);
    for (uint32_t status = 0; status < STATUS_COUNT; status++) {
        if (status_wire((enum status)status) != 0) {
            dictionary_number(status_wire((enum status)status), 2);
        }
    }
}
