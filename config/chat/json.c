/* SPDX-License-Identifier: MIT */
/*
 * What: JSON that comes byte by byte, and its members.
 *
 * chat_json_take() is strict (RFC 8259), but that it does not look into UTF-8: what a program would
 * refuse to parse must not become a call. Its memory is a bit for each level of nesting.
 *
 * Finding members trusts nothing either: on text that is no JSON it finds something or nothing,
 * within the text. Bounds: linear in the text, for each search.
 */
#include "config/chat/json.h"

#include <string.h>

enum state {
    BEGINNING, FIRST_VALUE, VALUE, FIRST_KEY, KEY, COLON, AFTER, STRING, ESCAPE, HEX, WORD,
    MINUS, ZERO, WHOLE_DIGITS, POINT, FRACTION, EXPONENT, EXPONENT_SIGN, EXPONENT_DIGITS, BROKEN,
};

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static bool is_hex(char byte)
{
    return is_digit(byte) || (byte >= 'a' && byte <= 'f') || (byte >= 'A' && byte <= 'F');
}

/* ---- byte by byte ---------------------------------------------------------------------------- */

static bool in_object(const struct chat_json *json)
{
    return json->depth > 0 && (json->objects >> (json->depth - 1) & 1) != 0;
}

static enum state open_level(struct chat_json *json, bool is_object)
{
    if (json->depth == CHAT_JSON_DEPTH_MAX) {
        return BROKEN;
    }
    uint64_t bit = (uint64_t)1 << json->depth++;
    json->objects = is_object ? json->objects | bit : json->objects & ~bit;
    return is_object ? FIRST_KEY : FIRST_VALUE;
}

static enum state close_level(struct chat_json *json, char byte)
{
    if (json->depth == 0 || byte != (in_object(json) ? '}' : ']')) {
        return BROKEN;
    }
    json->depth--;
    return AFTER;
}

static enum state begin_string(struct chat_json *json, bool is_key)
{
    json->is_key = is_key;
    return STRING;
}

static enum state begin_value(struct chat_json *json, char byte)
{
    static const char *const words[] = {"true", "false", "null"};
    for (uint32_t i = 0; i < 3; i++) {
        if (byte == words[i][0]) {
            json->word = words[i] + 1;
            return WORD;
        }
    }
    switch (byte) {
    case '{':
    case '[':
        return open_level(json, byte == '{');
    case '"':
        return begin_string(json, false);
    case '-':
        return MINUS;
    case '0':
        return ZERO;
    default:
        return is_digit(byte) ? WHOLE_DIGITS : BROKEN;
    }
}

/* Between a value and what comes after it. */
static enum state after_value(struct chat_json *json, char byte)
{
    if (byte == ',') {
        return in_object(json) ? KEY : VALUE;
    }
    return chat_json_space(byte) ? AFTER : close_level(json, byte);
}

static enum state in_string(struct chat_json *json, char byte)
{
    if (byte == '"') {
        return json->is_key ? COLON : AFTER;
    }
    return byte == '\\' ? ESCAPE : (unsigned char)byte < 0x20 ? BROKEN : STRING;
}

static enum state in_escape(struct chat_json *json, char byte)
{
    json->digits = 4;
    return byte == 'u' ? HEX : byte != '\0' && strchr("\"\\/bfnrt", byte) != NULL ? STRING : BROKEN;
}

static enum state in_hex(struct chat_json *json, char byte)
{
    return !is_hex(byte) ? BROKEN : --json->digits > 0 ? HEX : STRING;
}

static enum state in_word(struct chat_json *json, char byte)
{
    if (byte != *json->word) {
        return BROKEN;
    }
    json->word++;
    return *json->word == '\0' ? AFTER : WORD;
}

/* A number ends before the first byte that cannot belong to it. */
static enum state in_number(struct chat_json *json, char byte)
{
    bool is_exponent = byte == 'e' || byte == 'E', digit = is_digit(byte);
    switch ((enum state)json->state) {
    case MINUS:
        return byte == '0' ? ZERO : digit ? WHOLE_DIGITS : BROKEN;
    case ZERO:
    case WHOLE_DIGITS:
        if (digit && json->state == WHOLE_DIGITS) {
            return WHOLE_DIGITS;
        }
        return byte == '.' ? POINT : is_exponent ? EXPONENT : after_value(json, byte);
    case POINT:
        return digit ? FRACTION : BROKEN;
    case FRACTION:
        return digit ? FRACTION : is_exponent ? EXPONENT : after_value(json, byte);
    case EXPONENT:
        return byte == '+' || byte == '-' ? EXPONENT_SIGN : digit ? EXPONENT_DIGITS : BROKEN;
    case EXPONENT_SIGN:
        return digit ? EXPONENT_DIGITS : BROKEN;
    default:
        return digit ? EXPONENT_DIGITS : after_value(json, byte);
    }
}

/* Where spaces may stand. */
static enum state between(struct chat_json *json, char byte)
{
    enum state state = (enum state)json->state;
    if (chat_json_space(byte)) {
        return state;
    }
    switch (state) {
    case BEGINNING:
        return byte == '{' || byte == '[' ? begin_value(json, byte) : BROKEN;
    case FIRST_VALUE:
        return byte == ']' ? close_level(json, byte) : begin_value(json, byte);
    case VALUE:
        return begin_value(json, byte);
    case COLON:
        return byte == ':' ? VALUE : BROKEN;
    case FIRST_KEY:
        return byte == '}' ? close_level(json, byte)
                           : byte == '"' ? begin_string(json, true) : BROKEN;
    case KEY:
        return byte == '"' ? begin_string(json, true) : BROKEN;
    default:
        return after_value(json, byte);
    }
}

enum chat_json_verdict chat_json_take(struct chat_json *json, char byte)
{
    enum state state = (enum state)json->state;
    if (state <= AFTER) {
        state = between(json, byte);
    } else if (state >= MINUS) {
        state = in_number(json, byte);
    } else {
        state = state == STRING ? in_string(json, byte) : state == ESCAPE ? in_escape(json, byte)
              : state == HEX ? in_hex(json, byte) : in_word(json, byte);
    }
    json->state = (uint8_t)state;
    if (state == BROKEN) {
        return CHAT_JSON_BROKEN;
    }
    return state == AFTER && json->depth == 0 ? CHAT_JSON_WHOLE : CHAT_JSON_MORE;
}

/* ---- members --------------------------------------------------------------------------------- */

static struct chat_text skip(struct chat_text text, uint32_t count)
{
    return (struct chat_text){text.bytes + count, text.count - count};
}

/* Without spaces, and without the mark, if it stands there. */
static struct chat_text skip_mark(struct chat_text text, char mark)
{
    bool has_seen = false;
    while (text.count > 0 && (chat_json_space(*text.bytes) || (!has_seen && *text.bytes == mark))) {
        has_seen = has_seen || *text.bytes == mark;
        text = skip(text, 1);
    }
    return text;
}

/* Bytes of the value at the beginning: a string to its quote, an object or array to its bracket,
 * all else up to what ends it. */
static uint32_t value_bytes(struct chat_text text)
{
    bool in_quotes = false;
    uint32_t depth = 0;
    for (uint32_t at = 0; at < text.count; at++) {
        char byte = text.bytes[at];
        bool closes = byte == '}' || byte == ']';
        if (in_quotes) {
            at += byte == '\\';
            in_quotes = byte != '"';
        } else if (depth == 0 && (closes || byte == ',' || byte == ':' || chat_json_space(byte))) {
            return at;
        } else {
            in_quotes = byte == '"';
            depth += byte == '{' || byte == '[';
            depth -= closes;
        }
        if (!in_quotes && depth == 0 && (closes || byte == '"')) {
            return at + 1;
        }
    }
    return text.count;
}

static struct chat_text take_value(struct chat_text *rest)
{
    struct chat_text value = {rest->bytes, value_bytes(*rest)};
    *rest = skip(*rest, value.count);
    return value;
}

struct chat_text chat_json_inside(struct chat_text value)
{
    return value.count < 2 ? (struct chat_text){"", 0}
                           : (struct chat_text){value.bytes + 1, value.count - 2};
}

bool chat_json_next(struct chat_text *rest, struct chat_text *key, struct chat_text *value)
{
    *rest = skip_mark(*rest, ',');
    if (key != NULL) {
        *key = take_value(rest);
        *rest = skip_mark(*rest, ':');
    }
    *value = take_value(rest);
    return value->count > 0;
}

bool chat_json_member(struct chat_text object, const char *name, struct chat_text *value)
{
    struct chat_text rest = chat_json_inside(object), key, inside;
    while (chat_json_next(&rest, &key, value)) {
        if (chat_json_string(key, &inside) && inside.count == strlen(name) &&
            memcmp(inside.bytes, name, inside.count) == 0) {
            return true;
        }
    }
    return false;
}

bool chat_json_string(struct chat_text value, struct chat_text *inside)
{
    if (value.count < 2 || value.bytes[0] != '"' || value.bytes[value.count - 1] != '"') {
        return false;
    }
    *inside = chat_json_inside(value);
    return true;
}
