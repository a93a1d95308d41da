/* SPDX-License-Identifier: MIT */
/*
 * What: from what the roles inherit to what another program can be given: orders on the page, and
 * descriptors.
 * Invariant: the orders are written anew for each worker: its predecessor could write there, and is
 * dead.
 */
#include "appliance/gpu_worker.h"

#include <stdio.h>

static uint64_t offset_of(const struct boot *boot, const void *shared)
{
    return (uint64_t)((const uint8_t *)shared - boot->shared_arena.base);
}

static void write_orders(const struct boot *boot, uint32_t epoch)
{
    struct gpu_page *page = boot->gpu_binary.page;
    gpu_binary_order(&boot->gpu_binary, GPU_SERVE, &boot->options);
    page->serve.epoch = epoch;
    page->serve.settings = boot->engine;
    page->serve.layout = boot->step.layout;
    page->serve.control_offset = offset_of(boot, boot->shared.control);
    page->serve.step_offset = offset_of(boot, boot->step.base);
    page->serve.device_bytes = memory_plan_bytes(&boot->plan, MEMORY_DEVICE);
    page->serve.vocabulary_bytes_max = boot->options.limits_vocabulary_bytes.number;
    snprintf(page->serve.model_name, sizeof page->serve.model_name, "%s", boot->source.name);
}

_Noreturn void gpu_worker_run(const struct boot *boot, uint32_t epoch)
{
    const int handles[GPU_HANDLES] = {
        [GPU_PAGE - GPU_PAGE] = boot->gpu_binary.page_handle,
        [GPU_SHARED - GPU_PAGE] = boot->shared_handle,
        [GPU_BELL - GPU_PAGE] = boot->shared.engine_bell,
        [GPU_MODEL - GPU_PAGE] = boot->source.fd,
    };
    write_orders(boot, epoch);
    gpu_binary_run(&boot->gpu_binary, handles);
}
