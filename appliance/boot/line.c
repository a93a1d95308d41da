/* SPDX-License-Identifier: MIT */
/* What: the file first, so that --set overrides it wherever it stands on the line. */
#include "appliance/boot/line.h"

#include <string.h>

static bool is_word(const struct line *line, int at, const char *word)
{
    return at + 1 < line->count && strcmp(line->words[at], word) == 0;
}

const char *line_config_path(const struct line *line)
{
    for (int i = 1; i < line->count; i++) {
        if (is_word(line, i, "--config")) {
            return line->words[i + 1];
        }
        i += is_word(line, i, "--set");
    }
    return "";
}

enum status line_read_options(const struct line *line, struct options *options,
                              struct config_error *error)
{
    const char *path = line_config_path(line);
    config_defaults(options);
    if (path[0] != '\0') {
        TRY(config_load_file(options, path, error));
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
