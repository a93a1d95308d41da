/* SPDX-License-Identifier: MIT */
/*
 * What: finds the driver's entry points. Two of them are looked up in the library itself:
 *
 *   cuDriverGetVersion     a driver that is too old is refused before any other call
 *   cuGetProcAddress_v2    finds each row of driver.def with the signature of the row's version
 *
 * Invariant: after OK every pointer of the table is set; after a refusal the library is closed.
 * Why not dlsym() for all: the same name has several signatures ("cuMemAlloc" takes 32 bits, its
 * successor is "cuMemAlloc_v2"); the lookup by version is the documented way to get the right one.
 */
#include "kernels/cuda/driver/driver.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/driver/library.h"

#define LEGACY_STREAM 1             /* the meaning of a NULL stream, which is never used */

/* The finder's signature never changes: the version is in the name. */
#define FINDER "cuGetProcAddress_v2"
struct finder {
    unsigned (*find)(const char *name, void **address, int version, uint64_t flags,
                     unsigned *found);
    const char *library;            /* its name, for errors */
};

enum status driver_status(unsigned result)
{
    switch (result) {
    case DRIVER_SUCCESS:
        return STATUS_OK;
#define RESULT(name, number, status) case DRIVER_##name: return STATUS_##status;
#include "kernels/cuda/driver/result.def"
#undef RESULT
    default:
        return STATUS_DEVICE_FAILED;
    }
}

const char *driver_result_name(const struct driver *driver, unsigned result)
{
    const char *name = NULL;
    return driver->cuGetErrorName(result, &name) == DRIVER_SUCCESS && name != NULL
               ? name
               : "an unknown CUDA error";
}

static enum status check_version(struct driver *driver, const struct library *library,
                                 int version_min, struct config_error *error)
{
    unsigned (*version)(int *version);
    TRY(library_find(library, "cuDriverGetVersion", &version, error));
    unsigned result = version(&driver->version);
    if (result != DRIVER_SUCCESS) {
        snprintf(error->text, sizeof error->text, "%s: tells no version: CUDA error %u; expected "
                 "%s", library->name, result, library->expected);
        return STATUS_CONFIG_GPU_DRIVER;
    }
    if (driver->version < version_min) {
        snprintf(error->text, sizeof error->text, "%s: the driver is of CUDA %d.%d; expected %d.%d "
                 "or later", library->name, driver->version / 1000, driver->version % 1000 / 10,
                 version_min / 1000, version_min % 1000 / 10);
        return STATUS_CONFIG_GPU_VERSION;
    }
    return STATUS_OK;
}

static enum status find_entry(const struct finder *finder, const char *name, int version,
                              void *pointer, struct config_error *error)
{
    void *address = NULL;
    unsigned found = 0;
    unsigned result = finder->find(name, &address, version, LEGACY_STREAM, &found);
    if (result != DRIVER_SUCCESS || address == NULL) {
        snprintf(error->text, sizeof error->text, "%s: lacks %s; expected it as of CUDA %d.%d",
                 finder->library, name, version / 1000, version % 1000 / 10);
        return STATUS_CONFIG_GPU_ENTRY;
    }
    memcpy(pointer, &address, sizeof address);
    return STATUS_OK;
}

static enum status find_entries(struct driver *driver, const struct library *library,
                                struct config_error *error)
{
    struct finder finder = {.library = library->name};
    TRY(library_find(library, FINDER, &finder.find, error));
#define ENTRY(name, version, parameters) \
    TRY(find_entry(&finder, #name, version, &driver->name, error));
#include "kernels/cuda/driver/driver.def"
#undef ENTRY
    return STATUS_OK;
}

enum status driver_open(struct driver *driver, const char *name, int version_min,
                        struct config_error *error)
{
    struct library library = {.name = name, .expected = "the library of an NVIDIA driver"};
    *driver = (struct driver){.library = NULL};
    TRY(library_open(&library, error));
    driver->library = library.handle;
    enum status status = check_version(driver, &library, version_min, error);
    if (status == STATUS_OK) {
        status = find_entries(driver, &library, error);
    }
    if (status != STATUS_OK) {
        driver_close(driver);
    }
    return status;
}

void driver_close(struct driver *driver)
{
    if (driver->library != NULL) {
        dlclose(driver->library);
    }
    *driver = (struct driver){.library = NULL};
}
