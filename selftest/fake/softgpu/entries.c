/* SPDX-License-Identifier: MIT */
/*
 * What: the entry points, one for each row of driver.def: a row without a function here does not
 * compile. Each takes the lock, reports an error that stays, and leaves the work to the other
 * files.
 */
#include "selftest/fake/softgpu/softgpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/device/host.h"
#include "selftest/fake/softgpu/device.h"

#define MEMORY_BYTES (UINT64_C(256) << 20)
#define VERSION 13000
#define PROCESSORS 2

struct CUctx_st {
    uint32_t retained;
};

static struct {
    bool is_initialized;
    uint64_t capability;            /* of the device whose context there is */
    int handle;                     /* of that */
    struct CUctx_st context;
} device;
static _Thread_local struct CUctx_st *current;

/* Takes the lock. */
static unsigned enter_uncounted(void)
{
    pthread_mutex_lock(&soft_lock);
    return !device.is_initialized ? SOFT_NOT_INITIALIZED
           : current == NULL      ? soft_refuse(SOFT_INVALID_CONTEXT, "no current context")
                                  : soft_error();
}

/* Takes the lock, and counts a call for the faults. */
static unsigned enter(void)
{
    unsigned error = enter_uncounted();
    if (soft_fault_strikes(FAULT_STICKY)) {
        soft_fail(DRIVER_ILLEGAL_ADDRESS);
    }
    if (soft_fault_strikes(FAULT_LOST)) {
        soft_fail(DRIVER_DEVICE_UNAVAILABLE);
    }
    return error != 0 ? error : soft_error();
}

static unsigned leave(unsigned result)
{
    pthread_mutex_unlock(&soft_lock);
    return result;
}

#define LOCKED(expression)                                                    \
    do {                                                                      \
        unsigned locked_error_ = enter();                                     \
        return leave(locked_error_ != 0 ? locked_error_ : (expression));      \
    } while (0)

/* ---- device and context ---- */

static unsigned soft_cuInit(unsigned flags)
{
    if (soft_environment("SOFTGPU_DEVICES", 1) == 0) {
        return DRIVER_NO_DEVICE;
    }
    soft_faults_init();
    pthread_mutex_lock(&soft_lock);
    soft_streams_init(soft_environment("SOFTGPU_LAZY", 0) != 0,
                      (uint32_t)soft_environment("SOFTGPU_FIRST", 0));
    soft_memory_init(soft_environment_of("SOFTGPU_MEMORY", 0, MEMORY_BYTES));
    gpu_host_skew(soft_environment("SOFTGPU_MMA_SKEWED", 0) != 0);
    device.capability = soft_environment_of("SOFTGPU_CAPABILITY", 0, 0);
    device.is_initialized = true;
    return leave(flags == 0 ? DRIVER_SUCCESS : SOFT_INVALID_VALUE);
}

static unsigned soft_cuGetErrorName(unsigned result, const char **name)
{
    switch (result) {
#define RESULT(name_, number, status) case number: *name = "CUDA_ERROR_" #name_; return 0;
#include "kernels/cuda/driver/result.def"
#undef RESULT
    default:
        return SOFT_INVALID_VALUE;
    }
}

static unsigned soft_cuDeviceGetCount(int *count)
{
    *count = (int)soft_environment("SOFTGPU_DEVICES", 1);
    return device.is_initialized ? DRIVER_SUCCESS : SOFT_NOT_INITIALIZED;
}

static unsigned soft_cuDeviceGet(int *handle, int ordinal)
{
    *handle = ordinal;
    return ordinal >= 0 && ordinal < (int)soft_environment("SOFTGPU_DEVICES", 1)
               ? DRIVER_SUCCESS : SOFT_INVALID_VALUE;
}

static unsigned soft_cuDeviceGetName(char *name, int bytes, int handle)
{
    static const char ours[] = "soft";
    if (bytes < (int)sizeof ours) {
        return SOFT_INVALID_VALUE;
    }
    memcpy(name, ours, sizeof ours);
    return DRIVER_SUCCESS;
}

static unsigned soft_cuDeviceGetPCIBusId(char *bus, int bytes, int handle)
{
    if (bytes < SOFT_BUS_BYTES || handle < 0 || handle >= SOFT_DEVICES_MAX) {
        return SOFT_INVALID_VALUE;
    }
    snprintf(bus, SOFT_BUS_BYTES, SOFT_BUS, (unsigned)(SOFT_BUS_FIRST + handle) & 0xff);
    return DRIVER_SUCCESS;
}

static unsigned soft_cuDeviceGetAttribute(int *value, unsigned attribute, int handle)
{
    int capability = (int)soft_environment_of("SOFTGPU_CAPABILITY", (uint32_t)handle, 0);
    switch (attribute) {
    case DRIVER_PROCESSORS:
        *value = (int)soft_environment_of("SOFTGPU_PROCESSORS", (uint32_t)handle, PROCESSORS);
        return DRIVER_SUCCESS;
    case DRIVER_ECC:
        *value = 0;
        return DRIVER_SUCCESS;
    case DRIVER_CAPABILITY_MAJOR:
        *value = capability / 10;
        return DRIVER_SUCCESS;
    case DRIVER_CAPABILITY_MINOR:
        *value = capability % 10;
        return DRIVER_SUCCESS;
    case DRIVER_SHARED_BYTES_MAX:
        *value = 227 << 10;
        return DRIVER_SUCCESS;
    default:
        return soft_refuse(SOFT_INVALID_VALUE, "no attribute %u", attribute);
    }
}

static unsigned soft_cuDeviceTotalMem(size_t *bytes, int handle)
{
    uint64_t size = 0;
    soft_memory_free(&size);
    *bytes = size;
    return DRIVER_SUCCESS;
}

static unsigned soft_cuDevicePrimaryCtxSetFlags(int handle, unsigned flags)
{
    return handle >= 0 && handle < SOFT_DEVICES_MAX ? DRIVER_SUCCESS : SOFT_INVALID_VALUE;
}

/* Memory and streams are of the process: a second device would share them, which no GPU does. */
static unsigned soft_cuDevicePrimaryCtxRetain(struct CUctx_st **context, int handle)
{
    if (device.context.retained > 0 && device.handle != handle) {
        return soft_refuse(SOFT_INVALID_VALUE, "a process has one device");
    }
    device.handle = handle;
    device.context.retained++;
    device.capability = soft_environment_of("SOFTGPU_CAPABILITY", (uint32_t)handle, 0);
    soft_memory_init(soft_environment_of("SOFTGPU_MEMORY", (uint32_t)handle, MEMORY_BYTES));
    soft_faults_of((uint32_t)handle);
    *context = &device.context;
    return DRIVER_SUCCESS;
}

static unsigned soft_cuDevicePrimaryCtxRelease(int handle)
{
    if (device.context.retained == 0) {
        return SOFT_INVALID_CONTEXT;
    }
    device.context.retained--;
    if (device.context.retained == 0) {
        pthread_mutex_lock(&soft_lock);
        soft_streams_free();
        pthread_mutex_unlock(&soft_lock);
    }
    return DRIVER_SUCCESS;
}

static unsigned soft_cuCtxSetCurrent(struct CUctx_st *context)
{
    if (context != NULL && context->retained == 0) {
        return SOFT_INVALID_CONTEXT;
    }
    current = context;
    return DRIVER_SUCCESS;
}

static unsigned soft_cuCtxSetLimit(unsigned limit, size_t value)
{
    LOCKED(limit <= DRIVER_LIMIT_HEAP ? DRIVER_SUCCESS : SOFT_INVALID_VALUE);
}

static unsigned soft_cuCtxSynchronize(void)
{
    LOCKED(soft_wait_all());
}

/* ---- memory ---- */

static unsigned soft_cuMemGetInfo(size_t *free, size_t *total)
{
    uint64_t size = 0;
    unsigned error = enter();
    *free = soft_memory_free(&size);
    *total = size;
    return leave(error);
}

static unsigned soft_cuMemAlloc(unsigned long long *address, size_t bytes)
{
    void *memory = NULL;
    unsigned result = enter();
    result = result != 0 ? result : soft_reserve(PLACE_DEVICE, &memory, bytes);
    *address = (uintptr_t)memory;
    return leave(result);
}

/* Freeing waits for all work, as in a driver. */
static unsigned soft_cuMemFree(unsigned long long address)
{
    LOCKED((soft_wait_all(), soft_release(PLACE_DEVICE, (void *)(uintptr_t)address)));
}

static unsigned soft_cuMemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    LOCKED(soft_reserve(PLACE_HOST, memory, bytes));
}

static unsigned soft_cuMemFreeHost(void *memory)
{
    LOCKED((soft_wait_all(), soft_release(PLACE_HOST, memory)));
}

static unsigned soft_cuMemHostRegister(void *memory, size_t bytes, unsigned flags)
{
    LOCKED(soft_register(memory, bytes));
}

static unsigned soft_cuMemHostUnregister(void *memory)
{
    LOCKED((soft_wait_all(), soft_unregister(memory)));
}

/* ---- copies and fills ---- */

#define LARGE_BYTES (64u << 10)     /* a driver copies few bytes by other ways than many */

struct copy {
    uint8_t *to;
    const uint8_t *from;
    size_t bytes;
    bool is_corrupt;
};

static bool run_copy(const void *arguments)
{
    const struct copy *copy = arguments;
    memmove(copy->to, copy->from, copy->bytes);
    if (copy->is_corrupt && copy->bytes > 0) {
        copy->to[copy->bytes / 2] ^= 1;
    }
    return true;
}

struct end {                        /* of a copy: destination or source */
    enum soft_place place;
    uintptr_t at;
};

static unsigned submit_copy(struct CUstream_st *stream, struct end to, struct end from,
                            size_t bytes)
{
    static const char *const places[] = {[PLACE_DEVICE] = "device", [PLACE_HOST] = "host"};
    struct copy copy = {(uint8_t *)to.at, (const uint8_t *)from.at, bytes, false};
    if (!soft_memory_holds(to.place, copy.to, bytes) ||
        !soft_memory_holds(from.place, copy.from, bytes)) {
        return soft_refuse(SOFT_INVALID_VALUE, "a copy of %zu bytes that are not all within one "
                           "allocation, or not pinned", bytes);
    }
    soft_first("copy-%s-%s-%s-stream-%u", places[from.place], places[to.place],
               bytes < LARGE_BYTES ? "small" : "large", soft_stream_number(stream));
    copy.is_corrupt = soft_fault_strikes(FAULT_CORRUPT);
    return soft_submit(stream, run_copy, &copy, sizeof copy);
}

static unsigned soft_cuMemcpyHtoDAsync(unsigned long long to, const void *from, size_t bytes,
                                       struct CUstream_st *stream)
{
    const struct end dst = {PLACE_DEVICE, to}, src = {PLACE_HOST, (uintptr_t)from};
    LOCKED(submit_copy(stream, dst, src, bytes));
}

static unsigned soft_cuMemcpyDtoHAsync(void *to, unsigned long long from, size_t bytes,
                                       struct CUstream_st *stream)
{
    const struct end dst = {PLACE_HOST, (uintptr_t)to}, src = {PLACE_DEVICE, from};
    LOCKED(submit_copy(stream, dst, src, bytes));
}

static unsigned soft_cuMemcpyDtoDAsync(unsigned long long to, unsigned long long from, size_t bytes,
                                       struct CUstream_st *stream)
{
    const struct end dst = {PLACE_DEVICE, to}, src = {PLACE_DEVICE, from};
    LOCKED(submit_copy(stream, dst, src, bytes));
}

struct fill {
    uint8_t *to;
    size_t count;
    uint32_t value, element_bytes;
};

static bool run_fill(const void *arguments)
{
    const struct fill *fill = arguments;
    for (size_t i = 0; i < fill->count; i++) {
        memcpy(fill->to + i * fill->element_bytes, &fill->value, fill->element_bytes);
    }
    return true;
}

static unsigned submit_fill(struct CUstream_st *stream, const struct fill *fill)
{
    if (!soft_memory_holds(PLACE_DEVICE, fill->to, fill->count * fill->element_bytes)) {
        return soft_refuse(SOFT_INVALID_VALUE, "a fill of %zu elements that are not all within one "
                           "allocation", fill->count);
    }
    soft_first("fill-stream-%u", soft_stream_number(stream));
    return soft_submit(stream, run_fill, fill, sizeof *fill);
}

static unsigned soft_cuMemsetD8Async(unsigned long long to, unsigned char value, size_t count,
                                     struct CUstream_st *stream)
{
    const struct fill fill = {(uint8_t *)(uintptr_t)to, count, value, 1};
    LOCKED(submit_fill(stream, &fill));
}

static unsigned soft_cuMemsetD32Async(unsigned long long to, unsigned value, size_t count,
                                      struct CUstream_st *stream)
{
    const struct fill fill = {(uint8_t *)(uintptr_t)to, count, value, sizeof value};
    LOCKED(submit_fill(stream, &fill));
}

/* ---- streams and events ---- */

static unsigned soft_cuStreamCreate(struct CUstream_st **stream, unsigned flags)
{
    LOCKED(soft_stream_create(stream));
}

static unsigned soft_cuStreamDestroy(struct CUstream_st *stream)
{
    LOCKED(soft_stream_destroy(stream));
}

static unsigned soft_cuStreamQuery(struct CUstream_st *stream)
{
    LOCKED(soft_stream_query(stream));
}

static unsigned soft_cuStreamSynchronize(struct CUstream_st *stream)
{
    LOCKED(soft_stream_wait(stream));
}

static unsigned soft_cuStreamWaitEvent(struct CUstream_st *stream, struct CUevent_st *event,
                                       unsigned flags)
{
    LOCKED(soft_stream_wait_event(stream, event));
}

static unsigned soft_cuEventCreate(struct CUevent_st **event, unsigned flags)
{
    LOCKED(soft_event_create(event, (flags & DRIVER_EVENT_UNTIMED) == 0));
}

static unsigned soft_cuEventDestroy(struct CUevent_st *event)
{
    LOCKED(soft_event_destroy(event));
}

static unsigned soft_cuEventRecord(struct CUevent_st *event, struct CUstream_st *stream)
{
    LOCKED(soft_event_record(event, stream));
}

static unsigned soft_cuEventQuery(struct CUevent_st *event)
{
    unsigned error = enter_uncounted();     /* how often a caller looks is chance */
    return leave(error != 0 ? error : soft_event_query(event));
}

static unsigned soft_cuEventSynchronize(struct CUevent_st *event)
{
    LOCKED(soft_event_wait(event));
}

static unsigned soft_cuEventElapsedTime(float *milliseconds, struct CUevent_st *begin,
                                        struct CUevent_st *end)
{
    LOCKED(soft_event_elapsed(milliseconds, begin, end));
}

/* ---- modules and launches ---- */

static unsigned soft_cuModuleLoadData(struct CUmod_st **module, const void *image)
{
    LOCKED(soft_module_load(module, image, device.capability));
}

static unsigned soft_cuModuleUnload(struct CUmod_st *module)
{
    LOCKED((soft_wait_all(), soft_module_unload(module)));
}

static unsigned soft_cuModuleGetFunction(struct CUfunc_st **function, struct CUmod_st *module,
                                         const char *name)
{
    LOCKED(soft_function_find(function, module, name));
}

static unsigned soft_cuFuncSetAttribute(struct CUfunc_st *function, unsigned attribute, int value)
{
    LOCKED(attribute == DRIVER_FUNCTION_SHARED_BYTES ? soft_function_set_shared(function, value)
                                                     : SOFT_INVALID_VALUE);
}

/* style-waiver: NVIDIA's signature. */
static unsigned soft_cuLaunchKernel(struct CUfunc_st *function, unsigned grid_x, unsigned grid_y,
                                    unsigned grid_z, unsigned block_x, unsigned block_y,
                                    unsigned block_z, unsigned shared_bytes,
                                    struct CUstream_st *stream, void **parameters, void **extra)
{
    const struct soft_launch launch = {
        function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes};
    LOCKED(extra != NULL ? SOFT_INVALID_VALUE : soft_launch(stream, &launch, parameters));
}

/* ---- the table ---- */

EXPORTED unsigned cuDriverGetVersion(int *version);
EXPORTED unsigned cuGetProcAddress_v2(const char *name, void **address, int version, uint64_t flags,
                                      unsigned *found);

unsigned cuDriverGetVersion(int *version)
{
    *version = (int)soft_environment("SOFTGPU_VERSION", VERSION);
    return DRIVER_SUCCESS;
}

/* Another version than the row's would mean another signature. */
unsigned cuGetProcAddress_v2(const char *name, void **address, int version, uint64_t flags,
                             unsigned *found)
{
    static const struct {
        const char *name;
        int version;
        void *address;
    } entries[] = {
#define ENTRY(name, version, parameters) {#name, version, (void *)soft_##name},
#include "kernels/cuda/driver/driver.def"
#undef ENTRY
    };
    const char *lacks = getenv("SOFTGPU_LACKS");
    for (uint32_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        if (strcmp(entries[i].name, name) == 0 && entries[i].version == version &&
            (lacks == NULL || strcmp(lacks, name) != 0)) {
            *address = entries[i].address;
            return DRIVER_SUCCESS;
        }
    }
    *address = NULL;
    return DRIVER_NOT_FOUND;
}
