/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the one line that a boot error is. Started by config_error_set(), lengthened by
 * config_error_add(); what does not fit is cut. BOOT_ONLY: it formats with stdio.
 */
#include "config/config.h"

/* Both return CONFIG_OPTION, so that a refusal reads `return config_error_set(...)`. */
enum status config_error_set(struct config_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
enum status config_error_add(struct config_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* "FILE:LINE: section.key = value: ", or "--set: ..." or "default: ...": where a value came
 * from. */
void config_error_begin(struct config_error *error, const struct options *options,
                        const struct option_row *row);
