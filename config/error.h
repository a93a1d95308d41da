/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a boot error, which is one line. config_error_set() starts it, config_error_add() appends;
 * text that does not fit is cut. BOOT_ONLY: it formats with stdio.
 */
#include "config/config.h"

/* Both return CONFIG_OPTION, so that a refusal reads `return config_error_set(...)`. */
enum status config_error_set(struct config_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
enum status config_error_add(struct config_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Starts the line with the origin of a value: "FILE:LINE: section.key = value: ", "--set: ..." or
 * "default: ...". */
void config_error_begin(struct config_error *error, const struct options *options,
                        const struct option_row *row);
