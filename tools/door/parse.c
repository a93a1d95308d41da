/* SPDX-License-Identifier: MIT */
/*
 * What: JSON within the door's memory (tools/door/parse.h).
 *
 * Jansson does not survive a refusal while it reads a token: it goes on without the bytes that it
 * had no room for, and then looks for the closing quote behind what it has (lex_save() and
 * lex_scan_string() of 2.14). So nothing is refused while it reads. What it may take is bounded
 * before, from the marks in the text, and the allowance must have room for that.
 * Integers beyond 64 bits are refused: jansson has none, and as real numbers they lose digits, so
 * that the model would be told another number than the client has said.
 * Why not a bound from the length alone: "[[]," repeated takes 50 times its length, a prompt twice.
 */
#include "tools/door/parse.h"

#define FLAGS        (JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL)
/* In bytes of jansson's records, as malloc rounds them, and of the tables that grow with them. */
#define QUOTE_BYTES  80u                /* half of a text, or of a name in an object */
#define OBJECT_BYTES 320u               /* with its first eight places */
#define ARRAY_BYTES  160u
#define COMMA_BYTES  128u               /* another value, and its place in a table that doubles */
#define WHOLE_BYTES  4096u
#define COPIES       5u                 /* the longest token, while its room doubles; its value */

uint64_t parse_bytes_max(const char *text, size_t count)
{
    uint64_t bytes = WHOLE_BYTES + COPIES * (uint64_t)count;
    bool is_text = false;
    for (size_t i = 0; i < count; i++) {
        char mark = text[i];
        bytes += mark == '"'                ? QUOTE_BYTES
                 : is_text                  ? 0
                 : mark == '{'              ? OBJECT_BYTES
                 : mark == '['              ? ARRAY_BYTES
                 : mark == ',' || mark == ':' ? COMMA_BYTES
                                            : 0;
        i += is_text && mark == '\\';
        is_text = is_text != (mark == '"');
    }
    return bytes;
}

json_t *json_of(const struct buffer *text)
{
    return json_stringn(text->at != NULL ? text->at : "", text->count);
}

enum parse_result parse_json(const char *text, size_t count, json_t **json, json_error_t *error)
{
    uint64_t bytes = parse_bytes_max(text, count);
    *json = NULL;
    if (bytes > memory_allowance_bytes()) {
        return PARSE_TOO_LARGE;
    }
    if (!memory_open(bytes)) {
        return PARSE_NO_ROOM;
    }
    *json = json_loadb(text, count, FLAGS, error);
    memory_close();
    return *json != NULL                                               ? PARSE_OK
           : json_error_code(error) == json_error_numeric_overflow     ? PARSE_RANGE
                                                                       : PARSE_NOT_JSON;
}
