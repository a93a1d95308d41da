/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the exit statuses of every role: docs/operations.md. */
enum boot_exit {
    BOOT_EXIT_OK = 0,
    BOOT_EXIT_USAGE = 1,
    BOOT_EXIT_SELFTEST = 1,         /* a check has failed */
    BOOT_EXIT_CONFIG = 2,
    BOOT_EXIT_MODEL = 3,
    BOOT_EXIT_MEMORY = 4,
    BOOT_EXIT_LISTEN = 5,
    BOOT_EXIT_ENGINE = 6,
    BOOT_EXIT_SYSTEM = 7,
    BOOT_EXIT_CORE = 8,             /* the core ended unexpectedly */
};
