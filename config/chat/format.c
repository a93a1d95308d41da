/* SPDX-License-Identifier: MIT */
/* What: the table of chat formats, and the search in it. */
#include "config/base/assert.h"
#include "config/base/fnv.h"
#include "config/chat/render.h"

static const struct row {
    const char *name, *help;
    uint32_t traits;
} rows[] = {
#define NONE  CHAT_TRAIT_NONE
#define BOS   CHAT_TRAIT_BOS
#define TOOLS CHAT_TRAIT_TOOLS
#define DATE  CHAT_TRAIT_DATE
#define THINKS CHAT_TRAIT_THINKS
#define FORMAT(id, name, render, traits, help) [CHAT_##id] = {name, help, traits},
#include "config/chat/formats.def"
};

static const struct row *row_of(enum chat_id id)
{
    ASSERT(id < CHAT_FORMATS);
    return &rows[id];
}

uint32_t chat_format_traits(enum chat_id id)
{
    return row_of(id)->traits;
}

const char *chat_format_name(enum chat_id id)
{
    return row_of(id)->name;
}

const char *chat_format_help(enum chat_id id)
{
    return row_of(id)->help;
}

bool chat_format_has_tools(enum chat_id id)
{
    return (row_of(id)->traits & CHAT_TRAIT_TOOLS) != 0;
}

bool chat_format_has_date(enum chat_id id)
{
    return (row_of(id)->traits & CHAT_TRAIT_DATE) != 0;
}

uint64_t chat_digest(enum chat_verdict verdict, const struct chat_format *format)
{
    const char *name = chat_format_name(format->id);
    const uint8_t said = (uint8_t)verdict;
    uint64_t digest = fnv_add(FNV_START, &said, sizeof said);
    digest = fnv_add(digest, name, strlen(name) + 1);
    return fnv_add(digest, format->system, strlen(format->system));
}

enum chat_id chat_format_find(const char *name)
{
    uint32_t id = 0;
    while (id < CHAT_FORMATS && strcmp(rows[id].name, name) != 0) {
        id++;
    }
    return (enum chat_id)id;
}
