/* SPDX-License-Identifier: MIT
 *
 * What: copies to shared memory in flight; see copies.h. Each CUDA thread has a ring of them, in
 * the order of their groups.
 * Bounds: COPIES in flight for each CUDA thread; the process ends where a kernel has more.
 */
#include "selftest/fake/softgpu/copies.h"

#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/device/gpu.h"

#define COPIES 64u

struct copy {
    void *to;
    const void *from;
    uint32_t bytes, group;
};

static struct flight {
    struct copy copies[COPIES];
    uint32_t begun, done;               /* counters of copies */
    uint32_t group;                     /* the one that is open */
} flights[GPU_HOST_THREADS_MAX];
static bool are_late;

void copies_begin(uint32_t threads, bool late)
{
    are_late = late;
    for (uint32_t i = 0; i < threads; i++) {
        flights[i].begun = flights[i].done = flights[i].group = 0;
    }
}

static void copy_run(const struct copy *copy)
{
    if (copy->bytes > 0) {
        memcpy(copy->to, copy->from, copy->bytes);
    }
    memset((uint8_t *)copy->to + copy->bytes, 0, 16 - copy->bytes);
}

void gpu_host_copy_begin(void *to, const void *from, uint32_t bytes)
{
    struct flight *flight = &flights[gpu_host_thread.x];
    const struct copy copy = {to, from, bytes, flight->group};
    if (((uintptr_t)to | (uintptr_t)from) % 16 != 0 || flight->begun - flight->done == COPIES) {
        fprintf(stderr, "gpu_host: a copy that is not aligned, or too many in flight\n");
        abort();
    }
    if (are_late) {
        flight->copies[flight->begun++ % COPIES] = copy;
    } else {
        copy_run(&copy);
    }
}

void gpu_host_copies_close(void)
{
    flights[gpu_host_thread.x].group++;
}

void gpu_host_copies_wait(uint32_t left)
{
    struct flight *flight = &flights[gpu_host_thread.x];
    for (; flight->done < flight->begun; flight->done++) {
        const struct copy *copy = &flight->copies[flight->done % COPIES];
        if (copy->group + left >= flight->group) {
            return;
        }
        copy_run(copy);
    }
}
