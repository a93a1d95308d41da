/* SPDX-License-Identifier: MIT */
/*
 * What: opens the device. Its free memory is read last: a context takes some hundred MiB of it.
 */
#include "kernels/cuda/driver/device.h"

#include <stdio.h>

#include "kernels/cuda/driver/images.h"

/* A step of device_open(): the result of the call as a status, and as an error text. */
static enum status step(const struct driver *driver, const char *name, unsigned result,
                        struct config_error *error)
{
    enum status status = driver_status(result);
    if (status != STATUS_OK) {
        snprintf(error->text, sizeof error->text, "%s: %s: %s", name,
                 driver_result_name(driver, result), status_text(status));
    }
    return status;
}

#define STEP(name, ...) TRY(step(driver, #name, driver->name(__VA_ARGS__), error))

static enum status read_attributes(struct device *device, const struct driver *driver, int handle,
                                   struct config_error *error)
{
    int major = 0, minor = 0, processors = 0, shared = 0, ecc = 0;
    STEP(cuDeviceGetName, device->name, sizeof device->name, handle);
    STEP(cuDeviceGetPCIBusId, device->bus, sizeof device->bus, handle);
    STEP(cuDeviceGetAttribute, &major, DRIVER_CAPABILITY_MAJOR, handle);
    STEP(cuDeviceGetAttribute, &minor, DRIVER_CAPABILITY_MINOR, handle);
    STEP(cuDeviceGetAttribute, &processors, DRIVER_PROCESSORS, handle);
    STEP(cuDeviceGetAttribute, &shared, DRIVER_SHARED_BYTES_MAX, handle);
    STEP(cuDeviceGetAttribute, &ecc, DRIVER_ECC, handle);
    device->name[sizeof device->name - 1] = '\0';
    device->bus[sizeof device->bus - 1] = '\0';
    device->capability = (uint32_t)(major * 10 + minor);
    device->processors = (uint32_t)processors;
    device->shared_bytes_max = (uint32_t)shared;
    device->corrects_errors = ecc != 0;
    return STATUS_OK;
}

static enum status choose_arch(struct device *device, struct config_error *error)
{
    device->arch = images_arch(images_archs, device->capability);
    if (device->arch != NULL) {
        return STATUS_OK;
    }
    snprintf(error->text, sizeof error->text, "%s: compute capability %u.%u: this build has no "
             "kernels for it (agentix --version)", device->name, device->capability / 10,
             device->capability % 10);
    return STATUS_CONFIG_GPU_IMAGE;
}

enum status device_measure(struct device *device, const struct driver *driver,
                           struct config_error *error)
{
    size_t free_bytes = 0, total_bytes = 0;
    STEP(cuMemGetInfo, &free_bytes, &total_bytes);
    device->free_bytes = free_bytes;
    device->memory_bytes = total_bytes;
    return STATUS_OK;
}

static enum status open_context(struct device *device, const struct driver *driver, int handle,
                                struct config_error *error)
{
    STEP(cuDevicePrimaryCtxSetFlags, handle, DRIVER_CONTEXT_BLOCKING | DRIVER_CONTEXT_KEEPS_LOCAL);
    STEP(cuDevicePrimaryCtxRetain, &device->context, handle);
    STEP(cuCtxSetCurrent, device->context);
    return device_measure(device, driver, error);
}

static enum status refuse_number(uint32_t number, int count, struct config_error *error)
{
    snprintf(error->text, sizeof error->text, "engine.devices: %u: the driver shows %d, numbered "
             "from 0", number, count);
    return STATUS_CONFIG_GPU_NONE;
}

enum status device_open(struct device *device, const struct driver *driver, uint32_t number,
                        struct config_error *error)
{
    int count = 0, handle = 0;
    *device = (struct device){.context = NULL};
    STEP(cuInit, 0);
    STEP(cuDeviceGetCount, &count);
    if (count == 0) {
        return step(driver, "cuDeviceGetCount", DRIVER_NO_DEVICE, error);
    }
    if (number >= (uint32_t)count) {
        return refuse_number(number, count, error);
    }
    STEP(cuDeviceGet, &handle, (int)number);
    TRY(read_attributes(device, driver, handle, error));
    TRY(choose_arch(device, error));
    return open_context(device, driver, handle, error);
}
