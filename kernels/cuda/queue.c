/* SPDX-License-Identifier: MIT */
/* What: work that is queued on a GPU; see queue.h. */
#include "kernels/cuda/queue.h"

#include <stdio.h>
#include <string.h>

#include "config/base/assert.h"
#include "kernels/cuda/driver/images.h"

static const char *const kernel_names[GPU_KERNELS] = {
#define KERNEL(name) #name,
#include "kernels/cuda/device/kernels.def"
#undef KERNEL
};

/* After a failure no call is made any more. */
#define CALL(queue, entry, ...)                                        \
    do {                                                                \
        if ((queue)->result == DRIVER_SUCCESS) {                       \
            (queue)->result = (queue)->driver->entry(__VA_ARGS__);     \
            (queue)->failed = #entry;                                  \
        }                                                               \
    } while (0)

/* ---- boot ---- */

static enum status status_of(const struct gpu_queue *queue, struct config_error *error)
{
    if (queue->result != DRIVER_SUCCESS) {
        snprintf(error->text, sizeof error->text, "GPU: %s: %s", queue->failed,
                 driver_result_name(queue->driver, queue->result));
    }
    return driver_status(queue->result);
}

static enum status find_kernels(struct gpu_queue *queue, struct CUmod_st *module,
                                struct config_error *error)
{
    for (uint32_t i = 0; i < GPU_KERNELS; i++) {
        CALL(queue, cuModuleGetFunction, &queue->kernels[i], module, kernel_names[i]);
        if (queue->result == DRIVER_NOT_FOUND) {
            snprintf(error->text, sizeof error->text, "GPU: its image has no kernel %s",
                     kernel_names[i]);
            return STATUS_CONFIG_GPU_IMAGE;
        }
    }
    return status_of(queue, error);
}

static void open_stream(struct gpu_queue *queue)
{
    gpu_create_stream(queue);
    gpu_create_event(queue, &queue->reached);
}

enum status gpu_open(struct gpu_queue *queue, const struct driver *driver,
                     const struct device *device, struct config_error *error)
{
    *queue = (struct gpu_queue){.driver = driver, .shared_bytes_max = device->shared_bytes_max};
    const bool is_soft = strcmp(device->arch, IMAGES_SOFT) == 0;
    struct CUmod_st *module = NULL;
    open_stream(queue);
    CALL(queue, cuModuleLoadData, &module, is_soft ? (const void *)IMAGES_SOFT_BYTES : images_data);
    TRY(find_kernels(queue, module, error));
    for (uint32_t i = 0; i < GPU_KERNELS; i++) {
        CALL(queue, cuFuncSetAttribute, queue->kernels[i], DRIVER_FUNCTION_SHARED_BYTES,
             (int)device->shared_bytes_max);
    }
    return status_of(queue, error);
}

void gpu_open_beside(struct gpu_queue *beside, const struct gpu_queue *queue)
{
    *beside = *queue;
    beside->memory = beside->memory_bytes = beside->used_bytes = 0;
    open_stream(beside);
}

enum status gpu_reserve(struct gpu_queue *queue, uint64_t bytes, struct config_error *error)
{
    unsigned long long address = 0;
    ASSERT(queue->memory == 0 && bytes > 0);
    CALL(queue, cuMemAlloc, &address, bytes);
    queue->memory = address;
    queue->memory_bytes = bytes;
    return status_of(queue, error);
}

void gpu_close(struct gpu_queue *queue)
{
    if (queue->memory != 0) {
        queue->driver->cuMemFree(queue->memory);
    }
    gpu_destroy_event(queue, queue->reached);
    queue->driver->cuStreamDestroy(queue->stream);
}

uint64_t gpu_take(struct gpu_queue *queue, uint64_t count, uint64_t size_bytes)
{
    uint64_t bytes = gpu_taken_bytes(count, size_bytes);
    ASSERT(bytes <= queue->memory_bytes - queue->used_bytes);
    uint64_t address = queue->memory + queue->used_bytes;
    queue->used_bytes += bytes;
    return address;
}

void gpu_pin(struct gpu_queue *queue, void *memory, uint64_t bytes)
{
    CALL(queue, cuMemHostRegister, memory, bytes, DRIVER_HOST_MAPPED);
}

void gpu_create_stream(struct gpu_queue *queue)
{
    CALL(queue, cuStreamCreate, &queue->stream, DRIVER_STREAM_NON_BLOCKING);
}

void gpu_create_event(struct gpu_queue *queue, struct CUevent_st **event)
{
    CALL(queue, cuEventCreate, event, DRIVER_EVENT_UNTIMED);
}

void gpu_destroy_event(struct gpu_queue *queue, struct CUevent_st *event)
{
    queue->driver->cuEventDestroy(event);
}

/* ---- work ---- */

void gpu_upload(struct gpu_queue *queue, uint64_t to, const void *from, uint64_t bytes)
{
    CALL(queue, cuMemcpyHtoDAsync, to, from, bytes, queue->stream);
}

void gpu_download(struct gpu_queue *queue, void *to, uint64_t from, uint64_t bytes)
{
    CALL(queue, cuMemcpyDtoHAsync, to, from, bytes, queue->stream);
}

void gpu_copy(struct gpu_queue *queue, uint64_t to, uint64_t from, uint64_t bytes)
{
    CALL(queue, cuMemcpyDtoDAsync, to, from, bytes, queue->stream);
}

void gpu_clear(struct gpu_queue *queue, uint64_t at, uint64_t bytes)
{
    CALL(queue, cuMemsetD8Async, at, 0, bytes, queue->stream);
}

void gpu_launch_kernel(struct gpu_queue *queue, enum gpu_kernel kernel,
                       const struct gpu_launch *launch, const void *args)
{
    void *parameters[] = {(void *)(uintptr_t)args};     /* copied before the call returns */
    CALL(queue, cuLaunchKernel, queue->kernels[kernel], launch->grid[0], launch->grid[1],
         launch->grid[2], launch->block[0], launch->block[1], launch->block[2],
         launch->shared_bytes, queue->stream, parameters, NULL);
}

void gpu_multiply(struct gpu_queue *queue, const struct blas *blas,
                  const struct blas_product *product)
{
    if (queue->result == DRIVER_SUCCESS && blas_product(blas, product) != STATUS_OK) {
        queue->result = DRIVER_LAUNCH_OUT_OF_RESOURCES;     /* as if a kernel were refused */
        queue->failed = "cublasGemmEx";
    }
}

void gpu_follow(struct gpu_queue *queue, struct gpu_queue *other)
{
    gpu_mark(other, other->reached);
    CALL(queue, cuStreamWaitEvent, queue->stream, other->reached, 0);
}

void gpu_join(struct gpu_queue *queue, struct gpu_queue *other)
{
    if (gpu_wait(other) != STATUS_OK && queue->result == DRIVER_SUCCESS) {
        queue->result = other->result;
        queue->failed = other->failed;
    }
}

void gpu_mark(struct gpu_queue *queue, struct CUevent_st *event)
{
    CALL(queue, cuEventRecord, event, queue->stream);
}

bool gpu_is_past(struct gpu_queue *queue, struct CUevent_st *event)
{
    if (queue->result != DRIVER_SUCCESS) {
        return false;
    }
    unsigned result = queue->driver->cuEventQuery(event);
    if (result == DRIVER_SUCCESS || result == DRIVER_NOT_READY) {
        return result == DRIVER_SUCCESS;
    }
    queue->result = result;
    queue->failed = "cuEventQuery";
    return false;
}

enum status gpu_wait(struct gpu_queue *queue)
{
    CALL(queue, cuStreamSynchronize, queue->stream);
    return driver_status(queue->result);
}

enum status gpu_check(struct gpu_queue *queue, struct config_error *error)
{
    return gpu_wait(queue) == STATUS_OK ? STATUS_OK : status_of(queue, error);
}
