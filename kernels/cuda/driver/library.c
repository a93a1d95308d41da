/* SPDX-License-Identifier: MIT */
/* What: opens shared libraries, for the driver and for cuBLAS; see library.h. */
#include "kernels/cuda/driver/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum status library_open(struct library *library, struct config_error *error)
{
    library->handle = dlopen(library->name, RTLD_NOW | RTLD_LOCAL);
    if (library->handle == NULL) {
        const char *reason = dlerror();
        snprintf(error->text, sizeof error->text, "%s: cannot be opened: %s; expected %s",
                 library->name, reason == NULL ? "unknown" : reason, library->expected);
        return STATUS_CONFIG_GPU_DRIVER;
    }
    return STATUS_OK;
}

/* POSIX guarantees that an object pointer can hold a function's address. */
enum status library_find(const struct library *library, const char *entry, void *pointer,
                         struct config_error *error)
{
    void *address = dlsym(library->handle, entry);
    if (address == NULL) {
        snprintf(error->text, sizeof error->text, "%s: lacks %s; expected %s", library->name, entry,
                 library->expected);
        return STATUS_CONFIG_GPU_ENTRY;
    }
    memcpy(pointer, &address, sizeof address);
    return STATUS_OK;
}
