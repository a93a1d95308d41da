/* SPDX-License-Identifier: MIT */
#pragma once
/* What: tables of the documents that come from one .def file each; tools/docgen.c has those of
 * frames. `none`: a table that a page asks for may have a parameter, and these have none. */

/* Whole pages. */
void docgen_stats(void);
void docgen_events(void);
/* Tables within a page. */
void docgen_policies(const char *none);
void docgen_exit(const char *none);
void docgen_arguments(const char *none);
