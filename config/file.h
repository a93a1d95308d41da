/* SPDX-License-Identifier: MIT */
#pragma once
/* What: a file that boot reads, after a check of its kind, its owner and its mode. */
#include "config/config.h"

enum config_file_kind {
    CONFIG_FILE_PLAIN,          /* not writable by all users */
    CONFIG_FILE_SECRET,         /* readable by its owner only, who is our user or root */
};
struct config_file_bytes {
    char *bytes;                /* the caller's: room for `max` */
    size_t max, count;
};
/* Opens it for reading. BOOT_ONLY. */
MUST_CHECK enum status config_file_open(const char *path, enum config_file_kind kind, int *file,
                                        struct config_error *error);
/* Reads the next `max` bytes; fewer only at the end of the file. BOOT_ONLY. */
MUST_CHECK enum status config_file_next(int file, const char *path, struct config_file_bytes *bytes,
                                        struct config_error *error);
/* Opens, reads and closes a small file, at most `max` bytes of it. Ask for one byte more than is
 * allowed: then a file that is too large, or grows, is noticed. BOOT_ONLY. */
MUST_CHECK enum status config_file_read(const char *path, enum config_file_kind kind,
                                        struct config_file_bytes *bytes,
                                        struct config_error *error);
