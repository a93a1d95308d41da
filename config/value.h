/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: one option's value, from text and back. The only number parser of the INI file and --set.
 */
#include "config/config.h"

/* Parses `text` as the row's type wants it and checks its range. On refusal `value` is unchanged
 * and `problem` is a fixed text. The value's line stays the caller's. */
MUST_CHECK enum status config_value_parse(const struct option_row *row, const char *text,
                                          struct option_value *value, const char **problem);
/* What the row allows, for messages and tables: "1 .. 16", "1ms .. 1min", "f32|f16". */
uint32_t config_value_range(const struct option_row *row, char *text, uint32_t max);
