/* SPDX-License-Identifier: MIT */
#pragma once
/* What: a shared library whose entry points are found by name; a refusal names library and entry
 * point. Owner: the GPU worker. */
#include "config/config.h"

struct library {
    const char *name;               /* as dlopen() takes it */
    const char *expected;           /* what it should be */
    void *handle;                   /* its owner closes it by dlclose() */
};

/* BOOT_ONLY. */
MUST_CHECK enum status library_open(struct library *library, struct config_error *error);
/* BOOT_ONLY. Stores the address in the function pointer at `pointer`. */
MUST_CHECK enum status library_find(const struct library *library, const char *entry, void *pointer,
                                    struct config_error *error);
