/* SPDX-License-Identifier: MIT */
/*
 * What: runs one check of the GPU, in a process of its own, which does not give back what it takes.
 * Bounds: the process that ordered the check watches the beats, and kills a check that hangs.
 */
#include "selftest/burn/burn.h"

#include <stdio.h>
#include <sys/mman.h>

#include "selftest/burn/state.h"

void burn_beat(struct burning *b)
{
    b->burn->beats++;
    burn_health_poll(b);
}

bool burn_settle(struct burning *b)
{
    bool is_well = gpu_wait(&b->queue) == STATUS_OK;
    burn_beat(b);
    return is_well;
}

void *burn_pinned(struct burning *b, uint64_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        post_fault_say(&b->burn->faults, "cannot map %llu bytes of the host",
                       (unsigned long long)bytes);
        return NULL;
    }
    gpu_pin(&b->queue, memory, bytes);
    return memory;
}

static void run_check(struct burning *b)
{
    switch ((enum burn_check)b->burn->check) {
    case BURN_OWN_ADDRESS:
    case BURN_SOLID:
    case BURN_CHECKERBOARD:
    case BURN_WALKING_BIT:
    case BURN_RANDOM:
        burn_memory_run(b);
        break;
    case BURN_PRODUCT:
        burn_product_run(b);
        break;
    case BURN_SWAP:
        burn_swap_run(b);
        break;
    case BURN_HEALTH:
        burn_health_run(b);
        break;
    case BURN_DEVICE:
    case BURN_CHECKS:
        snprintf(b->burn->amount, sizeof b->burn->amount, "%.20s, %s", b->device->name,
                 b->device->arch);
        break;
    }
}

enum status burn_run(struct burn *burn, const struct driver *driver, const struct device *device,
                     const char *nvml_library, struct config_error *error)
{
    struct burning burning = {.burn = burn, .device = device};
    struct burning *b = &burning;
    burn_health_begin(b, nvml_library);
    burn_beat(b);
    TRY(gpu_open(&b->queue, driver, device, error));
    burn_beat(b);
    run_check(b);
    burn_health_end(b);
    return gpu_check(&b->queue, error);
}
