/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a queue of work on a GPU: one stream, our kernels by number, and one piece of device memory
 * that is reserved at boot and given out from its beginning. Further streams are queues beside it
 * without memory.
 *
 * Work is queued; only gpu_wait() and what calls it wait. The first call that fails is recorded,
 * and all later calls are left out. So the code of a step has no check after each line; the result
 * is checked once, at the end. After a failure the context is lost, and this process must end.
 */
#include "config/config.h"
#include "kernels/cuda/driver/blas.h"
#include "kernels/cuda/driver/device.h"
#include "kernels/cuda/device/kernels.h"

enum gpu_kernel {
#define KERNEL(name) GPU_KERNEL_##name,
#include "kernels/cuda/device/kernels.def"
#undef KERNEL
    GPU_KERNELS
};

struct gpu_queue {
    const struct driver *driver;
    struct CUstream_st *stream;
    struct CUevent_st *reached;     /* what gpu_follow() of another queue waits for */
    struct CUfunc_st *kernels[GPU_KERNELS];
    uint64_t memory, memory_bytes, used_bytes;
    uint32_t shared_bytes_max;      /* that a kernel may request for a thread block */
    unsigned result;                /* of the first call that failed; 0: none */
    const char *failed;             /* its name */
};

#define GPU_ALIGN_BYTES 256u

/* BOOT_ONLY. Loads the kernels on a device whose context is current. */
MUST_CHECK enum status gpu_open(struct gpu_queue *queue, const struct driver *driver,
                                const struct device *device, struct config_error *error);
/* BOOT_ONLY. Another stream of the same device. */
void gpu_open_beside(struct gpu_queue *beside, const struct gpu_queue *queue);
/* BOOT_ONLY. The one reservation. */
MUST_CHECK enum status gpu_reserve(struct gpu_queue *queue, uint64_t bytes,
                                   struct config_error *error);
void gpu_close(struct gpu_queue *queue);

/* BOOT_ONLY. Gives out reserved memory; asserts that there is enough. */
uint64_t gpu_take(struct gpu_queue *queue, uint64_t count, uint64_t size_bytes);
/* What gpu_take() uses of the reservation for the same arguments. */
static inline uint64_t gpu_taken_bytes(uint64_t count, uint64_t size_bytes)
{
    return (count * size_bytes + GPU_ALIGN_BYTES - 1) / GPU_ALIGN_BYTES * GPU_ALIGN_BYTES;
}

/* BOOT_ONLY. Pins host memory for copies; creates a stream, an event. gpu_check() reports
 * failures. */
void gpu_pin(struct gpu_queue *queue, void *memory, uint64_t bytes);
void gpu_create_stream(struct gpu_queue *queue);     /* gives a copied queue its own */
void gpu_create_event(struct gpu_queue *queue, struct CUevent_st **event);
void gpu_destroy_event(struct gpu_queue *queue, struct CUevent_st *event);

/* Queued. Host memory is pinned, and must not change until gpu_wait(). */
void gpu_upload(struct gpu_queue *queue, uint64_t to, const void *from, uint64_t bytes);
void gpu_download(struct gpu_queue *queue, void *to, uint64_t from, uint64_t bytes);
void gpu_copy(struct gpu_queue *queue, uint64_t to, uint64_t from, uint64_t bytes);
void gpu_clear(struct gpu_queue *queue, uint64_t at, uint64_t bytes);
void gpu_launch_kernel(struct gpu_queue *queue, enum gpu_kernel kernel,
                       const struct gpu_launch *launch, const void *args);
/* Launches kernel `name` with its arguments and its own geometry. */
#define GPU_LAUNCH(queue, name, args)                                                       \
    do {                                                                                     \
        struct gpu_launch launch_ = gpu_##name##_launch(args);                               \
        gpu_launch_kernel(queue, GPU_KERNEL_##name, &launch_, args);                        \
    } while (0)

/* A product by the library, which was started on this queue's stream. */
void gpu_multiply(struct gpu_queue *queue, const struct blas *blas,
                  const struct blas_product *product);

/* Work queued from now on runs after all that is queued on `other` now. */
void gpu_follow(struct gpu_queue *queue, struct gpu_queue *other);
/* Waits until all that is queued on `other` is done; its failure becomes this queue's. */
void gpu_join(struct gpu_queue *queue, struct gpu_queue *other);

/* Queues an event after what is queued now. */
void gpu_mark(struct gpu_queue *queue, struct CUevent_st *event);
/* True when the work before the mark is done. Always false after a failure. */
bool gpu_is_past(struct gpu_queue *queue, struct CUevent_st *event);
/* Waits until all that is queued is done; the first failure as a status, or STATUS_OK. */
MUST_CHECK enum status gpu_wait(struct gpu_queue *queue);
/* BOOT_ONLY. The same, with an error text for the operator. */
MUST_CHECK enum status gpu_check(struct gpu_queue *queue, struct config_error *error);
