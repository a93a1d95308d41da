/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the value of an option, from text and to text. The INI file and --set have no other parser
 * of numbers.
 */
#include "config/config.h"

/* Parses `text` by the type of the row and checks its range. On refusal `value` is unchanged and
 * `problem` is a fixed text. The caller sets the line of the value. */
MUST_CHECK enum status config_value_parse(const struct option_row *row, const char *text,
                                          struct option_value *value, const char **problem);
/* What the row allows, for messages and tables: "1 .. 16", "1ms .. 1min", "f32|f16". */
uint32_t config_value_range(const struct option_row *row, char *text, uint32_t max);
