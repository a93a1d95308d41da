/* SPDX-License-Identifier: MIT */
#pragma once
/* What: JSON out of a text that a client or a model has written, within the door's memory. */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "tools/door/buffer.h"

enum parse_result {
    PARSE_OK,
    PARSE_NOT_JSON,                     /* error->text says why */
    PARSE_RANGE,                        /* a number has no room in any value; the same */
    PARSE_NO_ROOM,                      /* now: what others have taken may come back */
    PARSE_TOO_LARGE,                    /* the whole allowance would not do */
};
#define PARSE_RANGE_TEXT "integers are from -9223372036854775808 to 9223372036854775807, other " \
                         "numbers up to 1.8e308"
/* `*json` is new, or NULL. A name that an object has twice is refused; a text may have zeros. */
enum parse_result parse_json(const char *text, size_t count, json_t **json, json_error_t *error);
/* What a buffer has, as a text; NULL: it is no UTF-8, or there is no memory. */
json_t *json_of(const struct buffer *text);
/* Bytes that reading this text may take at most. */
uint64_t parse_bytes_max(const char *text, size_t count);
