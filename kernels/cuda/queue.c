/* SPDX-License-Identifier: MIT */
/*
 * What: a GPU that is ours; see queue.h.
 */
#include "kernels/cuda/queue.h"

#include <stdio.h>
#include <string.h>

#include "appliance/base/assert.h"
#include "kernels/cuda/images.h"

static const char *const kernel_names[GPU_KERNELS] = {
#define KERNEL(name) #name,
#include "kernels/cuda/kernels.def"
#undef KERNEL
};

/* After a failure nothing is asked any more. */
#define CALL(device, entry, ...)                                        \
    do {                                                                \
        if ((device)->result == DRIVER_SUCCESS) {                       \
            (device)->result = (device)->driver.entry(__VA_ARGS__);     \
            (device)->failed = #entry;                                  \
        }                                                               \
    } while (0)

/* ---- boot ---- */

static enum status status_of(const struct gpu_device *device, struct config_error *error)
{
    if (device->result != DRIVER_SUCCESS) {
        snprintf(error->text, sizeof error->text, "GPU: %s: %s", device->failed,
                 driver_result_name(&device->driver, device->result));
    }
    return driver_status(device->result);
}

static uint32_t capability_of(struct gpu_device *device, int ordinal)
{
    int major = 0, minor = 0;
    CALL(device, cuDeviceGetAttribute, &major, DRIVER_CAPABILITY_MAJOR, ordinal);
    CALL(device, cuDeviceGetAttribute, &minor, DRIVER_CAPABILITY_MINOR, ordinal);
    return (uint32_t)(major * 10 + minor);
}

static void find_kernels(struct gpu_device *device, struct CUmod_st *module)
{
    for (uint32_t i = 0; i < GPU_KERNELS && device->result == DRIVER_SUCCESS; i++) {
        if (device->kernels[i] != NULL) {
            continue;
        }
        unsigned result = device->driver.cuModuleGetFunction(&device->kernels[i], module,
                                                             kernel_names[i]);
        if (result != DRIVER_NOT_FOUND) {   /* it may be in another image */
            device->result = result;
            device->failed = "cuModuleGetFunction";
        }
    }
}

static void load_images(struct gpu_device *device, const char *arch)
{
    struct CUmod_st *module = NULL;
    if (strcmp(arch, IMAGES_SOFT) == 0) {
        CALL(device, cuModuleLoadData, &module, IMAGES_SOFT_BYTES);
        find_kernels(device, module);
        return;
    }
    for (uint32_t i = 0; i < images_count; i++) {
        if (strcmp(images[i].arch, arch) == 0) {
            CALL(device, cuModuleLoadData, &module, images_data[i]);
            find_kernels(device, module);
        }
    }
}

static enum status load_kernels(struct gpu_device *device, int ordinal, struct config_error *error)
{
    uint32_t capability = capability_of(device, ordinal);
    const char *arch = images_arch(capability);
    if (arch == NULL) {
        snprintf(error->text, sizeof error->text,
                 "GPU: compute capability %u.%u; expected one that agentix --version lists",
                 capability / 10, capability % 10);
        return STATUS_CONFIG_GPU_IMAGE;
    }
    int shared_bytes = 0;
    CALL(device, cuDeviceGetAttribute, &shared_bytes, DRIVER_SHARED_BYTES_MAX, ordinal);
    load_images(device, arch);
    TRY(status_of(device, error));
    for (uint32_t i = 0; i < GPU_KERNELS; i++) {
        if (device->kernels[i] == NULL) {
            snprintf(error->text, sizeof error->text, "GPU: no kernel %s for %s", kernel_names[i],
                     arch);
            return STATUS_CONFIG_GPU_IMAGE;
        }
        CALL(device, cuFuncSetAttribute, device->kernels[i], DRIVER_FUNCTION_SHARED_BYTES,
             shared_bytes);
    }
    return status_of(device, error);
}

enum status gpu_open(struct gpu_device *device, const char *library, struct config_error *error)
{
    int ordinal = 0;
    memset(device, 0, sizeof *device);
    TRY(driver_open(&device->driver, library, DRIVER_VERSION_MIN, error));
    CALL(device, cuInit, 0);
    CALL(device, cuDeviceGet, &ordinal, 0);
    CALL(device, cuDevicePrimaryCtxSetFlags, ordinal,
         DRIVER_CONTEXT_BLOCKING | DRIVER_CONTEXT_KEEPS_LOCAL);
    CALL(device, cuDevicePrimaryCtxRetain, &device->context, ordinal);
    CALL(device, cuCtxSetCurrent, device->context);
    CALL(device, cuStreamCreate, &device->stream, DRIVER_STREAM_NON_BLOCKING);
    TRY(status_of(device, error));
    return load_kernels(device, ordinal, error);
}

enum status gpu_reserve(struct gpu_device *device, uint64_t bytes, struct config_error *error)
{
    unsigned long long address = 0;
    ASSERT(device->memory == 0 && bytes > 0);
    CALL(device, cuMemAlloc, &address, bytes);
    device->memory = address;
    device->memory_bytes = bytes;
    return status_of(device, error);
}

void gpu_close(struct gpu_device *device)
{
    struct driver *driver = &device->driver;
    if (driver->library == NULL) {
        return;
    }
    if (device->memory != 0) {
        driver->cuMemFree(device->memory);
    }
    driver->cuStreamDestroy(device->stream);
    driver->cuCtxSetCurrent(NULL);
    driver->cuDevicePrimaryCtxRelease(0);
    driver_close(driver);
}

uint64_t gpu_take(struct gpu_device *device, uint64_t count, uint64_t size_bytes)
{
    uint64_t bytes = gpu_taken_bytes(count, size_bytes);
    ASSERT(bytes <= device->memory_bytes - device->used_bytes);
    uint64_t address = device->memory + device->used_bytes;
    device->used_bytes += bytes;
    return address;
}

void gpu_pin(struct gpu_device *device, void *memory, uint64_t bytes)
{
    CALL(device, cuMemHostRegister, memory, bytes, DRIVER_HOST_MAPPED);
}

void gpu_create_event(struct gpu_device *device, struct CUevent_st **event)
{
    CALL(device, cuEventCreate, event, DRIVER_EVENT_UNTIMED);
}

void gpu_destroy_event(struct gpu_device *device, struct CUevent_st *event)
{
    device->driver.cuEventDestroy(event);
}

/* ---- work ---- */

void gpu_upload(struct gpu_device *device, uint64_t to, const void *from, uint64_t bytes)
{
    CALL(device, cuMemcpyHtoDAsync, to, from, bytes, device->stream);
}

void gpu_download(struct gpu_device *device, void *to, uint64_t from, uint64_t bytes)
{
    CALL(device, cuMemcpyDtoHAsync, to, from, bytes, device->stream);
}

void gpu_copy(struct gpu_device *device, uint64_t to, uint64_t from, uint64_t bytes)
{
    CALL(device, cuMemcpyDtoDAsync, to, from, bytes, device->stream);
}

void gpu_clear(struct gpu_device *device, uint64_t at, uint64_t bytes)
{
    CALL(device, cuMemsetD8Async, at, 0, bytes, device->stream);
}

void gpu_launch_kernel(struct gpu_device *device, enum gpu_kernel kernel,
                       const struct gpu_launch *launch, const void *args)
{
    void *parameters[] = {(void *)(uintptr_t)args};     /* copied before the call returns */
    CALL(device, cuLaunchKernel, device->kernels[kernel], launch->grid[0], launch->grid[1],
         launch->grid[2], launch->block[0], launch->block[1], launch->block[2],
         launch->shared_bytes, device->stream, parameters, NULL);
}

void gpu_mark(struct gpu_device *device, struct CUevent_st *event)
{
    CALL(device, cuEventRecord, event, device->stream);
}

bool gpu_is_past(struct gpu_device *device, struct CUevent_st *event)
{
    if (device->result != DRIVER_SUCCESS) {
        return false;
    }
    unsigned result = device->driver.cuEventQuery(event);
    if (result == DRIVER_SUCCESS || result == DRIVER_NOT_READY) {
        return result == DRIVER_SUCCESS;
    }
    device->result = result;
    device->failed = "cuEventQuery";
    return false;
}

enum status gpu_wait(struct gpu_device *device)
{
    CALL(device, cuStreamSynchronize, device->stream);
    return driver_status(device->result);
}

enum status gpu_check(struct gpu_device *device, struct config_error *error)
{
    return gpu_wait(device) == STATUS_OK ? STATUS_OK : status_of(device, error);
}
