/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the guess at the option that was meant. */
#include "config/config.h"

/* Length-bounded: `section` need not be terminated. */
bool config_options_has_section(const char *section, uint32_t section_bytes);
/* The row whose "section.key" is nearest to what was written, or NULL when none is near.
 * `key` NULL: only the section counts. */
const struct option_row *config_options_nearest(const char *section, const char *key);
