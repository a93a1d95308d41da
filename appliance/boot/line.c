/* SPDX-License-Identifier: MIT */
/* What: the file first, so that --set overrides it wherever it stands on the line. */
#include "appliance/boot/line.h"

#include <string.h>

static bool is_word(const struct line *line, int at, const char *word)
{
    return at + 1 < line->count && strcmp(line->words[at], word) == 0;
}

enum status line_read_options(const struct line *line, struct options *options,
                              struct config_error *error)
{
    config_defaults(options);
    for (int i = 1; i < line->count; i++) {
        if (is_word(line, i, "--config")) {
            TRY(config_load_file(options, line->words[++i], error));
        } else if (is_word(line, i, "--set")) {
            i++;
        }
    }
    for (int i = 1; i < line->count; i++) {
        if (is_word(line, i, "--set")) {
            TRY(config_set(options, line->words[++i], error));
        } else if (is_word(line, i, "--config")) {
            i++;
        }
    }
    return STATUS_OK;
}
