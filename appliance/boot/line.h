/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the options that a command line leads to, at boot and again at a reload. */
#include "config/config.h"

struct line {                       /* of the program; it stays where it is */
    int count;
    char **words;
};

/* Defaults, then the file of --config, then each --set, wherever it stands. The line has been
 * checked: no word is missing. BOOT_ONLY. */
MUST_CHECK enum status line_read_options(const struct line *line, struct options *options,
                                         struct config_error *error);
/* The file of --config; empty: none. */
const char *line_config_path(const struct line *line);
