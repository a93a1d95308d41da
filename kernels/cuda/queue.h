/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: what is asked of a GPU: one stream, our kernels by number, and one piece of its memory that
 * is taken at boot and given out from the front. Further streams are queues beside it, which have
 * no memory.
 *
 * Work is queued; nothing waits but gpu_wait(). The first call that fails is remembered, and what
 * is queued after it is not: so a step is written without a check behind each line and looked at
 * once, at its end. After a failure the context is done for, and so is this process.
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
    uint32_t shared_bytes_max;      /* of a block: what a kernel may ask for */
    unsigned result;                /* of the first call that failed; 0: none has */
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

/* BOOT_ONLY. Asserts that it was reserved. */
uint64_t gpu_take(struct gpu_queue *queue, uint64_t count, uint64_t size_bytes);
/* What gpu_take() of the same uses of a reservation. */
static inline uint64_t gpu_taken_bytes(uint64_t count, uint64_t size_bytes)
{
    return (count * size_bytes + GPU_ALIGN_BYTES - 1) / GPU_ALIGN_BYTES * GPU_ALIGN_BYTES;
}

/* BOOT_ONLY. Host memory that copies may use; a stream; an event. Checked by gpu_check(). */
void gpu_pin(struct gpu_queue *queue, void *memory, uint64_t bytes);
void gpu_create_stream(struct gpu_queue *queue);     /* for a copy of another queue: its own */
void gpu_create_event(struct gpu_queue *queue, struct CUevent_st **event);
void gpu_destroy_event(struct gpu_queue *queue, struct CUevent_st *event);

/* Queued. Host memory is pinned, and stays as it is until gpu_wait(). */
void gpu_upload(struct gpu_queue *queue, uint64_t to, const void *from, uint64_t bytes);
void gpu_download(struct gpu_queue *queue, void *to, uint64_t from, uint64_t bytes);
void gpu_copy(struct gpu_queue *queue, uint64_t to, uint64_t from, uint64_t bytes);
void gpu_clear(struct gpu_queue *queue, uint64_t at, uint64_t bytes);
void gpu_launch_kernel(struct gpu_queue *queue, enum gpu_kernel kernel,
                       const struct gpu_launch *launch, const void *args);
/* gpu_NAME of its arguments, with its own geometry. */
#define GPU_LAUNCH(queue, name, args)                                                       \
    do {                                                                                     \
        struct gpu_launch launch_ = gpu_##name##_launch(args);                               \
        gpu_launch_kernel(queue, GPU_KERNEL_##name, &launch_, args);                        \
    } while (0)

/* A product by the library, which is started on this queue's stream. */
void gpu_multiply(struct gpu_queue *queue, const struct blas *blas,
                  const struct blas_product *product);

/* What is queued from now on runs behind all that is queued on `other` now. */
void gpu_follow(struct gpu_queue *queue, struct gpu_queue *other);
/* Until all that is queued on `other` is done; its failure is this queue's. */
void gpu_join(struct gpu_queue *queue, struct gpu_queue *other);

/* An event behind what is queued now. */
void gpu_mark(struct gpu_queue *queue, struct CUevent_st *event);
/* Has the work before the mark been done? False for ever once something has failed. */
bool gpu_is_past(struct gpu_queue *queue, struct CUevent_st *event);
/* Until all that is queued is done; how the first failure reads, or STATUS_OK. */
MUST_CHECK enum status gpu_wait(struct gpu_queue *queue);
/* BOOT_ONLY. The same, with words for the operator. */
MUST_CHECK enum status gpu_check(struct gpu_queue *queue, struct config_error *error);
