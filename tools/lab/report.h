/* SPDX-License-Identifier: MIT */
#pragma once
/* What: a result as a table for people and as JSON for programs. */
#include <stdio.h>

#include "tools/lab/lab.h"

void report_print(const struct lab_result *result, FILE *out);
/* One object, keys in a fixed order. `timing` adds the time that the scheduler took on this
 * machine, the only figure that differs from run to run; without it that is null. 0, or an exit
 * code after a message. */
int report_write_json(const struct lab_result *result, bool timing, const char *path);
/* Side by side, one column for each result. */
void report_compare(const struct lab_result *results, uint32_t count, FILE *out);
