/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the search for an option by its name, and the guess at the one that was meant. */
#include "config/config.h"

/* NULL: there is no such option. */
const struct option_row *config_options_find(const char *section, const char *key);
/* Length-bounded: `section` need not be terminated. */
bool config_options_has_section(const char *section, uint32_t section_bytes);
/* The row whose "section.key" is nearest to what was written, or NULL when none is near.
 * `key` NULL: only the section counts. */
const struct option_row *config_options_nearest(const char *section, const char *key);
