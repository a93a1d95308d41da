/* SPDX-License-Identifier: MIT */
#pragma once
/* What: a file that boot reads, after a look at what it is and who may change it. */
#include "config/config.h"

enum config_file_kind {
    CONFIG_FILE_PLAIN,          /* not everybody may write it */
    CONFIG_FILE_SECRET,         /* nobody but its owner may read it, and that is us or root */
};
/* Opens it for reading. BOOT_ONLY. */
MUST_CHECK enum status config_file_open(const char *path, enum config_file_kind kind, int *file,
                                        struct config_error *error);
/* Reads at most `max` of what is left; fewer only at its end. BOOT_ONLY. */
MUST_CHECK enum status config_file_next(int file, const char *path, char *bytes, size_t max,
                                        size_t *count, struct config_error *error);
/* Reads a small one whole. Fills `bytes` with at most `max` of it: ask for one more than is
 * allowed, so that a file which grows is noticed. BOOT_ONLY. */
MUST_CHECK enum status config_file_read(const char *path, enum config_file_kind kind, char *bytes,
                                        size_t max, size_t *count, struct config_error *error);
