/* SPDX-License-Identifier: MIT */
#include "config/options.h"

#include <string.h>

#include "config/base/assert.h"
#include "config/base/bounds.h"
#include "config/value.h"

/*
 * What: options.def as a table, its defaults, and searches by name.
 * Invariant: the offset of a row is that of its value in struct options; both come from one line.
 * Bounds: a search is O(rows); the nearest name costs rows x NAME_BYTES_MAX^2 steps, at boot only.
 * Why an edit distance: a mistyped key is the commonest configuration error, and a refusal that
 * names the right key saves a look into the manual.
 */

#define NAME_BYTES_MAX 64       /* "section.key"; longer ones are compared by their start */

#define CHOICE(section, key, tag, fallback, help) \
    static const struct option_word words_of_##section##_##key[] = {
#define WORD(enumerator, word) {word, enumerator},
#define CHOICE_END             };
#include "config/options.def"

const struct option_row config_option_rows[] = {
#define DEFAULT_TEXT_TEXT(fallback)     fallback
#define DEFAULT_TEXT_COUNT(fallback)    NULL
#define DEFAULT_TEXT_BYTES(fallback)    NULL
#define DEFAULT_TEXT_TIME(fallback)     NULL
#define DEFAULT_TEXT_TIME_AUTO(fallback) NULL
#define DEFAULT_TEXT_PROGRAMS(fallback) NULL
#define DEFAULT_TEXT_RATIO(fallback)    NULL
#define DEFAULT_NUMBER_TEXT(fallback)   0
#define DEFAULT_NUMBER_COUNT(fallback)  (fallback)
#define DEFAULT_NUMBER_BYTES(fallback)  (fallback)
#define DEFAULT_NUMBER_TIME(fallback)   (fallback)
#define DEFAULT_NUMBER_TIME_AUTO(fallback) (fallback)
#define DEFAULT_NUMBER_PROGRAMS(fallback) (fallback)
#define DEFAULT_NUMBER_RATIO(fallback)  (fallback)
#define OPTION(section, key, type, unit, fallback, min, max, help)                                 \
    {#section, #key, unit, DEFAULT_TEXT_##type(fallback), help, OPTION_##type,                     \
     DEFAULT_NUMBER_##type(fallback), min, max, offsetof(struct options, section##_##key), NULL, 0},
#define CHOICE(section, key, tag, fallback, help)                                                  \
    {#section, #key, "", NULL, help, OPTION_CHOICE, fallback, 0, UINT32_MAX,                       \
     offsetof(struct options, section##_##key), words_of_##section##_##key,                        \
     sizeof words_of_##section##_##key / sizeof(struct option_word)},
#include "config/options.def"
};
const uint32_t config_option_rows_count =
    sizeof config_option_rows / sizeof config_option_rows[0];

void config_defaults(struct options *options)
{
    memset(options, 0, sizeof *options);
    for (uint32_t i = 0; i < config_option_rows_count; i++) {
        const struct option_row *row = &config_option_rows[i];
        struct option_value *value = config_value_of(options, row);
        value->number = row->default_number;
        if (row->default_text != NULL) {
            const char *problem = "";
            ASSERT(config_value_parse(row, row->default_text, value, &problem) == STATUS_OK);
        } else {
            ASSERT(value->number >= row->min && value->number <= row->max);
        }
    }
}

const struct option_row *config_options_find(const char *section, const char *key)
{
    ASSERT(section != NULL && key != NULL);
    for (uint32_t i = 0; i < config_option_rows_count; i++) {
        const struct option_row *row = &config_option_rows[i];
        if (strcmp(row->section, section) == 0 && strcmp(row->key, key) == 0) {
            return row;
        }
    }
    return NULL;
}

bool config_options_has_section(const char *section, uint32_t section_bytes)
{
    ASSERT(section != NULL);
    for (uint32_t i = 0; i < config_option_rows_count; i++) {
        const char *name = config_option_rows[i].section;
        if (strlen(name) == section_bytes && memcmp(name, section, section_bytes) == 0) {
            return true;
        }
    }
    return false;
}

/* "section.key" in lower case, cut at NAME_BYTES_MAX - 1; without a key the section alone. Returns
 * the length. */
static uint32_t write_name(const char *section, const char *key, char name[NAME_BYTES_MAX])
{
    const char *const parts[3] = {section, key != NULL ? "." : "", key != NULL ? key : ""};
    uint32_t length = 0;
    for (uint32_t part = 0; part < 3; part++) {
        for (const char *at = parts[part]; *at != '\0' && length < NAME_BYTES_MAX - 1; at++) {
            name[length++] = (char)(*at >= 'A' && *at <= 'Z' ? *at - 'A' + 'a' : *at);
        }
    }
    name[length] = '\0';
    return length;
}

/* Edits (insert, delete, replace one byte) that turn one name into the other: one row of the
 * classic table at a time. */
static uint32_t edit_distance(const char *from, uint32_t from_bytes, const char *to,
                              uint32_t to_bytes)
{
    uint32_t costs[NAME_BYTES_MAX];
    ASSERT(from_bytes < NAME_BYTES_MAX && to_bytes < NAME_BYTES_MAX);
    for (uint32_t j = 0; j <= to_bytes; j++) {
        costs[j] = j;
    }
    for (uint32_t i = 1; i <= from_bytes; i++) {
        uint32_t diagonal = costs[0];
        costs[0] = i;
        for (uint32_t j = 1; j <= to_bytes; j++) {
            uint32_t above = costs[j];
            costs[j] = lesser(lesser(above, costs[j - 1]) + 1,
                              diagonal + (from[i - 1] != to[j - 1]));
            diagonal = above;
        }
    }
    return costs[to_bytes];
}

const struct option_row *config_options_nearest(const char *section, const char *key)
{
    char wanted[NAME_BYTES_MAX], name[NAME_BYTES_MAX];
    uint32_t wanted_bytes = write_name(section, key, wanted);
    const struct option_row *nearest = NULL;
    uint32_t nearest_cost = wanted_bytes / 3 + 2;   /* from there on, not similar */
    for (uint32_t i = 0; i < config_option_rows_count; i++) {
        const struct option_row *row = &config_option_rows[i];
        uint32_t name_bytes = write_name(row->section, key != NULL ? row->key : NULL, name);
        uint32_t cost = edit_distance(wanted, wanted_bytes, name, name_bytes);
        if (key != NULL && strcmp(row->key, key) == 0) {
            cost = cost > 1 ? 1 : cost;             /* the right key in the wrong section */
        }
        if (cost < nearest_cost) {
            nearest = row;
            nearest_cost = cost;
        }
    }
    return nearest;
}
