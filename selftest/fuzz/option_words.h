/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the words of configurations, from the table of options. */
#include <string.h>

#include "config/base/assert.h"
#include "config/base/text.h"
#include "config/config.h"
#include "config/value.h"
#include "selftest/fuzz/dictionary.h"

/* KEY=VALUE, as the file and --set have it. */
static inline uint32_t option_words_assign(struct text *out, const struct option_row *row,
                                           const struct option_value *value)
{
    char text[CONFIG_TEXT_BYTES];
    uint32_t start = out->length;
    text_add(out, row->key);
    text_add(out, "=");             /* no blank: a value may begin with a semicolon */
    text_add_bytes(out, text, config_format(row, value, text, sizeof text));
    return out->length - start;
}

static inline void option_words_choice(const struct option_row *row)
{
    for (uint32_t i = 0; i < row->words_count; i++) {
        dictionary_word(row->words[i].word, (uint32_t)strlen(row->words[i].word));
    }
}

/* Writes the key with each bound of its values; a CHOICE has words in their place. */
static inline void option_words_bounds(const struct option_row *row)
{
    const struct option_value bounds[2] = {{.number = row->min}, {.number = row->max}};
    for (uint32_t i = 0; i < 2 && row->words_count == 0; i++) {
        char bytes[DICTIONARY_WORD_BYTES_MAX];
        struct text text;
        text_init(&text, bytes, sizeof bytes);
        text_add(&text, "\n");
        (void)option_words_assign(&text, row, &bounds[i]);
        ASSERT(!text.cut);
        dictionary_word(bytes, text.length);
    }
}

static inline void option_words_write(void)
{
    const char *section = "";
    for (uint32_t i = 0; i < config_option_rows_count; i++) {
        const struct option_row *row = &config_option_rows[i];
        if (strcmp(row->section, section) != 0) {
            section = row->section;
            dictionary_join("\n[", section, "]\n");
            dictionary_join("", section, ".");
        }
        option_words_bounds(row);
        if (row->type == OPTION_CHOICE) {
            option_words_choice(row);
        }
        if (row->type == OPTION_TEXT && row->default_text[0] != '\0') {
            dictionary_text(row->default_text);
        }
    }
}
