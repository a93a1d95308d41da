/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: JSON as a model writes it into an answer: byte by byte, it says where an object or an array
 * ends, or that it is none; then its members are found in the text. Private to config/chat.
 */
#include "config/chat/chat.h"

#define CHAT_JSON_DEPTH_MAX 64u

struct chat_json {                  /* all zero: at the beginning */
    uint8_t state;                  /* private: enum state, json.c */
    uint8_t depth;                  /* of open objects and arrays */
    uint8_t digits;                 /* of \u, still to come */
    bool is_key;                    /* the string in progress */
    const char *word;               /* the rest of true, false or null */
    uint64_t objects;               /* bit i: at depth i there is an object, not an array */
};

enum chat_json_verdict { CHAT_JSON_MORE, CHAT_JSON_WHOLE, CHAT_JSON_BROKEN };

/* True for what may stand between the words of JSON. */
static inline bool chat_json_space(char byte)
{
    return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}
/* Takes one byte. The text is an object or an array; spaces may stand before it. After WHOLE or
 * BROKEN no byte may follow. */
enum chat_json_verdict chat_json_take(struct chat_json *json, char byte);

/* An object, an array or a string without its brackets or quotes. */
struct chat_text chat_json_inside(struct chat_text value);
/* The members of an object, or the elements of an array, one after the other: `rest` is at first
 * the text inside of it. `key` is NULL for an array. Keys and values are as they are written,
 * strings with their quotes. False at the end, and where the text is no JSON. */
bool chat_json_next(struct chat_text *rest, struct chat_text *key, struct chat_text *value);
/* The member of that name; false: there is none. */
bool chat_json_member(struct chat_text object, const char *name, struct chat_text *value);
/* A string without its quotes, still with its escapes; false: the value is no string. */
bool chat_json_string(struct chat_text value, struct chat_text *inside);
