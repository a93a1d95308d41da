/* SPDX-License-Identifier: MIT */
#include "tools/flow/synthetic.h"

#include <stdio.h>
#include <string.h>

#include "config/base/fnv.h"
#include "tools/flow/lexer.h"

bool flow_synthetic_read(const char *text, size_t bytes, struct flow_synthetic_name *what)
{
    const char *colon = memchr(text, ':', bytes);
    size_t before = colon != NULL ? (size_t)(colon - text) : 0;
    uint64_t count;
    if (before == 0 || memchr(text, ';', before) != NULL ||
        !flow_number(colon + 1, bytes - before - 1, FLOW_SYNTHETIC_MAX, &count)) {
        return false;
    }
    *what = (struct flow_synthetic_name){text, (uint32_t)before, (uint32_t)count};
    return true;
}

bool flow_synthetic_next(const char *text, size_t bytes, size_t *at,
                         struct flow_synthetic_name *what)
{
    const char *end = *at < bytes ? memchr(text + *at, ';', bytes - *at) : NULL;
    if (end == NULL) {
        return false;
    }
    size_t count = (size_t)(end - text) - *at;
    bool good = flow_synthetic_read(text + *at, count, what);
    *at += count + 1;
    return good;
}

size_t flow_synthetic_word(const struct flow_synthetic_name *what, uint32_t position, char out[16])
{
    static const char *const words[] = {
        "time", "year", "people", "way", "day", "man", "thing", "woman", "life", "child", "world",
        "school", "state", "family", "group", "country", "problem", "hand", "part", "place",
        "case", "week", "company", "system", "program", "question", "work", "number", "night",
        "point", "home", "water"};
    uint64_t hash = fnv_add(FNV_START, what->name, what->name_bytes);
    hash = fnv_add(hash, &position, sizeof position);
    return (size_t)snprintf(out, 16, " %s", words[(hash >> 32) % (sizeof words / sizeof *words)]);
}
